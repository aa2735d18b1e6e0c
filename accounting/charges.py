"""Charges: the cost of a plan in the currency of each filter, in units of 2^-40, rounded up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accounting.accountants.tight import Losses, composed_loss, losses_of
from accounting.divergences.conditioned import conditioned_mu
from accounting.divergences.losses import Loss
from accounting.divergences.pure_loss import PureLoss
from accounting.divergences.renyi_profile import RenyiLoss
from accounting.errors import BudgetExhausted, FilterMismatch, OutOfRange
from accounting.mechanisms.mechanism import Curves
from accounting.plan import AbstractComposition

Cost = tuple[int, ...]

UNIT = 2**40  # units in 1.0
# No charge and no sum of charges reaches this many units, so that each one fits a signed 64-bit column.
CHARGE_LIMIT_UNITS = 2**62
# No threshold reaches this many units, since epsilon is at most 100. A coordinate that costs more is charged as this.
UNAFFORDABLE_UNITS = 2**48
APPROXIMATIONS = 16  # jobs under filter `rdp` that may use its slack; a power of two, so that slack / 16 is exact
_WORTHWHILE_RATIO = 0.5  # an approximation is used if it costs less than this share of the true curve
_FIRST_SLACK_SHARE = 1 / 16  # where the search for a job's share of the slack begins
_SLACK_ROUNDS = 6  # of that search
_CURVE_SHARE = 2 / 3  # of a job's slack, for its Renyi curve; the rest is for mu
_SLACK_RATIO = 0.9  # a job's share of the slack over its share of the budget, about; never above 1
_ROUNDING = 1 + Fraction(1, 2**36)  # more than the relative rounding (Q + 8) 2^-53 of a plan of Q queries


@dataclass(frozen=True, slots=True)
class EarlierPlan(AbstractComposition):
    """A plan with the losses by which an earlier version charged it; each dominates the present loss.

    A charge by an approximation depends on the grid of the losses by up to a hundredth. So a stored charge is compared
    with the cost on the grid of the earlier losses.
    """

    plan: AbstractComposition

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """Return the number of uses and the cost of one, for each kind of use."""
        return tuple(
            (count, replace(curves, losses=tuple(map(_earlier_loss, curves.losses))))
            for count, curves in self.plan.parts()
        )


def _earlier_loss(loss: Loss) -> Loss:
    """Return the pair by which an earlier version charged an answer."""
    if isinstance(loss, PureLoss):
        return loss.gaussian_bound
    return replace(loss, profile=None) if isinstance(loss, RenyiLoss) else loss


def pure(plan: AbstractComposition) -> Cost:
    """Return epsilon in units; `FilterMismatch` if a query has no epsilon at delta = 0."""
    epsilon = plan.pure()
    if epsilon is None:
        raise FilterMismatch("filter 'pure' admits only mechanisms with delta = 0. Choose another method or dataset")
    return (_units(epsilon),)


def gaussian(plan: AbstractComposition) -> Cost:
    """Return mu^2 in units; `FilterMismatch` if a query is not Gaussian-DP."""
    mu = plan.gdp()
    if mu is None:
        raise FilterMismatch(
            "filter 'gdp' admits only mechanisms that are Gaussian-DP: pure ones, and Gaussian ones without sampling. "
            "Choose another method or dataset"
        )
    return (_units(mu * mu),)


def renyi(plan: AbstractComposition, orders: Sequence[float], thresholds: Cost, slack: float) -> Cost:
    """Return rho(a_k) in units; with a slack also 1 if an approximation is charged, else 0.

    The approximation is charged if it gains enough on the coordinate where the plan takes the smallest share.
    """
    true = exact_renyi(plan, orders)
    if not slack:
        return true
    approximate = renyi_at(plan, orders, slack)
    if approximate is None or not (
        smallest_share(approximate[:-1], thresholds) < _WORTHWHILE_RATIO * smallest_share(true, thresholds)
    ):
        return (*true, 0)
    return approximate


def exact_renyi(plan: AbstractComposition, orders: Sequence[float]) -> Cost:
    """Return rho(a_k) in units."""
    return tuple(_units(float(rho)) for rho in plan.rdp(orders))


def renyi_at(plan: AbstractComposition, orders: Sequence[float], slack: float) -> Cost | None:
    """Return rho(a_k) of an approximation in units, and 1 for its part of the slack; None if there is none."""
    curve = approximate_rdp(plan, orders, slack / APPROXIMATIONS)
    return None if curve is None else (*(_units(float(rho)) for rho in curve), 1)


def mixed(plan: AbstractComposition, orders: Sequence[float], thresholds: Cost, slack: float) -> Cost:
    """Return (mu^2, rho(a_1), .., d / slack) in units: the cost of laws that differ with probability at most d.

    A plan of Gaussian answers is charged exactly, with d = 0. Any other plan gets a d whose share of the slack is at
    most its share of each threshold, so the slack is never used up before all thresholds are. If no such d is found, d
    is 0 and mu is the cost without sampling, or infinite if there is none. If no ledger could hold that cost, the plan
    gets the last d that was tried, whatever its share of the slack. A plan of pure answers gets it only if the plan
    then fits.
    """
    exact = exact_mixed(plan, orders)
    if plan.gdp() is not None and all(curves.pure is None for _, curves in plan.parts()):
        return exact
    exact_share = smallest_share(exact[:-1], thresholds)
    approximate, slack_share = exact, _FIRST_SLACK_SHARE
    for _ in range(_SLACK_ROUNDS):
        units = math.floor(slack_share * UNIT)
        candidate = mixed_at(plan, orders, slack, units)
        if candidate is None or all(c >= e for c, e in zip(candidate[:-1], exact[:-1], strict=True)):
            break
        approximate = candidate
        budget_share = smallest_share(approximate[:-1], thresholds)
        is_balanced = _SLACK_RATIO**2 * budget_share * UNIT <= units <= budget_share * UNIT
        is_cheaper = budget_share <= exact_share
        if is_balanced and is_cheaper:
            return approximate
        slack_share = min(_SLACK_RATIO * budget_share, 1.0)
    if exact_share <= 1:
        return exact
    # If the plan does not fit even then, its slack would be lost to later plans after a raise of the budget.
    is_useful = plan.gdp() is None or smallest_share(approximate[:-1], thresholds) <= 1
    return approximate if is_useful else exact


def exact_mixed(plan: AbstractComposition, orders: Sequence[float]) -> Cost:
    """Return the cost of a plan without sampling, mu infinite if it has none, and no slack."""
    return _whole([_squared(plan.gdp_bound()), *plan.rdp(orders)], 0)


def mixed_at(plan: AbstractComposition, orders: Sequence[float], slack: float, units: int) -> Cost | None:
    """Return the cost of a plan whose d is this many units of the slack; None if the arithmetic does not reach it."""
    values = _approximate(plan, orders, slack / UNIT * units)
    return None if values is None else _whole(values, units)


def smallest_share(cost: Cost, thresholds: Cost) -> float:
    """Return the smallest share of a threshold that a charge takes."""
    return min(c / threshold for c, threshold in zip(cost, thresholds, strict=True))


def approximate_rdp(plan: AbstractComposition, orders: Sequence[float], slack: float) -> NDArray[np.float64] | None:
    """Return the Renyi curve of a composition from which the plan's differs with probability at most `slack`.

    The uses that have an approximation share the slack equally, and each gives up its largest losses. The result is
    None if no query has an approximation, or if a share is too small for one.
    """
    uses = sum(count for count, curves in plan.parts() if curves.approximate_rdp)
    if not uses:
        return None
    total = np.zeros(len(orders))
    for count, curves in plan.parts():
        approximate = curves.approximate_rdp
        curve = approximate(orders, slack / uses) if approximate else curves.rdp(orders)
        if curve is None:
            return None
        total += count * curve
    return total if (total >= 0).all() else None


def _approximate(plan: AbstractComposition, orders: Sequence[float], d: float) -> list[float] | None:
    """Return mu^2 and rho(a_k) of laws that differ from the plan's with probability at most d together.

    If both use an approximation, most of d is for the curve, because the curve decides for jobs with secret slots.
    """
    curve = approximate_rdp(plan, orders, d * _CURVE_SHARE)
    mu = _mu(losses_of(plan, over=True), d if curve is None else d * (1 - _CURVE_SHARE))
    if mu is None and curve is None:
        return None
    true = plan.rdp(orders)
    return [_squared(plan.gdp_bound() if mu is None else mu), *(true if curve is None else np.minimum(true, curve))]


def _mu(orders: Sequence[Losses], d: float) -> float | None:
    """Return the larger mu of the two orders of neighbors; None if one of them has none."""
    values = []
    for composed in map(composed_loss, orders):
        mu = None if composed is None else conditioned_mu(composed[0], d, composed[1])
        if mu is None:
            return None
        values.append(mu)
    return max(values, default=None)


def _squared(mu: float | None) -> float:
    return math.inf if mu is None else mu * mu


def _whole(values: Sequence[float], slack: int) -> Cost:
    """Return the cost in units, each value at most `UNAFFORDABLE_UNITS`."""
    limit = UNAFFORDABLE_UNITS / UNIT
    return (*(_units(float(value)) if not value >= limit else UNAFFORDABLE_UNITS for value in values), slack)


def _units(value: float) -> int:
    """Return a float charge in units, rounded up by more than the error of the float."""
    if not value >= 0:
        raise OutOfRange("a charge must not be negative or NaN")
    if value >= CHARGE_LIMIT_UNITS // UNIT:
        raise BudgetExhausted("the charge is larger than any budget. Use more noise or fewer answers")
    units = math.ceil(Fraction(math.nextafter(value, math.inf)) * _ROUNDING * UNIT)
    if units >= CHARGE_LIMIT_UNITS:
        raise BudgetExhausted("the charge is larger than any budget. Use more noise or fewer answers")
    return units
