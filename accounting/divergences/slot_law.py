"""The law of X, the contribution of one slot of a random allocation, raised to finitely many points.

The mass of each cell is moved to the two ends of the cell, and its mean stays. So E f(X) grows for every convex f.
Masses and means of cells are differences of normal tails. Proof: docs/proofs/random_allocation.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from accounting.divergences.losses import Vector, mass

_CELL_WIDTH = 0.03  # in the standard normal y, of which X is a function
_REACH = 9.0  # of the cells in y, beyond the part that determines the mean of X
_LARGEST_EXPONENT = 200.0
_JUMP_PROBABILITY = 0.3  # over T: rarer values of X are jumps
_JUMP_DEVIATIONS = 4.0  # typical deviations from S to T kappa, beyond which one X alone may well exceed it
_LARGEST_FLOOR_EFFECT = 1e-4  # of the floor on the mean of S, in units of the scale on which the value changes

Shifts = tuple[int, int]
"""Displacements by a record and by its neighbor, in units of c."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotLaw:
    """A law that is above that of X in the convex order, up to `cut`.

    Parameters
    ----------
    points, masses : shape (k,), the points ascending
    cut : at least E[(X - the last point)_+]
    conditioning : of the differences that give the masses: the largest ratio of terms to result
    """

    points: Vector
    masses: Vector
    cut: float
    conditioning: float

    def between(self, bottom: int, top: int) -> "SlotLaw":
        """Return the law with all mass below and above two points moved to them; `cut` grows by the excess above."""
        x, p = self.points, self.masses
        masses = p[bottom : top + 1].copy()
        masses[0] += p[:bottom].sum()
        masses[-1] += p[top + 1 :].sum()
        cut = self.cut + float(p[top + 1 :] @ (x[top + 1 :] - x[top]))
        return SlotLaw(x[bottom : top + 1], masses, cut, self.conditioning)


def independent(c: float, gamma: float) -> SlotLaw:
    """Return the law of X = e^(cy - c^2/2) - gamma e^(-cy - c^2/2), which rises with y ~ N(0, 1)."""
    y, up, mirrored, chance, plus, minus, edges = _slot(c)
    down = gamma * mirrored
    x = up - down
    masses = _spread(x, chance, plus - gamma * minus)
    masses[0] += edges[0]
    masses[-1] += edges[1]
    cut = ndtr(c - y[-1]) + max(-x[-1], 0.0) * edges[1]  # X - x_k <= e^(cy - c^2/2) - x_k
    return SlotLaw(x, masses, float(cut), 2 * float(np.max((up + down)[1:] / np.diff(x))))


@lru_cache(maxsize=4)
def single(c: float, mirrored: bool) -> SlotLaw:
    """Return the law of X = e^(cy - c^2/2), or of -X, which rises with -y."""
    y, up, _, chance, plus, _, (below, beyond) = _slot(c)
    masses = _spread(-up[::-1], chance[::-1], -plus[::-1]) if mirrored else _spread(up, chance, plus)
    masses[0] += beyond if mirrored else below
    masses[-1] += below if mirrored else beyond
    cut = up[0] * below if mirrored else ndtr(c - y[-1])
    return SlotLaw(-up[::-1] if mirrored else up, masses, float(cut), 2 * float(np.max(up[1:] / np.diff(up))))


@lru_cache(maxsize=4)
def _slot(c: float) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector, tuple[float, float]]:
    """Return the parts of the law that do not depend on gamma.

    They are the edges y of the cells; e^(cy - c^2/2) and e^(-cy - c^2/2) there; the cells' probabilities under N(0, 1),
    N(c, 1) and N(-c, 1); and the probability below and above all edges.
    """
    y = _cells(-_REACH - c, _REACH + c, c)
    up = np.exp(c * y - c * c / 2)
    down = np.exp(-c * y - c * c / 2)
    chances = (mass(y[:-1] + shift, y[1:] + shift) for shift in (0.0, -c, c))
    return y, up, down, *chances, (float(ndtr(y[0])), float(ndtr(-y[-1])))  # type: ignore[return-value]


def ordered(c: float, gamma: float, above: Shifts = (2, 0), below: Shifts = (0, 2)) -> SlotLaw:
    """Return the law of a_j - gamma a_k where it is positive and, separately, of a_m - gamma a_n where it is negative.

    Here a_i = e^(i c y - (i c)^2 / 2). The default is the law of replaced records.

    Parameters
    ----------
    above : (j, k), j > k
    below : (m, n), n - m = j - k
    """
    (j, k), (m, n) = above, below
    middle = math.log(gamma) / ((j - k) * c)
    high = _cells((j + k) * c / 2 + middle, _REACH + j * c, j * c)
    low = _cells((m + n) * c / 2 - middle, _REACH + n * c, n * c)
    gains, chance, mean, gain_terms = _differences(high, gamma, j * c, k * c)
    upper = _spread(gains, chance, mean)
    losses, chance, mean, loss_terms = (part[::-1] for part in _differences(low, gamma, m * c, n * c))
    lower = _spread(losses, chance, mean)
    lower[0] += ndtr(-low[-1])
    upper[0] += lower[-1] + mass(-high[:1], low[:1])[0]
    upper[-1] += ndtr(-high[-1])
    points = np.concatenate([losses[:-1], gains])
    masses = np.concatenate([lower[:-1], upper])
    terms = max(np.max(gain_terms), np.max(loss_terms))
    return SlotLaw(points, masses, float(ndtr(j * c - high[-1])), 2 * float(terms))


