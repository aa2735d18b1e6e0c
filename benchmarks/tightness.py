"""Certified epsilon over the epsilon of the worst known datasets, by mechanism and relation.

For each plan the noise is calibrated for one epsilon. On the worst known datasets the answers have laws in closed form.
The epsilon of these laws at the same delta is computed from the laws, and not from the pairs of the accountants. A
ratio of 1 means that no accounting can certify less. A larger one is what a better proof may gain at most, or what
worse datasets would show.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binom

from accounting import Privacy
from accounting.accountants import guard
from accounting.calibration import calibrate
from accounting.divergences.losses import connect_the_dots, mass
from accounting.divergences.roots import root
from accounting.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonGaussian,
    Resampled,
    RowObjectivePerturbation,
    Selection,
    SvrgStep,
    WithoutReplacement,
)
from accounting.plan import Query
from accounting.privacy import Relation
from benchmarks import adversary

Vector = NDArray[np.float64]
Mixture = tuple[tuple[float, float], ...]
"""Weights and means of normal laws of variance 1."""
Laws = tuple[tuple[Mixture, Mixture, int], ...]
"""Answers on two datasets, and the number of each."""

EPSILON, DELTA = 1.0, 1e-6
_CELL, _REACH = 2e-3, 9.5  # of x, in noise stds
_ROWS, _ANSWERS = 1000, 100


class Row(NamedTuple):
    """A plan of one query, and the epsilon of its worst known datasets, by its noise multiplier and k bounds a step."""

    label: str
    uses: int
    mechanism: Mechanism
    worst: Callable[[float, float], float]
    delta: float = DELTA


def composed(laws: Laws) -> float:
    """Return the larger epsilon at DELTA of both orders of two datasets."""
    return max(_epsilon(laws), _epsilon(tuple((q, p, count) for p, q, count in laws)))


def _epsilon(laws: Laws) -> float:
    return _epsilon_of_cells([(_cells(p, q), count) for p, q, count in laws])


def _epsilon_of_cells(cells: Sequence[tuple[tuple[Vector, Vector], int]]) -> float:
    """Return epsilon at DELTA of answers that show one cell each, from the masses of the cells and the counts."""
    deviation = min(math.sqrt(float(p @ np.log(p / q) ** 2)) for (p, q), _ in cells)
    interval = min(1e-2, deviation / 20)
    return guard.epsilon(guard.compose([(_pmf(p, q, interval), count) for (p, q), count in cells]), DELTA)


def _cells(p: Mixture, q: Mixture) -> tuple[Vector, Vector]:
    """Return the masses of short intervals under both laws."""
    means = [mean for _, mean in (*p, *q)]
    x = np.arange(min(means) - _REACH, max(means) + _REACH, _CELL)
    return tuple(sum(w * mass(x[:-1] - m, x[1:] - m) for w, m in law) for law in (p, q))  # type: ignore[return-value]


def _pmf(p: Vector, q: Vector, interval: float) -> object:
    """Return the privacy-loss masses of points with these probabilities, each moved to the two nearest losses."""
    index = np.floor(np.log(p / q) / interval).astype(int)
    lowest = int(index.min())
    upper, lower = (np.asarray(np.bincount(index - lowest, weights=law), dtype=float) for law in (p, q))
    return guard.pessimistic_pmf(*connect_the_dots(interval, lowest, upper, lower, 0.0, max(0.0, 1 - float(p.sum()))))


def _gaussian(count: int) -> Callable[[float, float], float]:
    return lambda z, k: composed(((((1.0, k / z),), ((1.0, 0.0),), count),))


def _poisson(q: float, count: int) -> Callable[[float, float], float]:
    def worst(z: float, k: float) -> float:
        other = ((1.0, 0.0),) if k == 1 else ((1 - q, 0.0), (q, -1 / z))
        return composed(((((1 - q, 0.0), (q, 1 / z)), other, count),))

    return worst


def _laplace(z: float, k: float) -> float:
    """Return the epsilon of one coordinate that moves by the whole sensitivity in each of `_ANSWERS` answers."""
    epsilon, cells = k / z, 2000
    x = np.linspace(0.0, epsilon, cells + 1)  # the noise, in scales; the loss is constant outside
    p = np.concatenate([[0.5], -np.diff(np.exp(-x)) / 2, [math.exp(-epsilon) / 2]])
    return _epsilon_of_cells([((p, p[::-1]), _ANSWERS)])


def _choices(z: float, k: float) -> float:
    """Return the epsilon of `_ANSWERS` choices between two entries, whose scores move in opposite directions."""
    p = np.array([1.0, math.exp(k / z / 2)]) / (1 + math.exp(k / z / 2))
    return _epsilon_of_cells([((p, p[::-1]), _ANSWERS)])


def _batches(q: float, count: int, mean: float) -> Callable[[float, float], float]:
    """Return the epsilon of answers on batches of a fixed size, by noise multiplier and k.

    All other records are equal. The changed record is equal to them or their opposite.

    Parameters
    ----------
    mean : weight of the mean over all rows in a step of SVRG as printed, which is q; 0 for other answers
    """

    def law(own: float, z: float) -> Mixture:
        """Return the law of an answer if the contribution of the record is `own`, and that of each other record 1."""
        always, drawn = mean * (1 - own) / 2, 1 - own
        return (1 - q, always / z), (q, (drawn + always) / z)

    def worst(z: float, k: float) -> float:
        null, owns = law(0.0, z), (-1.0, 1.0)
        pairs = [(law(-1.0, z), law(1.0, z))] if k == 2 else [(law(own, z), null) for own in owns]
        first, last = pairs[0], pairs[0][::-1] if k == 2 else pairs[1]
        halves = ((*first, count - count // 2), (*last, count // 2))  # the worst datasets take turns
        return max(composed(laws) for laws in (halves, *(((*pair, count),) for pair in pairs)))

    return worst


def _bootstrap(z: float, k: float) -> float:
    """Return the largest log ratio of means of e^(sum / z), for a clipped sum of rows that are 0 except for one."""
    copies = np.arange(40)
    chance = binom.pmf(copies, _ROWS, 1 / _ROWS)

    def mean(value: float, low: int, high: int) -> float:
        return float(chance @ np.exp(np.clip(value * copies, low, high) / z))

    ends = [(low, high) for low in range(-8, 1) for high in range(9)]
    pairs = [(1.0, -1.0)] if k == 2 else [(1.0, 0.0), (0.0, -1.0)]
    return max(math.log(mean(own, *cut) / mean(other, *cut)) for own, other in pairs for cut in ends)


def _selection(runs: int) -> Callable[[float, float], float]:
    """Return the epsilon of the best of several runs, by noise multiplier and k.

    The output of a run is a point of the plane, whose first coordinate is the score. The record moves it by mu.
    """
    s = np.arange(-10.0, 10.0, 2e-3)
    factor = runs / (2 - 2.0 ** (1 - runs)) * 2e-3 / math.sqrt(2 * math.pi)

    def delta(mu: float, angle: float, epsilon: float) -> float:
        along = mu * math.cos(angle)
        across = max(mu * math.sin(angle), 1e-9)
        one, two = (factor * np.exp(-((s - m) ** 2) / 2) * ((1 + ndtr(s - m)) / 2) ** (runs - 1) for m in (along, 0.0))
        gap = (epsilon + np.log(two / one)) / across
        return float(np.sum(one * ndtr(across / 2 - gap) - math.exp(epsilon) * two * ndtr(-across / 2 - gap)))

    def worst(z: float, k: float) -> float:
        angles = np.linspace(0.0, math.pi, 17)

        def over(epsilon: float) -> float:
            return max(delta(k / z, float(angle), epsilon) for angle in angles) - DELTA

        return root(over, 0.0, 20.0, absolute=1e-5)

    return worst


ROWS = (
    Row("Gaussian, 100 answers", 100, Gaussian(), _gaussian(100)),
    Row("Poisson .01, 1000 answers", 1000, PoissonGaussian(0.01), _poisson(0.01, 1000)),
    Row("1000 of 200000, 1000 answers", 1000, WithoutReplacement(1000, 200_000), _batches(0.005, 1000, 0.0)),
    Row("1000 of 10000, 20 answers", 20, WithoutReplacement(1000, 10_000), _batches(0.1, 20, 0.0)),
    Row("printed step, 1000 of 200000, 1000", 1000, SvrgStep(1000, 200_000), _batches(0.005, 1000, 0.005)),
    Row("bootstrap sample of 1000, Laplace", 1, Resampled(Laplace(), _ROWS), _bootstrap, 0.0),
    Row("Laplace, 100 answers", _ANSWERS, Laplace(), _laplace),
    Row("exponential, 100 choices", _ANSWERS, Exponential(), _choices),
    Row("perturbed objective of rows", 1, RowObjectivePerturbation(math.expm1(0.1 * EPSILON)), _gaussian(1)),
    Row("best of 2 runs", 1, Selection(2), _selection(2)),
    Row("best of 4 runs", 1, Selection(4), _selection(4)),
    Row("best of 8 runs", 1, Selection(8), _selection(8)),
)


def report() -> None:
    """Print the tables."""
    print(f"\ncertified epsilon {EPSILON:g} at delta {DELTA:g}, pure at 0, over that of the worst known datasets")
    print(f"{'mechanism':36} {'relation':12} {'noise':>10} {'certified':>10} {'known':>8} {'ratio':>6}")
    relations: tuple[Relation, ...] = ("replace_one", "zero_out")
    for row in ROWS:
        for relation in relations:
            release = calibrate((Query("q", row.uses, row.mechanism),), Privacy(EPSILON, row.delta), relation)
            z = release.plan.queries[0].noise_multiplier
            known = row.worst(z, 1.0 if relation == "zero_out" else 2.0)
            ratio = release.epsilon / known
            print(f"{row.label:36} {relation:12} {z:10.4f} {release.epsilon:10.4f} {known:8.4f} {ratio:6.3f}")
    adversary.report()
