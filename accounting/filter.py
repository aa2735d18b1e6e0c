"""Privacy filters: a job is admitted if the sum of live charges stays within a threshold that was fixed beforehand.

A charge is a vector of integers in units of 2^-40, rounded up; thresholds are rounded down. So sums are exact, and
admission is one comparison for any number of jobs. Proof: docs/proofs/filter.md.

    rdp      charge rho(a_k) at fixed orders a_k;  admit iff some k has  sum rho(a_k) <= B_k,
             B_k = epsilon - ln(1 - 1/a_k) + ln(a_k w_k delta) / (a_k - 1),  sum of the weights w_k <= 1
    gdp      charge mu^2;  admit iff  sum mu^2 <= mu*(epsilon, delta)^2
    gdp_rdp  charge both;  admit iff  sum mu^2 <= mu*(epsilon + ln(1 - slack), w_0 delta')^2  or some k has
             sum rho(a_k) <= B_k at w_k delta', and  sum d <= slack;  delta' = delta - slack, all weights together <= 1
    pure     charge epsilon;  admit iff  sum epsilon_i <= epsilon

The slack is a part of delta. It pays for jobs charged by an approximation, which may fail with probability d. Under
`gdp_rdp` each such job uses the d that it needs. Under `rdp` a slack is optional, the B_k are those of delta - slack, d
is slack / 16, and the last coordinate counts such jobs up to 16.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from accounting import charges, thresholds
from accounting.charges import APPROXIMATIONS, CHARGE_LIMIT_UNITS, UNIT, Cost
from accounting.divergences.gaussian import gauss_epsilon, rdp_epsilons
from accounting.errors import OutOfRange
from accounting.numbers import finite
from accounting.plan import AbstractComposition
from accounting.privacy import EPSILON_RANGE, Privacy
from accounting.thresholds import ORDER_RATIOS, SMALLEST_ORDER, Kind

MOST_ORDERS = 3
_DEFAULT_SLACK_SHARE = 1 / 16  # of delta, under `gdp_rdp`, and of the cap below
_SLACK_EPSILON_RATIO = 0.01  # caps the default slack at a sixteenth of this share of epsilon
_NEXT_JOB_SHARE = 1 - 1e-9  # of what remains: the next job's charge is rounded up by less than the rest
_LOG_ROUNDING = 1 + 1e-12  # more than a logarithm may lose
_NO_GUARANTEE = 1e9  # the epsilon to state if external charges have used up all of delta
_PORTABLE_BITS = 30  # two platforms' charges agree to 2^-30, relatively
_APPROXIMATION_BITS = 10  # approximations only to 2^-10: another last digit may end the loss one grid cell further


@dataclass(frozen=True, slots=True)
class Filter:
    """The admission rule of one dataset for an overall (epsilon, delta), under either relation.

    Make one with `Filter.open`, or read one back with `accounting.records.filters`.

    Parameters
    ----------
    kind : the currency
    privacy : the overall guarantee
    orders : of Renyi divergence, fixed at registration
    weights : of mu^2 beside orders, then of each order; empty if there are no orders
    thresholds : of mu^2, of epsilon or of the orders (mu^2 first), in units of 2^-40; with a slack its own comes last
    slack : the part of delta for approximations; 0 if there is none

    Reference: Feldman and Zrnic 2021 (rdp at one order; the union bound over coordinates is ours); Smith and
    Thakurta 2022 (gdp); Rogers, Roth, Ullman and Vadhan 2016 (pure); docs/spec 9 and 21.
    """

    kind: Kind
    privacy: Privacy
    orders: tuple[float, ...]
    weights: tuple[float, ...]
    thresholds: Cost
    slack: float = 0.0

    @staticmethod
    def open(kind: Kind, privacy: Privacy, slack: float = 0.0) -> "Filter":
        """Return the filter of a new dataset. The default slack under `gdp_rdp` is at most a sixteenth of delta.

        Raises
        ------
        OutOfRange
            if delta does not suit the kind (0 for `pure`, positive otherwise), the slack does not (at most delta / 2,
            and only for `rdp` and `gdp_rdp`), or no threshold would be positive.
        """
        if kind == "gdp_rdp" and slack == 0.0:
            slack = min(privacy.delta, privacy.epsilon * _SLACK_EPSILON_RATIO) * _DEFAULT_SLACK_SHARE
        if kind not in ORDER_RATIOS or privacy.is_pure:
            return filter_with(kind, privacy, (), (), slack)
        delta = _delta_without_slack(kind, privacy, slack)
        orders = thresholds.orders(kind, privacy.epsilon, delta, delta if kind == "rdp" else privacy.delta)
        return filter_with(kind, privacy, orders, thresholds.weights(kind, len(orders)), slack)

    @property
    def zero_cost(self) -> Cost:
        """The empty sum of charges."""
        return (0,) * len(self.thresholds)

    def raised(self, privacy: Privacy) -> "Filter":
        """Return the filter of a larger guarantee, with the same orders, weights and slack.

        Raises `OutOfRange` unless the guarantee is larger in epsilon, in delta, or in both.
        """
        is_lower = privacy.epsilon < self.privacy.epsilon or privacy.delta < self.privacy.delta
        larger = self if is_lower else filter_with(self.kind, privacy, self.orders, self.weights, self.slack)
        if not larger.is_raise_of(self):
            raise OutOfRange("a budget may only grow. Raise epsilon, delta or both, and lower neither")
        return larger

    def is_raise_of(self, previous: "Filter") -> bool:
        """Return whether this filter has a larger guarantee, and all that is fixed before any answer is unchanged."""
        fixed = ("kind", "orders", "weights", "slack")
        if any(getattr(self, name) != getattr(previous, name) for name in fixed) or self.privacy == previous.privacy:
            return False
        new = (self.privacy.epsilon, self.privacy.delta, *self.thresholds)
        old = (previous.privacy.epsilon, previous.privacy.delta, *previous.thresholds)
        return all(a >= b for a, b in zip(new, old, strict=True))

    @property
    def most_slack(self) -> int:
        """The largest slack that one job may charge, in units of the slack's coordinate."""
        return _CURRENCIES[self.kind].most_slack_per_job

    def curve(self, cost: Cost) -> Cost:
        """Return a vector of this filter without its slack coordinate."""
        return cost[:-1] if self.slack else cost

    def cost(self, plan: AbstractComposition) -> Cost:
        """Return the plan's charge: at least its true cost, and at least 1 in every coordinate except the slack's.

        Raises `FilterMismatch` if the plan has no curve in this currency, and `BudgetExhausted` if the charge is
        infinite or 2^62 units or more, which no budget of this service could hold.
        """
        return _CURRENCIES[self.kind].cost(self, plan)

    def pays(self, paid: Cost, plan: AbstractComposition) -> bool:
        """Return whether a charge covers the plan's, apart from another platform's last digits.

        The plan is charged by an approximation with the slack that was paid, or else without one. So a charge without
        slack still pays after an approximation has become cheaper. Raises as `cost`.
        """
        for slack in dict.fromkeys((self.vector(paid)[-1] if self.slack else 0, 0)):
            cost = _CURRENCIES[self.kind].cost_at(self, plan, slack)
            bits = _APPROXIMATION_BITS if slack and self.kind == "gdp_rdp" else _PORTABLE_BITS
            if cost is not None and all(c <= p + (p >> bits) + 1 for c, p in zip(cost, paid, strict=True)):
                return True
        return False

    def admits(self, spent: Cost, cost: Cost) -> bool:
        """Return whether the live charges and this one stay within some threshold, within the slack and below 2^62.

        Raises `OutOfRange` unless both are vectors of this filter: integers in [0, 2^62), one for each threshold.
        """
        total = tuple(a + b for a, b in zip(self.vector(spent), self.vector(cost), strict=True))
        is_within = any(t <= top for t, top in zip(self.curve(total), self.curve(self.thresholds), strict=True))
        is_within_slack = not self.slack or total[-1] <= self.thresholds[-1]
        return max(total) < CHARGE_LIMIT_UNITS and is_within and is_within_slack

    def vector(self, cost: Cost) -> Cost:
        """Return `cost`; `OutOfRange` unless it is a vector of this filter (see `admits`)."""
        are_units = all(type(c) is int and 0 <= c < CHARGE_LIMIT_UNITS for c in cost)
        if len(cost) != len(self.thresholds) or not are_units:
            raise OutOfRange("a charge must be one integer in [0, 2^62) for each threshold of the filter")
        return cost

    def share(self, cost: Cost, spent: Cost) -> float:
        """Return `cost` as a share of the threshold of the coordinate with the most room when `spent` is spent.

        At one `spent`, shares add up to 1: those of all charges in it, and that of what remains.
        """
        tops = self.curve(self.thresholds)
        shares = [c / top for c, top in zip(self.curve(self.vector(spent)), tops, strict=True)]
        widest = shares.index(min(shares))
        return self.vector(cost)[widest] / tops[widest]

    def spent_epsilon(self, spent: Cost) -> float:
        """Return the smallest epsilon whose filter of the same orders and delta would hold these charges, rounded up.

        Under `gdp_rdp` it is what the charges guarantee if they were fixed beforehand, each coordinate with all of
        delta. It is 0 for no charges, and at most the budget's epsilon if a threshold holds them.
        """
        if not any(self.vector(spent)):
            return 0.0
        epsilon = _CURRENCIES[self.kind].spent_epsilon(self, spent)
        return min(epsilon, self.privacy.epsilon) if self.admits(self.zero_cost, spent) else epsilon

    def remaining_epsilon(self, spent: Cost) -> float:
        """Return the largest epsilon, at the budget's delta, of one more job that is admitted, rounded down.

        The job is Gaussian and calibrated exactly, or pure under `pure`. Epsilons below the smallest allowed become 0.
        """
        epsilon = _CURRENCIES[self.kind].next_epsilon(self, self.room(self.vector(spent)))
        return min(epsilon, self.privacy.epsilon) if epsilon >= EPSILON_RANGE[0] else 0.0

    def room(self, spent: Cost) -> list[int]:
        """Return the room on each coordinate except the slack's; negative if charges exceed the threshold."""
        return [top - s for top, s in zip(self.curve(self.thresholds), self.curve(spent), strict=True)]


