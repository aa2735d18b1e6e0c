"""E[(S/T - kappa)_+] as in `slot_sums`, rounded up, without a transform: the law of a sum of slots is doubled.

The law of a sum of m slots is moved to some hundred knots so that its mean stays or grows, which raises the mean of
every convex function that rises. Sums of more slots follow from it. All terms are positive, so rounding costs a factor
and nothing absolute: a tiny value is as accurate as a large one. Proof: docs/proofs/random_allocation.md, "Doubling".
"""

import math
from dataclasses import dataclass

import numpy as np

from accounting.divergences.few_slots import SUM_ROUNDING, TRIM
from accounting.divergences.losses import Vector
from accounting.divergences.slot_law import SlotLaw, stretch
from accounting.divergences.slot_sums import rounding_factor

_USUAL_KNOTS, _USUAL_DEVIATIONS = 81, 6.0  # knots around the usual value of a sum, and how far they reach
_ROWS = 32  # of the table of pairs of points, to evaluate at once
_SLOT_ROUNDING = 2.0**-32  # of the masses and values, for each slot: sums of at most 2^19 terms, and ten operations


@dataclass(frozen=True, slots=True)
class _Sum:
    """A finite law that is above that of a sum of slots in the increasing convex order."""

    slots: int
    points: Vector
    masses: Vector


@dataclass(frozen=True, slots=True)
class _Knots:
    """The knots of sums of slots.

    Parameters
    ----------
    slot_knots : of one slot, ascending
    middle, deviation : of one slot without jumps
    """

    slot_knots: Vector
    middle: float
    deviation: float

    def of(self, slots: int) -> Vector:
        """Return the knots of one slot times the number of slots, and more around the sum without jumps."""
        scaled, middle = slots * self.slot_knots, slots * self.middle
        reach = _USUAL_DEVIATIONS * self.deviation * math.sqrt(slots)
        usual = np.linspace(middle - reach, middle + reach, _USUAL_KNOTS)
        return np.unique(np.concatenate([scaled, np.maximum(usual, scaled[0])]))


def excess(law: SlotLaw, slots: int, kappa: float) -> float:
    """Return an upper bound on E[(S/T - kappa)_+] for T >= 2."""
    part = stretch(law, slots, kappa)
    law = part.within(TRIM)
    last = len(law.points) - 1
    unable = slots * kappa - (slots - 1) * law.points[last]  # if one X is at most this, S is at most T kappa
    law = law.between(min(max(int(np.searchsorted(law.points, unable)) - 1, 0), last - 1), last)
    rounding = rounding_factor(law, slots) * math.exp(slots * _SLOT_ROUNDING)
    return rounding * (_expectation(law, slots, kappa, part.middle, part.typical / math.sqrt(slots)) / slots + law.cut)


def _expectation(law: SlotLaw, slots: int, kappa: float, middle: float, deviation: float) -> float:
    """Return an upper bound on E[(S - T kappa)_+], up to the factor by which masses and their sums are rounded."""
    x, first = law.points, int(np.searchsorted(law.points, 0.0)) % 2  # every second point is a knot, 0 among them
    knots = _Knots(np.unique(np.append(x[first::2], x[[0, -1]])), middle, deviation)
    grid = knots_up_to(knots.of(1), x[-1:])
    slot = _Sum(1, grid, moved_to_knots(x, law.masses, grid))
    half = _doubled(slots // 2, slot, knots)
    a, b = (_added(half, half, knots), slot) if slots % 2 else (half, half)
    goal = slots * kappa - abs(slots * kappa) * SUM_ROUNDING
    return float(a.masses @ np.maximum(_raised(np.add.outer(a.points, b.points)) - goal, 0.0) @ b.masses)


def _doubled(slots: int, slot: _Sum, knots: _Knots) -> _Sum:
    """Return the law of a sum of slots, by doubling the law of half as many and adding one slot if needed."""
    if slots == 1:
        return slot
    half = _doubled(slots // 2, slot, knots)
    even = _added(half, half, knots)
    return _added(even, slot, knots) if slots % 2 else even


def _added(a: _Sum, b: _Sum, knots: _Knots) -> _Sum:
    """Return the law of the sum of two independent sums of slots, on its knots."""
    slots = a.slots + b.slots
    grid = knots_up_to(knots.of(slots), a.points[-1:] + b.points[-1:])
    masses = np.zeros(len(grid))
    for start in range(0, len(a.points), _ROWS):  # a few rows of the table of pairs at once, which fit a cache
        columns = slice(start if a is b else 0, None)
        weights = b.masses[columns].copy()
        if a is b:  # the table is symmetric: its part below these rows is that on the right of them
            weights[_ROWS:] *= 2
        pairs = np.add.outer(a.points[start : start + _ROWS], b.points[columns]).ravel()
        masses += moved_to_knots(pairs, np.outer(a.masses[start : start + _ROWS], weights).ravel(), grid)
    return _Sum(slots, grid, masses)


def knots_up_to(knots: Vector, top: Vector) -> Vector:
    """Return the knots below the largest point, raised, and that point."""
    raised = _raised(top)
    return np.append(knots[knots < raised], raised)


def moved_to_knots(points: Vector, masses: Vector, knots: Vector) -> Vector:
    """Return the masses at the knots: each point's mass is on the two next to it, and its mean unchanged or raised."""
    points = np.maximum(_raised(points), knots[0])
    index = np.minimum(np.searchsorted(knots, points, side="right") - 1, len(knots) - 2)
    low, high = knots[index], knots[index + 1]
    share, count = masses / (high - low), len(knots)
    down, up = share * (high - points), share * (points - low)
    return np.asarray(np.bincount(index, down, count) + np.bincount(index + 1, up, count), dtype=np.float64)


def _raised(sums: Vector) -> Vector:
    """Return sums of two floats, raised by more than their rounding."""
    return sums + np.abs(sums) * SUM_ROUNDING
