"""Privacy filters: a job is admitted iff the sum of live charges stays within a threshold fixed beforehand.

A charge is a vector of integers in units of 2^-40, rounded up; a threshold is rounded down; so sums are exact
and admission is one comparison, whatever the number of jobs. Proof: docs/proofs/filter.md.

    rdp    charge rho(a_k) at fixed orders a_k;  admit iff some k has  sum rho(a_k) <= B_k,
           B_k = epsilon - ln(1 - 1/a_k) + ln(a_k w_k delta) / (a_k - 1),  sum of the weights w_k <= 1
    gdp    charge mu^2;  admit iff  sum mu^2 <= mu*(epsilon, delta)^2
    pure   charge epsilon;  admit iff  sum epsilon_i <= epsilon

The Renyi filter may set a slack, part of delta, aside: its B_k are those of delta - slack, and there is one coordinate
more, of threshold 16. A job may then charge the curve of an approximation, which is off with probability slack / 16,
and 1 there; all others charge 0 there. Both must hold: some k, and at most 16 approximations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.errors import BudgetExhausted, FilterMismatch, OutOfRange
from accounting.numbers import finite
from accounting.privacy import EPSILON_RANGE, Privacy

Cost = tuple[int, ...]
Kind = Literal["rdp", "gdp", "pure"]

UNIT = 2**40  # units in 1.0
MOST = 2**62  # no charge and no sum of charges reaches it, so that every one fits a signed 64-bit column
SHARES = (0.55, 1.0, 1.8)  # of a*, the orders of a new Renyi filter
APPROXIMATIONS = 16  # a power of two, so that slack / 16 is exact
_WORTH = 0.5  # an approximation is taken where it costs less than this share of the true curve
_LEAST_ORDER = 1.01  # nearer to 1 a threshold could not be computed to one unit; none would be positive there
_ROUNDING = 1 + Fraction(1, 2**36)  # covers the float rounding of a plan's curve: Q queries cost it (Q + 8) 2^-53
_ROOM = 1 - 1e-9  # kept free by `remaining_epsilon` for the rounding of the charge that will be asked


class Curves(Protocol):
    """What a plan must offer to be charged: one curve for each currency, or None where it has none."""

    def rdp(self, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a), at each order."""
        ...

    def approximate_rdp(self, orders: Sequence[float], slack: float) -> NDArray[np.float64] | None:
        """The same of laws from which the plan's differ with probability at most `slack`; None if it has no such."""
        ...

    def gdp(self) -> float | None:
        """mu."""
        ...

    def pure(self) -> float | None:
        """epsilon at delta = 0."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """The admission rule of one dataset for an overall (epsilon, delta); replace-one neighbors, n public.

    Make one with `Filter.open`, or read one back with `accounting.records.filters`.

    Parameters
    ----------
    kind : the currency
    privacy : the overall promise
    orders, weights : of the Renyi filter, fixed at registration; empty otherwise
    thresholds : one per order, or a single one; units of 2^-40; with a slack also 16, the last
    slack : the part of delta for approximations; 0 if there is none

    Reference: Feldman and Zrnic 2021 (rdp at one order; the union bound over orders is ours); Smith and
    Thakurta 2022 (gdp); Rogers, Roth, Ullman and Vadhan 2016 (pure).
    """

    kind: Kind
    privacy: Privacy
    orders: tuple[float, ...]
    weights: tuple[float, ...]
    thresholds: Cost
    slack: float = 0.0

    @staticmethod
    def open(kind: Kind, privacy: Privacy, slack: float = 0.0) -> "Filter":
        """The filter of a new dataset.

        Raises
        ------
        OutOfRange
            if delta does not suit the kind (0 for `pure`, positive else), the slack neither (below delta / 2, and for
            `rdp` alone), or no threshold would be positive.
        """
        orders = _orders(_rest(kind, privacy, slack)) if kind == "rdp" and not privacy.is_pure else ()
        return checked(kind, privacy, orders, _equal_weights(len(orders)), slack)

    @property
    def nothing(self) -> Cost:
        """The empty sum of charges."""
        return (0,) * len(self.thresholds)

    def raised(self, privacy: Privacy) -> "Filter":
        """The filter of a larger promise, its orders, weights and slack as they were fixed before any answer.

        Raises
        ------
        OutOfRange
            if it is not larger: in epsilon, in delta, or in both.
        """
        found = checked(self.kind, privacy, self.orders, self.weights, self.slack)
        if not found.raises(self):
            raise OutOfRange("a budget may only grow: in epsilon, in delta, or in both")
        return found

    def raises(self, before: "Filter") -> bool:
        """Whether this is the filter of a larger promise, and what had to be fixed before any answer is as it was."""
        kept = all(getattr(self, name) == getattr(before, name) for name in ("kind", "orders", "weights", "slack"))
        grown = self.privacy.epsilon >= before.privacy.epsilon and self.privacy.delta >= before.privacy.delta
        tops = zip(self.thresholds, before.thresholds, strict=True) if kept else ()
        return kept and grown and self.privacy != before.privacy and all(now >= then for now, then in tops)

    def curve(self, cost: Cost) -> Cost:
        """A vector of this filter without its count of approximations."""
        return cost[:-1] if self.slack else cost

    def cost(self, plan: Curves) -> Cost:
        """The plan's charge, at least the true curve and at least 1 in every coordinate but that of approximations.

        Raises
        ------
        FilterMismatch
            if the plan has no curve in this currency.
        BudgetExhausted
            if the charge is infinite or 2^62 units or more: no budget of this service could hold it.
        """
        match self.kind:
            case "rdp":
                return self._renyi_cost(plan)
            case "gdp":
                mu = plan.gdp()
                if mu is None:
                    raise FilterMismatch("a dataset with filter 'gdp' admits Gaussian mechanisms only")
                return (_units(mu * mu),)
            case "pure":
                epsilon = plan.pure()
                if epsilon is None:
                    raise FilterMismatch("a dataset with filter 'pure' admits mechanisms with delta = 0 only")
                return (_units(epsilon),)
            case _:
                assert_never(self.kind)

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

    def spent_epsilon(self, spent: Cost) -> float:
        """The least epsilon whose filter of the same orders and delta would hold these charges, rounded up.

        0 for no charges. Never above the budget's epsilon, which every sum of live charges keeps (one that no
        threshold holds is a single job within the budget by its own guarantee, see `accounting.records.ledger`).
        """
        if not any(self.vector(spent)):
            return 0.0
        budget = self.privacy.epsilon
        if self.kind == "gdp":
            mu = math.nextafter(math.sqrt(_up(Fraction(spent[0], UNIT))), math.inf)
            value = gauss_epsilon(mu, self.privacy.delta)
        else:  # these thresholds move one for one with epsilon
            value = _up(max(Fraction(0), Fraction(budget) - Fraction(max(self._left(spent)), UNIT)))
        return min(value, budget)

    def remaining_epsilon(self, spent: Cost) -> float:
        """The largest epsilon, at the budget's delta, of one more job that is admitted, rounded down.

        The job is Gaussian and calibrated exactly (rdp, gdp), or pure. 0 if it would be below the least
        epsilon that may be asked for.
        """
        left = self._left(self.vector(spent))
        delta = self.privacy.delta
        match self.kind:
            case "rdp":
                squares = [2 * (free - 1) / a for free, a in zip(left, self.orders, strict=True)]
                value = _gaussian_epsilon(max(squares) / UNIT, delta)
            case "gdp":
                value = _gaussian_epsilon((left[0] - 1) / UNIT, delta)
            case "pure":
                value = (left[0] - 1) / UNIT * _ROOM
            case _:
                assert_never(self.kind)
        return min(value, self.privacy.epsilon) if value >= EPSILON_RANGE[0] else 0.0

    def _left(self, spent: Cost) -> list[int]:
        return [top - s for top, s in zip(self.curve(self.thresholds), self.curve(spent), strict=True)]

    def _renyi_cost(self, plan: Curves) -> Cost:
        """The true curve; or an approximation's where there is a slack and the order nearest to holding gains by it."""
        true = plan.rdp(self.orders)
        if not self.slack:
            return tuple(_units(float(rho)) for rho in true)
        near, tops = plan.approximate_rdp(self.orders, self.slack / APPROXIMATIONS), self.curve(self.thresholds)
        if near is not None and float(np.min(near / tops)) < _WORTH * float(np.min(true / tops)):
            return (*(_units(float(rho)) for rho in near), 1)
        return (*(_units(float(rho)) for rho in true), 0)


