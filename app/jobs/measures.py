"""Numbers made of noisy counts, with ends that hold the noise and the sampling: post-processing.

Counts are c = H + N(0, s^2 I), H a sum of independent contributions of records, each on the simplex. For a measure
t = a.H / b.H the statistic T(t) = (a - t b).c has mean zero at the true t, and variance at most

    V(t) = s^2 |a - t b|^2 + sum_j H_j (a_j - t b_j)^2,

the noise's and the sampling's: a person's contribution v >= 0 has sum v <= 1, so (g.v)^2 <= sum_j g_j^2 v_j. The ends
are those t with T(t)^2 <= z^2 V(t), z = 1.96: a quadratic inequality. Proof: docs/proofs/evaluation.md.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.jobs.intervals import WIDE
from purse.wire.evaluations import Measured

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """What a record in each cell adds to a mean: within its bin at least, in the middle, at most."""

    least: Floats
    middle: Floats
    most: Floats

    @staticmethod
    def exact(values: Floats) -> "Weights":
        """Where bins hide nothing."""
        return Weights(values, values, values)


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """q(t) = constant + linear t + square t^2."""

    constant: float
    linear: float
    square: float

    @staticmethod
    def of(a: Floats, b: Floats, weights: Floats | float = 1.0) -> "Quadratic":
        """The weighted sum of (a - t b)^2."""
        return Quadratic(
            float((weights * a * a).sum()), -2 * float((weights * a * b).sum()), float((weights * b * b).sum())
        )

    def plus(self, other: "Quadratic", times: float = 1.0) -> "Quadratic":
        """q + times other."""
        mine, its = (self.constant, self.linear, self.square), (other.constant, other.linear, other.square)
        return Quadratic(*(a + times * b for a, b in zip(mine, its, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Noisy counts. Where their sum is public they are moved to have it, and lose that part of the noise.

    Parameters
    ----------
    cells : as released
    std : of each one's noise
    n : their sum, if that is public
    places : k, what a row adds 1/k of: a person's rows, of which there are k at most, together add 1 at most
    """

    cells: Floats
    std: float
    n: int | None
    places: int = 1

    @property
    def told(self) -> Floats:
        """How many rows there are in each cell, as released."""
        return self.places * self.cells

    @property
    def settled(self) -> Floats:
        """With the sum that is known."""
        return self.cells if self.n is None else self.cells + (self.n - self.cells.sum()) / len(self.cells)

    def rows(self, cells: Floats) -> float:
        """How many rows there are in some cells together."""
        return self.places * float(cells @ self.settled)

    def share(self, part: Floats, whole: Floats) -> Measured:
        """Records in some cells, of those in these and more: t (1 - t) b.H is what sampling adds, both 0/1."""
        under = max(0.0, float(whole @ self.settled))
        return self._measured(Weights.exact(part), whole, Quadratic(0.0, under, -under), (0.0, 1.0))

    def mean(self, weights: Weights, ends: tuple[float, float]) -> Measured:
        """Over all records, of what lies between these ends."""
        whole, here = np.ones(len(self.cells)), np.maximum(self.settled, 0.0)
        return self._measured(weights, whole, None, ends, here)

    def auc(self, bins: int) -> Measured:
        """P(the score of a positive is larger than that of a negative), ties in a bin half; cells are negatives by bin,
        then positives.

        T(t) = sum over i, j of p_i (K_ij - t) n_j; to first order a positive in bin i adds (K n)_i - t N, a negative
        (K' p)_j - t P. Computed from the noisy counts, their squares hold the noise's second order too, and more.
        """
        negative, positive = self.cells[:bins], self.cells[bins:]
        order = np.tri(bins, k=-1)
        found = []
        for tie in (0.0, 0.5, 1.0):
            over = order + tie * np.eye(bins)
            up, down = over @ negative, over.T @ positive
            top, under = float(positive @ up), float(positive.sum() * negative.sum())
            if min(positive.sum(), negative.sum()) <= 0:
                under = 0.0
            each, of = np.concatenate((down, up)), np.repeat((positive.sum(), negative.sum()), bins)
            noise = Quadratic.of(each, of, self.std**2)
            found.append((top, under, noise, noise.plus(Quadratic.of(each, of, np.maximum(self.cells, 0.0)))))
        return _measured(found, (0.0, 1.0))

    def _measured(
        self,
        weights: Weights,
        under: Floats,
        sampling: Quadratic | None,
        ends: tuple[float, float],
        here: Floats | None = None,
    ) -> Measured:
        found = []
        for part in weights:
            noise = Quadratic.of(part, under)
            if self.n is not None:  # less the noise of the sum, which is known
                noise = noise.plus(Quadratic.of(np.array([part.sum()]), np.array([under.sum()])), -1 / len(self.cells))
            noise = Quadratic(0.0, 0.0, 0.0).plus(noise, self.std**2)
            added = Quadratic.of(part, under, here) if sampling is None and here is not None else sampling
            assert added is not None
            found.append((float(part @ self.settled), float(under @ self.settled), noise, noise.plus(added)))
        return _measured(found, ends)


def _measured(found: list[tuple[float, float, Quadratic, Quadratic]], ends: tuple[float, float]) -> Measured:
    """From (a.c, b.c, the noise's V, all of V) of the least, the middle and the most that bins allow."""
    least, middle, most = found
    value = min(max(middle[0] / middle[1], ends[0]), ends[1]) if middle[1] > 0 else sum(ends) / 2
    low, high = (accepted(*part[:2], part[3], ends)[side] for side, part in enumerate((least, most)))
    alone = [accepted(*part[:3], ends)[side] for side, part in enumerate((least, most))]
    return Measured(
        value=value,
        low=min(low, value),
        high=max(high, value),
        noise_low=min(alone[0], value),
        noise_high=max(alone[1], value),
    )


def accepted(top: float, under: float, variance: Quadratic, ends: tuple[float, float]) -> tuple[float, float]:
    """The least and the greatest t of {t : (top - t under)^2 <= z^2 V(t)} within its range; all where noise hides all.

    A quotient beyond its range counts as its end, which is nearer to every t there.
    """
    if under <= 0:
        return ends
    top, z2 = min(max(top, ends[0] * under), ends[1] * under), WIDE**2
    a = under**2 - z2 * variance.square  # of a t^2 - 2 half t + c <= 0, which holds at top / under
    half = top * under + z2 * variance.linear / 2
    c = top**2 - z2 * variance.constant
    root = math.sqrt(max(0.0, half**2 - a * c))
    if a == 0 or (a < 0 and root == 0):
        return ends
    first, last = sorted(((half - root) / a, (half + root) / a))
    if a < 0:  # what is beyond the roots, on the side or sides that reach into the range
        first, last = last if first < ends[0] else ends[0], first if last > ends[1] else ends[1]
    return min(max(first, ends[0]), ends[1]), min(max(last, ends[0]), ends[1])
