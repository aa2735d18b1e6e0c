"""Privacy filters: a job is admitted iff the sum of live charges stays within a threshold fixed beforehand.

A charge is a vector of integers in units of 2^-40, rounded up; a threshold is rounded down; so sums are exact
and admission is one comparison, whatever the number of jobs. Proof: docs/proofs/filter.md.

    rdp      charge rho(a_k) at fixed orders a_k;  admit iff some k has  sum rho(a_k) <= B_k,
             B_k = epsilon - ln(1 - 1/a_k) + ln(a_k w_k delta) / (a_k - 1),  sum of the weights w_k <= 1
    gdp      charge mu^2;  admit iff  sum mu^2 <= mu*(epsilon, delta)^2
    gdp_rdp  charge both;  admit iff  sum mu^2 <= mu*(epsilon + ln(1 - slack), w_0 delta')^2  or some k has
             sum rho(a_k) <= B_k at w_k delta', and  sum d <= slack;  delta' = delta - slack, all weights together <= 1
    pure     charge epsilon;  admit iff  sum epsilon_i <= epsilon

A slack is a part of delta for jobs that are charged the cost of an approximation, which is off with probability d.
`gdp_rdp` always has one, and each such job as much of it as it needs. `rdp` may have one: then its B_k are those of
delta - slack, d is slack / 16, and the last coordinate counts such jobs up to 16.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import numpy as np

from accounting import charges, thresholds
from accounting.charges import APPROXIMATIONS, MOST, UNIT, Cost
from accounting.divergences.gaussian import gauss_epsilon, rdp_epsilons
from accounting.errors import OutOfRange
from accounting.numbers import finite
from accounting.plan import AbstractComposition
from accounting.privacy import EPSILON_RANGE, Privacy
from accounting.thresholds import LEAST_ORDER, SHARES, Kind

MOST_ORDERS = 3
_SLACK, _LITTLE = 1 / 16, 0.01  # of delta, the slack where none is named; and at most of that share of epsilon
_ROOM = 1 - 1e-9  # kept free by `remaining_epsilon` for the rounding of the charge that will be asked
_UP = 1 + 1e-12  # more than a logarithm may lose
_NO_PROMISE = 1e9  # where charges from outside have used up all of delta


@dataclass(frozen=True, slots=True)
class Filter:
    """The admission rule of one dataset for an overall (epsilon, delta), whatever its neighbors; n is public.

    Make one with `Filter.open`, or read one back with `accounting.records.filters`.

    Parameters
    ----------
    kind : the currency
    privacy : the overall promise
    orders : of Renyi divergence, fixed at registration
    weights : of mu^2 beside orders, then of each order; empty where there is no order
    thresholds : of mu^2, of epsilon or of the orders (mu^2 first); units of 2^-40; with a slack also its own, the last
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
        """The filter of a new dataset; under `gdp_rdp` a slack that is not named is a sixteenth of delta at most.

        Raises
        ------
        OutOfRange
            if delta does not suit the kind (0 for `pure`, positive else), the slack neither (below delta / 2, and for
            `rdp` and `gdp_rdp` alone), or no threshold would be positive.
        """
        if kind == "gdp_rdp" and slack == 0.0:
            slack = min(privacy.delta, privacy.epsilon * _LITTLE) * _SLACK
        if kind not in SHARES or privacy.is_pure:
            return filter_with(kind, privacy, (), (), slack)
        rest = _rest(kind, privacy, slack)
        orders = thresholds.orders(kind, privacy.epsilon, rest, rest if kind == "rdp" else privacy.delta)
        return filter_with(kind, privacy, orders, thresholds.weights(kind, len(orders)), slack)

    @property
    def zero_cost(self) -> Cost:
        """The empty sum of charges."""
        return (0,) * len(self.thresholds)

    def raised(self, privacy: Privacy) -> "Filter":
        """The filter of a larger promise, its orders, weights and slack as they were fixed before any answer.

        Raises
        ------
        OutOfRange
            if it is not larger: in epsilon, in delta, or in both.
        """
        found = filter_with(self.kind, privacy, self.orders, self.weights, self.slack)
        if not found.is_raise_of(self):
            raise OutOfRange("a budget may only grow: in epsilon, in delta, or in both")
        return found

    def is_raise_of(self, before: "Filter") -> bool:
        """Whether this is the filter of a larger promise, and what had to be fixed before any answer is as it was."""
        kept = all(getattr(self, name) == getattr(before, name) for name in ("kind", "orders", "weights", "slack"))
        grown = self.privacy.epsilon >= before.privacy.epsilon and self.privacy.delta >= before.privacy.delta
        tops = zip(self.thresholds, before.thresholds, strict=True) if kept else ()
        return kept and grown and self.privacy != before.privacy and all(now >= then for now, then in tops)

    @property
    def most_slack(self) -> int:
        """The most that one job may charge of the slack."""
        return UNIT if self.kind == "gdp_rdp" else 1

    def curve(self, cost: Cost) -> Cost:
        """A vector of this filter without what it charges of the slack."""
        return cost[:-1] if self.slack else cost

    def cost(self, plan: AbstractComposition) -> Cost:
        """The plan's charge, at least the true cost and at least 1 in every coordinate but that of the slack.

        Raises
        ------
        FilterMismatch
            if the plan has no curve in this currency.
        BudgetExhausted
            if the charge is infinite or 2^62 units or more: no budget of this service could hold it.
        """
        match self.kind:
            case "rdp":
                return charges.renyi(plan, self.orders, self.curve(self.thresholds), self.slack)
            case "gdp":
                return charges.gaussian(plan)
            case "gdp_rdp":
                return charges.mixed(plan, self.orders, self.curve(self.thresholds), self.slack)
            case "pure":
                return charges.pure(plan)
            case _:
                assert_never(self.kind)

    def pays(self, paid: Cost, plan: AbstractComposition) -> bool:
        """Whether a charge covers the plan's, but for another platform's last digits; with an approximation, of as much
        of the slack as was paid.

        Raises
        ------
        FilterMismatch, BudgetExhausted
            as `cost`.
        """
        near = self.kind == "gdp_rdp" and self.vector(paid)[-1] > 0
        cost = charges.mixed_at(plan, self.orders, self.slack, paid[-1]) if near else self.cost(plan)
        digits = 10 if near else 30  # another last digit may end the loss one cell of its grid further
        return cost is not None and all(c <= p + (p >> digits) + 1 for c, p in zip(cost, paid, strict=True))

    def admits(self, spent: Cost, cost: Cost) -> bool:
        """Whether the live charges and this one together stay within some threshold, and all within 2^62.

        Raises
        ------
        OutOfRange
            if either is not a vector of this filter: integers in [0, 2^62), one for each threshold.
        """
        total = tuple(a + b for a, b in zip(self.vector(spent), self.vector(cost), strict=True))
        some = any(t <= top for t, top in zip(self.curve(total), self.curve(self.thresholds), strict=True))
        return max(total) < MOST and some and (not self.slack or total[-1] <= self.thresholds[-1])

    def vector(self, cost: Cost) -> Cost:
        """`cost`, if it is a vector of this filter (see `admits`)."""
        if len(cost) != len(self.thresholds) or any(type(c) is not int or not 0 <= c < MOST for c in cost):
            raise OutOfRange("a charge is one integer in [0, 2^62) for each threshold of the filter")
        return cost

    def share(self, cost: Cost, spent: Cost) -> float:
        """`cost` as a part of the threshold of the coordinate that has the most room left when `spent` is.

        Read beside one `spent`, shares add up: of all charges that it is the sum of, and of what remains, to 1.
        """
        tops = self.curve(self.thresholds)
        parts = [c / top for c, top in zip(self.curve(self.vector(spent)), tops, strict=True)]
        widest = parts.index(min(parts))
        return self.vector(cost)[widest] / tops[widest]

    def spent_epsilon(self, spent: Cost) -> float:
        """The least epsilon whose filter of the same orders and delta would hold these charges, rounded up; under
        `gdp_rdp` what they guarantee had they been fixed beforehand, each coordinate with all of delta.

        0 for no charges. At most the budget's epsilon where a threshold holds them.
        """
        if not any(self.vector(spent)):
            return 0.0
        budget = self.privacy.epsilon
        match self.kind:
            case "gdp":
                value = gauss_epsilon(_mu(spent[0]), self.privacy.delta)
            case "gdp_rdp":
                off = self.slack * (spent[-1] / UNIT) * _UP
                rest = self.privacy.delta - off
                value = (self._fixed_epsilon(spent, rest) - math.log1p(-off)) * _UP if rest > 0 else _NO_PROMISE
            case "rdp" | "pure":  # these thresholds move one for one with epsilon
                value = _up(max(Fraction(0), Fraction(budget) - Fraction(max(self._left(spent)), UNIT)))
            case _:
                assert_never(self.kind)
        return min(value, budget) if self.admits(self.zero_cost, spent) else value

    def remaining_epsilon(self, spent: Cost) -> float:
        """The largest epsilon, at the budget's delta, of one more job that is admitted, rounded down.

        The job is Gaussian and calibrated exactly, or pure under `pure`. 0 if it would be below the least
        epsilon that may be asked for.
        """
        left = self._left(self.vector(spent))
        if self.kind == "pure":
            value = (left[0] - 1) / UNIT * _ROOM
        else:
            per_square = (1.0,) * (len(left) - len(self.orders)) + tuple(a / 2 for a in self.orders)
            squares = [(free - 1) / rate for free, rate in zip(left, per_square, strict=True)]
            value = _gaussian_epsilon(max(squares) / UNIT, self.privacy.delta)
        return min(value, self.privacy.epsilon) if value >= EPSILON_RANGE[0] else 0.0

    def _fixed_epsilon(self, spent: Cost, delta: float) -> float:
        """The least epsilon that mu^2 or an order tells, each with all of delta."""
        rho = np.array([_up(Fraction(s, UNIT)) for s in self.curve(spent)[1:]])
        by_order = float(rdp_epsilons(self.orders, rho, delta).min())
        return max(0.0, min(by_order, gauss_epsilon(_mu(spent[0]), delta)))

    def _left(self, spent: Cost) -> list[int]:
        return [top - s for top, s in zip(self.curve(self.thresholds), self.curve(spent), strict=True)]