def _differences(y: Vector, gamma: float, plus: float, minus: float) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the ratio of N(plus, 1) to N(0, 1) less gamma times that of N(minus, 1), at edges from its root on.

    Then the cells' probabilities, their parts of its mean, and the largest ratios of terms to its change.
    """
    (up, first), (down, second) = (
        (np.exp(shift * y - shift * shift / 2), mass(y[:-1] - shift, y[1:] - shift)) for shift in (plus, minus)
    )
    values = np.append(0.0, (up - gamma * down)[1:])
    terms = (up + gamma * down)[1:] / np.abs(np.diff(values))
    return values, mass(y[:-1], y[1:]), first - gamma * second, terms


def _cells(low: float, high: float, rate: float) -> Vector:
    """Return the edges of cells from `low` on; the first cell is wider if `low` is far out."""
    edge = _LARGEST_EXPONENT / rate
    first = max(low, -high, -edge)
    last = max(min(high, edge), first + 1.0)
    y = np.linspace(first, last, math.ceil((last - first) / _CELL_WIDTH) + 1)
    return y if first == low else np.append(low, y)


def _spread(edges: Vector, chance: Vector, mean: Vector) -> Vector:
    """Return the masses with each cell's mass on its two ends and its mean unchanged; `mean` is its part of E X."""
    up = np.clip((mean - edges[:-1] * chance) / np.diff(edges), 0.0, chance)
    masses = np.zeros(len(edges))
    masses[:-1] += chance - up
    masses[1:] += up
    return masses


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a law that determines E[(S - T kappa)_+], S = X_1 + ... + X_T, and the shape of that value.

    Parameters
    ----------
    middle : the mean of X without jumps
    typical : the deviation of S without jumps
    scale : of kappa, on which the value changes. It is that deviation if many X together exceed T kappa, and the mean
        excess of a single X if one jump does.
    rough : the value up to a large factor
    law : of X
    over, under : E[(X - x_i)_+] and E[(x_i - X)_+]
    jump : index of the point that a single X must exceed for S to exceed T kappa; None if no X does
    first : index of the lowest usual point
    slots : T
    """

    middle: float
    typical: float
    scale: float
    rough: float
    law: SlotLaw
    over: Vector
    under: Vector
    jump: int | None
    first: int
    slots: int

    def within(self, trim: float) -> SlotLaw:
        """Return the law between a floor that hardly raises the mean and the cap of `trim`."""
        x, top = self.law.points, self.top(trim)
        floor = np.flatnonzero((self.under <= _LARGEST_FLOOR_EFFECT * self.scale / self.slots) | (x <= -4 * x[top]))
        return self.law.between(min(int(floor[-1]), self.first, top - 1), top)

    def top(self, trim: float) -> int:
        """Return the index of a cap that cuts at most `trim` of a jump's excess."""
        over, jump = self.over, self.jump
        return len(over) - 1 if jump is None else jump + int(np.argmax(over[jump:] <= trim * over[jump]))


def stretch(law: SlotLaw, slots: int, kappa: float) -> Stretch:
    """Return the part of a law that determines the value."""
    x, T, (first, middle, typical, tail, over, under) = law.points, slots, _usual(law, slots)
    missing = T * kappa - (T - 1) * middle
    jump = int(np.searchsorted(x, max(missing, typical)))
    jumps = jump < len(x) - 1 and tail[jump] > 0
    scale = max(typical, float(over[jump] / tail[jump])) if jumps and missing > _JUMP_DEVIATIONS * typical else typical
    many = typical * math.exp(-0.5 * min(max(missing, 0.0) / typical, 38.0) ** 2)
    rough = T * float(over[min(jump, len(x) - 1)]) + many
    return Stretch(middle, typical, scale, rough, law, over, under, jump if jumps else None, first, T)


@lru_cache(maxsize=4)
def _usual(law: SlotLaw, T: int) -> tuple[int, float, float, Vector, Vector, Vector]:
    """Return the parts of a `Stretch` that do not depend on kappa.

    They are the index of the lowest usual point, the mean of the usual points, the typical deviation of S, and
    P(X > x_i), E[(X - x_i)_+] and E[(x_i - X)_+].
    """
    x, p = law.points, law.masses
    tail = np.append(np.cumsum(p[:0:-1])[::-1], 0.0)
    first = min(int(np.searchsorted(-tail, _JUMP_PROBABILITY / T - 1)), len(x) - 2)
    last = max(min(int(np.searchsorted(-tail, -_JUMP_PROBABILITY / T)), len(x) - 1), first + 1)
    inner, share = x[first : last + 1], p[first : last + 1] / p[first : last + 1].sum()
    middle = float(share @ inner)
    typical = math.sqrt(T * float(share @ (inner - middle) ** 2))
    over = np.append(np.cumsum((np.diff(x) * tail[:-1])[::-1])[::-1], 0.0)
    under = np.append(0.0, np.cumsum(np.diff(x) * (1.0 - tail[:-1])))
    return first, middle, typical, tail, over, under