class _Currency(ABC):
    """The arithmetic of one kind of filter."""

    slack_threshold: ClassVar[int] = 0  # of the slack's coordinate, if the filter has a slack
    most_slack_per_job: ClassVar[int] = 0  # on that coordinate

    @abstractmethod
    def thresholds(self, rule: Filter) -> Cost:
        """Return the thresholds without the slack's, for a filter that has none yet."""

    @abstractmethod
    def cost(self, rule: Filter, plan: AbstractComposition) -> Cost:
        """Return the plan's charge."""

    def cost_at(self, rule: Filter, plan: AbstractComposition, slack: int) -> Cost | None:  # noqa: ARG002
        """Return the plan's charge by an approximation with this slack, or without one if it is 0; None if none is."""
        return self.cost(rule, plan)

    def spent_epsilon(self, rule: Filter, spent: Cost) -> float:
        """Return the epsilon of charges that are not all 0, rounded up.

        It is the budget's less the largest room, if thresholds move one for one with epsilon.
        """
        return _float_above(max(Fraction(0), Fraction(rule.privacy.epsilon) - Fraction(max(rule.room(spent)), UNIT)))

    def next_epsilon(self, rule: Filter, room: list[int]) -> float:
        """Return the largest epsilon of one more job in this room, rounded down; at most 0 if there is none.

        It is that of a Gaussian job that fills the coordinate with the most room.
        """
        charge_per_square = (1.0,) * (len(room) - len(rule.orders)) + tuple(a / 2 for a in rule.orders)
        square = max((free - 1) / rate for free, rate in zip(room, charge_per_square, strict=True)) / UNIT
        if square <= 0:
            return 0.0
        return gauss_epsilon(math.sqrt(square * _NEXT_JOB_SHARE), rule.privacy.delta) * _NEXT_JOB_SHARE