@lru_cache(1024)  # each charge and each budget query reads its ledger's
def filter_with(
    kind: Kind, privacy: Privacy, orders: tuple[float, ...], weights: tuple[float, ...], slack: float = 0.0
) -> Filter:
    """The filter with the thresholds that its parameters allow; `OutOfRange` if there is no such filter."""
    if (kind == "pure") != privacy.is_pure:
        raise OutOfRange("delta must be 0 under filter 'pure', and positive under any other")
    if len(orders) + (kind == "gdp_rdp") != len(weights) or (kind in SHARES) != bool(orders):
        raise OutOfRange("the filters that have orders, and no other, have weights: one for each, and one for mu^2")
    if any(a < LEAST_ORDER for a in orders) or any(w <= 0 for w in weights) or sum(map(Fraction, weights)) > 1:
        raise OutOfRange("orders must be above 1, weights positive and at most 1 in total")
    rest, (epsilon, delta) = _rest(kind, privacy, slack), (privacy.epsilon, privacy.delta)
    match kind:
        case "rdp":
            tops = tuple(thresholds.renyi(epsilon, rest, a, w) for a, w in zip(orders, weights, strict=True))
        case "gdp":
            tops = (thresholds.gaussian(epsilon, delta),)
        case "gdp_rdp":
            lowered = math.nextafter(epsilon + math.log1p(-slack) * _UP, 0.0)
            weighed = zip(orders, weights[1:], strict=True)
            own = thresholds.gaussian(lowered, math.nextafter(rest * weights[0], 0.0))
            tops = (own, *(thresholds.renyi(epsilon, rest, a, w) for a, w in weighed))
        case "pure":
            tops = (math.floor(Fraction(epsilon) * UNIT),)
        case _:
            assert_never(kind)
    if min(tops) <= 0:
        raise OutOfRange("this budget is too small: no charge would ever fit it")
    last = () if not slack else (UNIT,) if kind == "gdp_rdp" else (APPROXIMATIONS,)
    return Filter(kind, privacy, orders, weights, tops + last, slack)


