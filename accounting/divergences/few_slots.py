"""E[(S/T - kappa)_+] as in `slot_sums`, rounded up, for a few slots: one expectation after the other.

With e_0(r) = max(r, 0) and e_n(r) = E e_(n-1)(r + X), the value is e_T(-T kappa) / T. Each e_n is convex and rises, so
it is at most its chords between knots. All terms are positive, so rounding costs a factor and nothing absolute: a tiny
value is as accurate as a large one. Proof: docs/proofs/random_allocation.md, "Few slots".
"""

import numpy as np

from accounting.divergences import slot_sums
from accounting.divergences.slot_law import SlotLaw, stretch

MOST_FEW_SLOTS = 5
TRIM = 1e-6  # share of a jump's excess above the cap
SUM_ROUNDING = 2.0**-50  # relative, of a sum of two floats, and of -T kappa


def excess(law: SlotLaw, slots: int, kappa: float, **_options: object) -> float:
    """Return an upper bound on E[(S/T - kappa)_+] for T >= 2. The options of `slot_sums.excess` have no effect."""
    x, top = law.points, stretch(law, slots, kappa).top(TRIM)
    unable = slots * kappa - (slots - 1) * x[top]  # if one X is at most this, S is at most T kappa
    trimmed = law.between(max(min(int(np.searchsorted(x, unable)), top) - 1, 0), top)
    return slot_sums.rounding_factor(trimmed, slots) * (_expectation(trimmed, slots, kappa) / slots + trimmed.cut)


def _expectation(law: SlotLaw, slots: int, kappa: float) -> float:
    """Return an upper bound on E[(S - T kappa)_+], up to the factor by which masses and their sums are rounded."""
    x, goal = law.points, -slots * kappa
    goal += abs(goal) * SUM_ROUNDING
    reach = abs(goal) + slots * float(np.abs(x).max())  # of all arguments
    knots = -x[::-1]  # of e_1, which is 0 up to the first one, and has slope 1 from the last one on
    values = np.append(0.0, np.cumsum(np.diff(knots) * np.cumsum(law.masses[:0:-1])))
    for n in range(2, slots + 1):
        arguments = np.array([goal]) if n == slots else goal + x if n == slots - 1 else -n * x[::-1]
        knots = np.append(knots, knots[-1] + 4 * reach)
        values = np.append(values, values[-1] + 4 * reach)
        knots -= np.abs(knots) * SUM_ROUNDING  # raises e_n by more than the rounding of its argument can lower it
        knots, values = arguments, np.interp(np.add.outer(arguments, x), knots, values) @ law.masses
    return float(values[0])