def _rest(kind: Kind, privacy: Privacy, slack: float) -> Privacy:
    """What is left of (epsilon, delta) once the slack is set aside, rounded down; `OutOfRange` if it cannot be."""
    if slack == 0.0:
        return privacy
    if kind != "rdp" or not 0 < finite(slack, "slack") <= privacy.delta / 2:
        raise OutOfRange("a slack lies in (0, delta / 2], and only filter 'rdp' has one")
    return Privacy(privacy.epsilon, math.nextafter(privacy.delta - slack, 0.0))


def checked(
    kind: Kind, privacy: Privacy, orders: tuple[float, ...], weights: tuple[float, ...], slack: float = 0.0
) -> Filter:
    """The filter with the thresholds that its parameters allow; `OutOfRange` if there is no such filter."""
    if (kind == "pure") != privacy.is_pure:
        raise OutOfRange("delta must be 0 under filter 'pure', and positive under any other")
    if len(orders) != len(weights) or (kind == "rdp") != bool(orders):
        raise OutOfRange("the Renyi filter, and no other, has orders, with one weight each")
    if any(a < _LEAST_ORDER for a in orders) or any(w <= 0 for w in weights) or sum(map(Fraction, weights)) > 1:
        raise OutOfRange("orders must be above 1, weights positive and at most 1 in total")
    match kind:
        case "rdp":
            rest = _rest(kind, privacy, slack)
            thresholds = tuple(_renyi_threshold(rest, a, w) for a, w in zip(orders, weights, strict=True))
        case "gdp":
            thresholds = (math.floor(Fraction(gauss_mu(privacy.epsilon, privacy.delta)) ** 2 * UNIT),)
        case "pure":
            thresholds = (math.floor(Fraction(privacy.epsilon) * UNIT),)
        case _:
            assert_never(kind)
    _rest(kind, privacy, slack)
    if min(thresholds) <= 0:
        raise OutOfRange("this budget is too small: no charge would ever fit it")
    return Filter(kind, privacy, orders, weights, thresholds + ((APPROXIMATIONS,) if slack else ()), slack)