def _rest(kind: Kind, privacy: Privacy, slack: float) -> float:
    """What is left of delta once the slack is set aside, rounded down; `OutOfRange` if it cannot be."""
    if slack == 0.0 and kind != "gdp_rdp":
        return privacy.delta
    if kind not in SHARES or not 0 < finite(slack, "slack") <= privacy.delta / 2:
        raise OutOfRange("a slack lies in (0, delta / 2], and only filters 'rdp' and 'gdp_rdp' have one")
    return math.nextafter(privacy.delta - slack, 0.0)


def _mu(squared: int) -> float:
    """mu, rounded up."""
    return math.nextafter(math.sqrt(_up(Fraction(squared, UNIT))), math.inf)


def _gaussian_epsilon(mu_squared: float, delta: float) -> float:
    """The epsilon at delta of a little less than this mu^2, rounded down; 0 if mu^2 is not positive."""
    return gauss_epsilon(math.sqrt(mu_squared * _ROOM), delta) * _ROOM if mu_squared > 0 else 0.0


def _up(value: Fraction) -> float:
    """The float above: `float` rounds to nearest."""
    return math.nextafter(float(value), math.inf)


__all__ = ["APPROXIMATIONS", "MOST", "UNIT", "Cost", "Filter", "Kind", "filter_with"]