def _renyi_thresholds(rule: Filter, weights: tuple[float, ...]) -> Cost:
    """Return the threshold of each order at its weight's part of delta."""
    delta = _delta_without_slack(rule.kind, rule.privacy, rule.slack)
    weighed = zip(rule.orders, weights, strict=True)
    return tuple(thresholds.renyi(rule.privacy.epsilon, delta, a, w) for a, w in weighed)


class _Renyi(_Currency):
    """Renyi divergences at fixed orders."""

    slack_threshold, most_slack_per_job = APPROXIMATIONS, 1

    def thresholds(self, rule: Filter) -> Cost:
        return _renyi_thresholds(rule, rule.weights)

    def cost(self, rule: Filter, plan: AbstractComposition) -> Cost:
        return charges.renyi(plan, rule.orders, rule.curve(rule.thresholds), rule.slack)

    def cost_at(self, rule: Filter, plan: AbstractComposition, slack: int) -> Cost | None:
        if slack:
            return charges.renyi_at(plan, rule.orders, rule.slack)
        return charges.exact_renyi(plan, rule.orders) + ((0,) if rule.slack else ())


class _Gaussian(_Currency):
    """The total mu^2 of Gaussian-DP mechanisms."""

    def thresholds(self, rule: Filter) -> Cost:
        return (thresholds.gaussian(rule.privacy.epsilon, rule.privacy.delta),)

    def cost(self, rule: Filter, plan: AbstractComposition) -> Cost:  # noqa: ARG002
        return charges.gaussian(plan)

    def spent_epsilon(self, rule: Filter, spent: Cost) -> float:
        return gauss_epsilon(_mu(spent[0]), rule.privacy.delta)