def _orders(privacy: Privacy) -> tuple[float, ...]:
    """{0.55, 1, 1.8} a*, less the dead: while a threshold is not positive, the least is dropped.

    a* maximizes 2 B(a) / a, the total mu^2 of Gaussian jobs that the order a alone would admit.
    """
    grid = 1 + np.geomspace(1e-2, 1e7, 20_001)
    best = max(grid, key=lambda a: _renyi_budget(privacy, float(a), 1.0) / a)
    orders = [a for a in (float(f"{share * best:.4g}") for share in SHARES) if a >= _LEAST_ORDER]
    while orders:
        budgets = [_renyi_threshold(privacy, a, _equal_weights(len(orders))[0]) for a in orders]
        if min(budgets) > 0:
            break
        orders.pop(budgets.index(min(budgets)))
    return tuple(orders)


def _equal_weights(count: int) -> tuple[float, ...]:
    """1/count each; for 1, 2 and 3 the float is not above the quotient, so they add up to at most 1."""
    return (1.0 / count,) * count if count else ()


def _renyi_budget(privacy: Privacy, a: float, weight: float) -> float:
    """B(a) in floats, off by less than half a unit where B(a) > 0 and a >= 1.01 (docs/proofs/filter.md)."""
    return privacy.epsilon - math.log1p(-1 / a) + math.log(a * weight * privacy.delta) / (a - 1)


def _renyi_threshold(privacy: Privacy, a: float, weight: float) -> int:
    return math.floor(Fraction(_renyi_budget(privacy, a, weight)) * UNIT) - 1


def _units(value: float) -> int:
    """A float charge in units, rounded up past the error of the float."""
    if not value >= 0:
        raise OutOfRange("a charge is never negative and never NaN")
    if value >= MOST // UNIT:
        raise BudgetExhausted("the charge is larger than any budget")
    units = math.ceil(Fraction(math.nextafter(value, math.inf)) * _ROUNDING * UNIT)
    if units >= MOST:
        raise BudgetExhausted("the charge is larger than any budget")
    return units


def _gaussian_epsilon(mu_squared: float, delta: float) -> float:
    """The epsilon at delta of a little less than this mu^2, rounded down; 0 if mu^2 is not positive."""
    return gauss_epsilon(math.sqrt(mu_squared * _ROOM), delta) * _ROOM if mu_squared > 0 else 0.0


def _up(value: Fraction) -> float:
    """The float above: `float` rounds to nearest."""
    return math.nextafter(float(value), math.inf)
