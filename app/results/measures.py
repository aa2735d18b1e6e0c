"""Measures of noisy counts, with intervals for the noise and the sampling: post-processing.

Counts are c = H + N(0, s^2 I), H a sum of independent contributions of records, each on the simplex. For a measure
t = a.H / b.H the statistic T(t) = (a - t b).c has mean zero at the true t, and variance at most

    V(t) = s^2 |a - t b|^2 + sum_j H_j (a_j - t b_j)^2,

of the noise and of the sampling: a person's contribution v >= 0 has sum v <= 1, so (g.v)^2 <= sum_j g_j^2 v_j. The
interval holds all t with T(t)^2 <= z^2 V(t), z = 1.96: a quadratic inequality. Proof: docs/proofs/evaluation.md.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.results.intervals import WIDE
from purse.wire.evaluations import Measured

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """The contribution to a mean of a record in each cell: the smallest of its bin, the middle, and the largest."""

    smallest: Floats
    middle: Floats
    largest: Floats

    @staticmethod
    def exact(values: Floats) -> "Weights":
        """Return the weights of cells whose records all contribute the same."""
        return Weights(values, values, values)


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """q(t) = constant + linear t + square t^2."""

    constant: float
    linear: float
    square: float

    @staticmethod
    def of(a: Floats, b: Floats, weights: Floats | float = 1.0) -> "Quadratic":
        """Return the weighted sum of (a - t b)^2."""
        return Quadratic(
            float((weights * a * a).sum()), -2 * float((weights * a * b).sum()), float((weights * b * b).sum())
        )

    def plus(self, other: "Quadratic", times: float = 1.0) -> "Quadratic":
        """Return q + times * other."""
        return Quadratic(
            self.constant + times * other.constant,
            self.linear + times * other.linear,
            self.square + times * other.square,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Noisy counts. If their sum is public, they are shifted to it, which removes a part of the noise.

    Parameters
    ----------
    cells : the released counts
    std : of the noise of each count
    n : their sum, if it is public
    places : k, because a row adds 1/k: a person has at most k rows, which add at most 1 together
    """

    cells: Floats
    std: float
    n: int | None
    places: int = 1

    @property
    def released(self) -> Floats:
        """The number of rows in each cell, as released."""
        return self.places * self.cells

    @property
    def settled(self) -> Floats:
        """The counts, shifted to their public sum."""
        return self.cells if self.n is None else self.cells + (self.n - self.cells.sum()) / len(self.cells)

    def rows(self, cells: Floats) -> float:
        """Return the number of rows in some cells together."""
        return self.places * float(cells @ self.settled)

    def share(self, part: Floats, whole: Floats) -> Measured:
        """Return the share of the records of `whole` that are in `part`, both 0/1. Sampling adds t (1 - t) b.H."""
        under = max(0.0, float(whole @ self.settled))
        return self._measured(Weights.exact(part), whole, Quadratic(0.0, under, -under), (0.0, 1.0))

    def mean(self, weights: Weights, ends: tuple[float, float]) -> Measured:
        """Return the mean of the weights over all records; it lies between these ends."""
        whole = np.ones(len(self.cells))
        contributions = np.maximum(self.settled, 0.0)
        return self._measured(weights, whole, None, ends, contributions)

    def auc(self, bins: int) -> Measured:
        """Return P(score of a positive > score of a negative); ties in a bin count half.

        The cells are the negatives by bin, then the positives.
        T(t) = sum over i, j of p_i (K_ij - t) n_j; to first order a positive in bin i adds (K n)_i - t N, a negative
        (K' p)_j - t P. Computed from the noisy counts, their squares hold the noise's second order too, and more.
        """
        negative, positive = self.cells[:bins], self.cells[bins:]
        order = np.tri(bins, k=-1)
        bounds = []
        for tie in (0.0, 0.5, 1.0):
            over = order + tie * np.eye(bins)
            up, down = over @ negative, over.T @ positive
            top = float(positive @ up)
            under = float(positive.sum() * negative.sum())
            if min(positive.sum(), negative.sum()) <= 0:
                under = 0.0
            each = np.concatenate((down, up))
            of = np.repeat((positive.sum(), negative.sum()), bins)
            noise = Quadratic.of(each, of, self.std**2)
            bounds.append((top, under, noise, noise.plus(Quadratic.of(each, of, np.maximum(self.cells, 0.0)))))
        return _measured(bounds, (0.0, 1.0))

    def _measured(
        self,
        weights: Weights,
        under: Floats,
        sampling: Quadratic | None,
        ends: tuple[float, float],
        contributions: Floats | None = None,
    ) -> Measured:
        bounds = []
        for part in weights:
            noise = Quadratic.of(part, under)
            if self.n is not None:  # without the noise of the sum, which is public
                noise = noise.plus(Quadratic.of(np.array([part.sum()]), np.array([under.sum()])), -1 / len(self.cells))
            noise = Quadratic(0.0, 0.0, 0.0).plus(noise, self.std**2)
            added = (
                Quadratic.of(part, under, contributions) if sampling is None and contributions is not None else sampling
            )
            assert added is not None
            bounds.append((float(part @ self.settled), float(under @ self.settled), noise, noise.plus(added)))
        return _measured(bounds, ends)


def _measured(bounds: list[tuple[float, float, Quadratic, Quadratic]], ends: tuple[float, float]) -> Measured:
    """Return a measure from (a.c, b.c, V of the noise, V of both) of its smallest, middle and largest value."""
    smallest, middle, largest = bounds
    value = min(max(middle[0] / middle[1], ends[0]), ends[1]) if middle[1] > 0 else sum(ends) / 2
    low, high = (accepted(*part[:2], part[3], ends)[side] for side, part in enumerate((smallest, largest)))
    alone = [accepted(*part[:3], ends)[side] for side, part in enumerate((smallest, largest))]
    return Measured(
        value=value,
        low=min(low, value),
        high=max(high, value),
        noise_low=min(alone[0], value),
        noise_high=max(alone[1], value),
    )


def accepted(top: float, under: float, variance: Quadratic, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest and the largest t with (top - t under)^2 <= z^2 V(t) in the range `ends`.

    The whole range is returned if the noise hides everything. A quotient beyond the range counts as the nearer end.
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
    if a < 0:  # the parts beyond the roots, as far as they reach into the range
        first, last = last if first < ends[0] else ends[0], first if last > ends[1] else ends[1]
    return min(max(first, ends[0]), ends[1]), min(max(last, ends[0]), ends[1])