class _Mixed(_Currency):
    """Both: the total mu^2, and Renyi divergences at fixed orders."""

    slack_threshold, most_slack_per_job = UNIT, UNIT

    def thresholds(self, rule: Filter) -> Cost:
        epsilon, delta = rule.privacy.epsilon, _delta_without_slack(rule.kind, rule.privacy, rule.slack)
        lowered = math.nextafter(epsilon + math.log1p(-rule.slack) * _LOG_ROUNDING, 0.0)
        square = thresholds.gaussian(lowered, math.nextafter(delta * rule.weights[0], 0.0))
        return (square, *_renyi_thresholds(rule, rule.weights[1:]))

    def cost(self, rule: Filter, plan: AbstractComposition) -> Cost:
        return charges.mixed(plan, rule.orders, rule.curve(rule.thresholds), rule.slack)

    def cost_at(self, rule: Filter, plan: AbstractComposition, slack: int) -> Cost | None:
        if slack:
            return charges.mixed_at(plan, rule.orders, rule.slack, slack)
        return charges.exact_mixed(plan, rule.orders)

    def spent_epsilon(self, rule: Filter, spent: Cost) -> float:
        d = rule.slack * (spent[-1] / UNIT) * _LOG_ROUNDING
        delta = rule.privacy.delta - d
        if delta <= 0:
            return _NO_GUARANTEE
        rho = np.array([_float_above(Fraction(s, UNIT)) for s in rule.curve(spent)[1:]])
        by_order = float(rdp_epsilons(rule.orders, rho, delta).min())
        epsilon = max(0.0, min(by_order, gauss_epsilon(_mu(spent[0]), delta)))
        return (epsilon - math.log1p(-d)) * _LOG_ROUNDING


class _Pure(_Currency):
    """The sum of epsilons, at delta = 0."""

    def thresholds(self, rule: Filter) -> Cost:
        return (math.floor(Fraction(rule.privacy.epsilon) * UNIT),)

    def cost(self, rule: Filter, plan: AbstractComposition) -> Cost:  # noqa: ARG002
        return charges.pure(plan)

    def next_epsilon(self, rule: Filter, room: list[int]) -> float:  # noqa: ARG002
        return (room[0] - 1) / UNIT * _NEXT_JOB_SHARE


_CURRENCIES: dict[Kind, _Currency] = {"rdp": _Renyi(), "gdp": _Gaussian(), "gdp_rdp": _Mixed(), "pure": _Pure()}


@lru_cache(1024)  # each charge and each budget query reads its ledger's filter
def filter_with(
    kind: Kind, privacy: Privacy, orders: tuple[float, ...], weights: tuple[float, ...], slack: float = 0.0
) -> Filter:
    """Return the filter with the thresholds of these parameters; `OutOfRange` if there is no such filter."""
    if (kind == "pure") != privacy.is_pure:
        raise OutOfRange("delta must be 0 under filter 'pure', and positive under any other")
    if len(orders) + (kind == "gdp_rdp") != len(weights) or (kind in ORDER_RATIOS) != bool(orders):
        raise OutOfRange("weights must be one for each order, and one for mu^2 under 'gdp_rdp'")
    if any(a < SMALLEST_ORDER for a in orders) or any(w <= 0 for w in weights) or sum(map(Fraction, weights)) > 1:
        raise OutOfRange("orders must be above 1, weights positive and at most 1 in total")
    _delta_without_slack(kind, privacy, slack)  # refuses a slack that this kind cannot have
    rule = Filter(kind, privacy, orders, weights, (), slack)
    currency = _CURRENCIES[kind]
    tops = currency.thresholds(rule)
    if min(tops) <= 0:
        raise OutOfRange("this budget is too small: no charge would ever fit it")
    return replace(rule, thresholds=(*tops, currency.slack_threshold) if slack else tops)


def _delta_without_slack(kind: Kind, privacy: Privacy, slack: float) -> float:
    """Return delta less the slack, rounded down; `OutOfRange` if the filter cannot have this slack."""
    if slack == 0.0 and kind != "gdp_rdp":
        return privacy.delta
    if kind not in ORDER_RATIOS or not 0 < finite(slack, "slack") <= privacy.delta / 2:
        raise OutOfRange("slack must lie in (0, delta / 2], and only filters 'rdp' and 'gdp_rdp' have one")
    return math.nextafter(privacy.delta - slack, 0.0)


def _mu(square: int) -> float:
    """Return mu, rounded up, from mu^2 in units."""
    return math.nextafter(math.sqrt(_float_above(Fraction(square, UNIT))), math.inf)


def _float_above(value: Fraction) -> float:
    """Return a float above the value, since `float` rounds to nearest."""
    return math.nextafter(float(value), math.inf)


__all__ = ["APPROXIMATIONS", "CHARGE_LIMIT_UNITS", "UNIT", "Cost", "Filter", "Kind", "filter_with"]
