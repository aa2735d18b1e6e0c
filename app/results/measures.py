"""Measures of noisy counts, with intervals for the noise and the sampling: post-processing.

Counts are c = H + N(0, s^2 I), H a sum of independent contributions of records, each on the simplex. For a measure
t = a.H / b.H the statistic T(t) = (a - t b).c has mean zero at the true t, and variance at most

    V(t) = s^2 |a - t b|^2 + sum_j H_j (a_j - t b_j)^2,

of the noise and of the sampling: a person's contribution v >= 0 has sum v <= 1, so (g.v)^2 <= sum_j g_j^2 v_j. The
interval holds all t with T(t)^2 <= z^2 V(t), z = 1.96: a quadratic inequality. Proof: docs/proofs/evaluation.md.
"""

import math
from collections.abc import Sequence
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


def quadratic(a: Floats, b: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the coefficients of 1, t and t^2 in the weighted sum of (a - t b)^2."""
    return np.array([(weights * a * a).sum(), -2 * (weights * a * b).sum(), (weights * b * b).sum()])


class Quotient(NamedTuple):
    """A quotient a.c / b.c of counts c, with the coefficients of V(t): of the noise alone, and with the sampling."""

    numerator: float
    denominator: float
    noise: Floats
    variance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Noisy counts. If their sum is public, they are shifted to it, which removes a part of the noise.

    Parameters
    ----------
    cells : the released counts
    std : of the noise of each count
    n : their sum, if it is public
    slots : k, because a row adds 1/k: a person has at most k rows, which add at most 1 together
    """

    cells: Floats
    std: float
    n: int | None
    slots: int = 1

    @property
    def released(self) -> Floats:
        """The number of rows in each cell, as released."""
        return self.slots * self.cells

    @property
    def settled(self) -> Floats:
        """The counts, shifted to their public sum."""
        return self.cells if self.n is None else self.cells + (self.n - self.cells.sum()) / len(self.cells)

    def rows(self, cells: Floats) -> float:
        """Return the number of rows in some cells together."""
        return self.slots * float(cells @ self.settled)

    def share(self, part: Floats, whole: Floats) -> Measured:
        """Return the share of the records of `whole` that are in `part`, both 0/1. Sampling adds t (1 - t) b.H."""
        denominator = max(0.0, float(whole @ self.settled))
        sampling = np.array([0.0, denominator, -denominator])
        return _measured([self._quotient(part, whole, sampling)] * 3, (0.0, 1.0))

    def mean(self, weights: Weights, ends: tuple[float, float]) -> Measured:
        """Return the mean of the weights over all records; it lies between these ends."""
        whole = np.ones(len(self.cells))
        contributions = np.maximum(self.settled, 0.0)
        quotients = [self._quotient(part, whole, quadratic(part, whole, contributions)) for part in weights]
        return _measured(quotients, ends)

    def auc(self, bins: int) -> Measured:
        """Return P(score of a positive > score of a negative); ties in a bin count half.

        The cells are the negatives by bin, then the positives.
        T(t) = sum over i, j of p_i (K_ij - t) n_j; to first order a positive in bin i adds (K n)_i - t N, a negative
        (K' p)_j - t P. The squares of these terms, from the noisy counts, also cover the second order of the noise.
        """
        negative, positive = self.cells[:bins], self.cells[bins:]
        n_negative = float(negative.sum())
        n_positive = float(positive.sum())
        denominator = n_positive * n_negative if min(n_positive, n_negative) > 0 else 0.0
        totals = np.repeat((n_positive, n_negative), bins)
        order = np.tri(bins, k=-1)
        quotients = []
        for tie in (0.0, 0.5, 1.0):
            over = order + tie * np.eye(bins)
            up, down = over @ negative, over.T @ positive
            pairs = np.concatenate((down, up))
            noise = quadratic(pairs, totals, self.std**2)
            variance = noise + quadratic(pairs, totals, np.maximum(self.cells, 0.0))
            quotients.append(Quotient(float(positive @ up), denominator, noise, variance))
        return _measured(quotients, (0.0, 1.0))

    def _quotient(self, part: Floats, whole: Floats, sampling: Floats) -> Quotient:
        """Return the quotient of `part` by `whole`, whose sampling has a variance with these coefficients."""
        noise = quadratic(part, whole)
        if self.n is not None:  # without the noise of the sum, which is public
            noise = noise - quadratic(np.array([part.sum()]), np.array([whole.sum()])) / len(self.cells)
        noise = self.std**2 * noise
        return Quotient(float(part @ self.settled), float(whole @ self.settled), noise, noise + sampling)


def _measured(quotients: Sequence[Quotient], ends: tuple[float, float]) -> Measured:
    """Return a measure from its smallest, middle and largest value."""
    smallest, middle, largest = quotients
    value = (
        min(max(middle.numerator / middle.denominator, ends[0]), ends[1]) if middle.denominator > 0 else sum(ends) / 2
    )
    low, _ = accepted(smallest.numerator, smallest.denominator, smallest.variance, ends)
    _, high = accepted(largest.numerator, largest.denominator, largest.variance, ends)
    noise_low, _ = accepted(smallest.numerator, smallest.denominator, smallest.noise, ends)
    _, noise_high = accepted(largest.numerator, largest.denominator, largest.noise, ends)
    return Measured(
        value=value,
        low=min(low, value),
        high=max(high, value),
        noise_low=min(noise_low, value),
        noise_high=max(noise_high, value),
    )


def accepted(numerator: float, denominator: float, variance: Floats, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest and the largest t with (numerator - t denominator)^2 <= z^2 V(t) in the range `ends`.

    The whole range is returned if the noise hides everything. A quotient beyond the range counts as the nearer end.

    Parameters
    ----------
    variance : coefficients of 1, t and t^2 in V(t)
    """
    constant, linear, square = variance.tolist()
    if denominator <= 0:
        return ends
    numerator, z2 = min(max(numerator, ends[0] * denominator), ends[1] * denominator), WIDE**2
    a = denominator**2 - z2 * square  # of a t^2 - 2 half t + c <= 0, which holds at numerator / denominator
    half = numerator * denominator + z2 * linear / 2
    c = numerator**2 - z2 * constant
    root = math.sqrt(max(0.0, half**2 - a * c))
    if a == 0 or (a < 0 and root == 0):
        return ends
    first, last = sorted(((half - root) / a, (half + root) / a))
    if a < 0:  # the parts beyond the roots, as far as they reach into the range
        first, last = last if first < ends[0] else ends[0], first if last > ends[1] else ends[1]
    return min(max(first, ends[0]), ends[1]), min(max(last, ends[0]), ends[1])
