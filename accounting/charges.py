"""What a plan costs in the currencies of the filters, in units of 2^-40, rounded up."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accounting.accountants.tight import Losses, composed_loss, losses_of
from accounting.divergences.conditioned import conditioned_mu
from accounting.errors import BudgetExhausted, FilterMismatch, OutOfRange
from accounting.plan import AbstractComposition

Cost = tuple[int, ...]

UNIT = 2**40  # units in 1.0
MOST = 2**62  # no charge and no sum of charges reaches it, so that every one fits a signed 64-bit column
NEVER = 2**48  # no threshold of any promise, epsilon at most 100, reaches it: what costs that, or more
APPROXIMATIONS = 16  # of filter `rdp`; a power of two, so that slack / 16 is exact
_WORTH = 0.5  # an approximation is taken where it costs less than this share of the true curve
_FIRST, _ROUNDS = 1 / 16, 4  # of the slack, where the search of a job's part of it begins; and how often it is mended
_CURVE = 2 / 3  # of a job's part of the slack
_SPARE = 0.9  # a job's part of the slack over its share of the budget, about; never above 1
_ROUNDING = 1 + Fraction(1, 2**36)  # covers the float rounding of a plan's curve: Q queries cost it (Q + 8) 2^-53


def pure(plan: AbstractComposition) -> Cost:
    """epsilon."""
    epsilon = plan.pure()
    if epsilon is None:
        raise FilterMismatch("a dataset with filter 'pure' admits mechanisms with delta = 0 only")
    return (_units(epsilon),)


def gaussian(plan: AbstractComposition) -> Cost:
    """mu^2."""
    mu = plan.gdp()
    if mu is None:
        raise FilterMismatch("a dataset with filter 'gdp' admits Gaussian mechanisms only")
    return (_units(mu * mu),)


def renyi(plan: AbstractComposition, orders: Sequence[float], tops: Cost, slack: float) -> Cost:
    """rho(a_k); with a slack also whether it is an approximation's, where the order nearest to holding gains by it."""
    true = plan.rdp(orders)
    if not slack:
        return tuple(_units(float(rho)) for rho in true)
    near, most = approximate_rdp(plan, orders, slack / APPROXIMATIONS), np.array(tops)
    if near is not None and float(np.min(near / most)) < _WORTH * float(np.min(true / most)):
        return (*(_units(float(rho)) for rho in near), 1)
    return (*(_units(float(rho)) for rho in true), 0)


def mixed(plan: AbstractComposition, orders: Sequence[float], tops: Cost, slack: float) -> Cost:
    """(mu^2, rho(a_1), .., d / slack): what an approximation costs that differs with probability d; d = 0 if exact.

    A Gaussian or pure plan is charged exactly. Any other gets a d that is no larger a part of the slack than the rest
    is of each threshold: so the slack never ends before all of them have. Where the arithmetic does not reach such a
    d, the charge is exact, mu what the plan would cost without sampling; but for a plan that would then fit no ledger
    any d will do.
    """
    exact = _whole([_squared(plan.gdp_bound()), *plan.rdp(orders)], 0)
    if plan.gdp() is not None:
        return exact
    found, part = exact, _FIRST
    for _ in range(_ROUNDS):
        units = math.floor(part * UNIT)
        near = mixed_at(plan, orders, slack, units)
        if near is None:
            break
        found = near
        part = share(found[:-1], tops)
        if _SPARE**2 * part * UNIT <= units <= part * UNIT and part <= share(exact[:-1], tops):
            return found
        part = min(_SPARE * part, 1.0)
    return found if share(exact[:-1], tops) > 1 else exact


def mixed_at(plan: AbstractComposition, orders: Sequence[float], slack: float, units: int) -> Cost | None:
    """What a plan costs whose d is so many units of the slack; None where the arithmetic does not reach it."""
    near = _approximate(plan, orders, slack / UNIT * units)
    return None if near is None else _whole(near, units)


def share(cost: Cost, tops: Cost) -> float:
    """The least part that a charge is of a threshold."""
    return min(c / top for c, top in zip(cost, tops, strict=True))


def approximate_rdp(plan: AbstractComposition, orders: Sequence[float], slack: float) -> NDArray[np.float64] | None:
    """The Renyi curve of a composition that the plan's differs from with probability at most `slack`.

    Each use that has an approximation gives up its share of the slack, on which its loss is largest; the others give up
    nothing. None where no query has one, or where a share is too small for it.
    """
    approximated = sum(count for count, curves in plan.parts() if curves.approximate_rdp)
    if not approximated:
        return None
    total = np.zeros(len(orders))
    for count, curves in plan.parts():
        near = curves.approximate_rdp
        curve = near(orders, slack / approximated) if near else curves.rdp(orders)
        if curve is None:
            return None
        total += count * curve
    return total if (total >= 0).all() else None


def _approximate(plan: AbstractComposition, orders: Sequence[float], d: float) -> list[float] | None:
    """mu^2 and rho(a_k) of laws from which the plan's differ with probability at most d in all: where both use such,
    most of it is for the curve, as jobs with secret slots are charged by it.
    """
    curve = approximate_rdp(plan, orders, d * _CURVE)
    mu = _mu(losses_of(plan, over=True), d if curve is None else d * (1 - _CURVE))
    if mu is None and curve is None:
        return None
    true = plan.rdp(orders)
    return [_squared(plan.gdp_bound() if mu is None else mu), *(true if curve is None else np.minimum(true, curve))]


def _mu(orders: Sequence[Losses], d: float) -> float | None:
    """The larger of the two orders of neighbors."""
    composed = [composed_loss(losses) for losses in orders]
    found = [None if loss is None else conditioned_mu(loss[0], d, loss[1]) for loss in composed]
    known = [mu for mu in found if mu is not None]
    return max(known) if known and len(known) == len(found) else None


def _squared(mu: float | None) -> float:
    return math.inf if mu is None else mu * mu


def _whole(values: Sequence[float], slack: int) -> Cost:
    """The cost in units, each value `NEVER` at most."""
    return (*(_units(float(value)) if not value >= NEVER / UNIT else NEVER for value in values), slack)


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
