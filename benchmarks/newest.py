"""The newest published methods: SGD with correlated noise (BISR, BandMF), and least squares from sketches (IHM).

BISR follows its paper, and BandMF follows jax_privacy. The full text of IHM's paper was not available, so IHM follows
the abstract, with an accounting of our own and tuned constants.
"""

import math
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import expit

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from accounting.privacy import Relation
from benchmarks.datasets import Split

_ORDERS = 1 + np.geomspace(0.01, 1e4, 400)  # Renyi orders
_LARGEST = 1e6  # epsilons above are infinite for our search

Vector = NDArray[np.float64]


def inverse_root(steps: int, band: int) -> Vector:
    """Return the first column of BISR's inverse factor: the series of sqrt(1 - x), cut after `band` terms."""
    terms = np.zeros(steps)
    terms[0] = 1.0
    for j in range(1, min(band, steps)):
        terms[j] = terms[j - 1] * (j - 1.5) / j
    return terms


@cache
def sensitivity(steps: int, band: int, separation: int) -> float:
    """Return the l2 norm by which a record of gradients of norm 1 in every `separation`-th step changes C G.

    C is the inverse of the lower triangular Toeplitz matrix with first column `inverse_root`. All entries of C are at
    least 0, because only the first one of that column is positive. The change is therefore largest if all gradients of
    the record are equal (Choquette-Choo et al. 2023).
    """
    inverse = inverse_root(steps, band)
    factor = np.zeros(steps)
    factor[0] = 1.0
    for t in range(1, steps):
        factor[t] = -inverse[1 : t + 1] @ factor[:t][::-1]
    largest = 0.0
    for start in range(separation):
        column = np.zeros(steps)
        for first in range(start, steps, separation):
            column[first:] += factor[: steps - first]
        largest = max(largest, float(np.linalg.norm(column)))
    return largest


def bisr(
    split: Split,
    epsilon: float,
    delta: float,
    changed: float,
    *,
    rate: float,
    clip: float,
    schedule: tuple[int, int],
    band: int,
) -> Vector:
    """Return the last point of SGD with the noise of BISR (Kalinin et al. 2025), from zero.

    Batches are fixed and taken in turn, so a record takes part once in an epoch and nothing is amplified.

    Parameters
    ----------
    changed : the change of a record's clipped gradient, over the clip: 1 if it is blanked, 2 if it is replaced
    schedule : batches in an epoch, epochs
    """
    random, (n, d), (batches, epochs) = np.random.default_rng(), split.X.shape, schedule
    steps = batches * epochs
    std = changed * clip * sensitivity(steps, band, batches) / gauss_mu(epsilon, delta)
    noise = lfilter(inverse_root(steps, band)[:band], 1.0, std * random.standard_normal((steps, d)), axis=0)
    order = np.array_split(random.permutation(n), batches)
    return _descend(split, order * epochs, noise, rate / (n / batches), clip)


def banded(
    split: Split,
    epsilon: float,
    delta: float,
    relation: Relation,
    strategy: Vector,
    *,
    rate: float,
    clip: float,
    schedule: tuple[int, int],
) -> Vector:
    """Return the last point of SGD with the noise and the batches of BandMF (Choquette-Choo et al. 2023), from zero.

    The rows are split into as many groups as the strategy has bands. The groups take turns, and a step draws a Poisson
    batch from its group. The contributions of a record therefore add noise that is correlated with none of its others,
    and cost as much as Poisson batches of its own group.

    Parameters
    ----------
    strategy : first column of the banded strategy matrix, of norm 1
    schedule : expected batches in an epoch, epochs
    """
    random, (n, d), (batches, epochs), bands = np.random.default_rng(), split.X.shape, schedule, len(strategy)
    steps = batches * epochs
    query = Query("gradient", math.ceil(steps / bands), PoissonGaussian(bands / batches))
    plan = calibrate((query,), Privacy(epsilon, delta), relation).plan
    std = plan.queries[0].noise_multiplier * clip
    noise = lfilter([1.0], strategy, std * random.standard_normal((steps, d)), axis=0)
    groups = np.array_split(random.permutation(n), bands)

    def batch(t: int) -> NDArray[np.int64]:
        group = groups[t % bands]
        return random.choice(group, random.binomial(len(group), bands / batches), replace=False, shuffle=False)

    return _descend(split, map(batch, range(steps)), noise, rate / (n / batches), clip)


def _descend(split: Split, batches: Iterable[NDArray[np.int64]], noise: Vector, rate: float, clip: float) -> Vector:
    """Return the last point of descent from zero along sums of clipped gradients with this noise, one row a step."""
    is_binary = set(np.unique(split.y)) == {-1.0, 1.0}
    norms = np.linalg.norm(split.X, axis=1)
    w = np.zeros(split.X.shape[1])
    for rows, drawn in zip(batches, noise, strict=True):
        X, y = split.X[rows], split.y[rows]
        slopes = -y * expit(-y * (X @ w)) if is_binary else X @ w - y
        lengths = np.abs(slopes) * norms[rows]
        slopes = slopes * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))
        w = w - rate * (X.T @ slopes + drawn)
    return w


def sketched(
    split: Split, epsilon: float, delta: float, *, rounds: int, sketch: int, share: float, ridge: float
) -> Vector:
    """Return the least squares of Iterative Hessian Mixing (Lev et al. 2026), for a record that is blanked.

    Each round has a fresh sketch of `sketch` rows of N(0, X'X + s^2 I), and a noisy X'r with r clipped to [-1, 1]. One
    row of a sketch costs at most as much as one draw of N(0, 1) against N(0, 1 - R^2 / (R^2 + s^2)). The total is
    computed by Renyi divergences and converted at the best order.

    Parameters
    ----------
    share : the gradients' share of the mu^2 that this accounting allows gradients alone; the sketches get the rest
    ridge : multiple of s^2 that is added to the Hessian's estimate, which has s^2 already
    """
    random, d = np.random.default_rng(), split.X.shape[1]
    mu2 = share * mu2_of(epsilon, delta)

    def total(log_ratio: float) -> float:
        return epsilon_of(mu2, rounds * sketch, 1 / (1 + math.exp(log_ratio)), delta) - epsilon

    variance = split.row_norm**2 * math.exp(brentq(total, -20.0, 60.0))
    second = split.X.T @ split.X
    root = np.linalg.cholesky(second + variance * np.eye(d))
    w = np.zeros(d)
    for _ in range(rounds):
        rows = random.standard_normal((sketch, d)) @ root.T  # the same distribution as sketching X and adding noise
        hessian = rows.T @ rows / sketch + ridge * variance * np.eye(d)
        std = split.row_norm * math.sqrt(rounds / mu2)
        gradient = split.X.T @ np.clip(split.y - split.X @ w, -1, 1) + std * random.standard_normal(d)
        w = w + np.linalg.solve(hessian, gradient)
    return w


def mu2_of(epsilon: float, delta: float) -> float:
    """Return the mu^2 of Gaussian answers that `epsilon_of` certifies as (epsilon, delta)-DP."""
    return math.exp(brentq(lambda log_mu2: epsilon_of(math.exp(log_mu2), 0, 0.0, delta) - epsilon, -40.0, 10.0))


def epsilon_of(mu2: float, draws: int, p: float, delta: float) -> float:
    """Return the epsilon of a Gaussian answer with mu^2 and of draws of N(0, 1) against N(0, 1 - p), both ways."""
    a, v = _ORDERS, 1 - p
    losses = []
    for first, second in ((1.0, v), (v, 1.0)):
        mixed = a * second + (1 - a) * first
        with np.errstate(invalid="ignore", divide="ignore"):
            one = 0.5 * math.log(second / first) + 0.5 / (a - 1) * np.log(second / mixed)
        losses.append(np.where(mixed > 0, one, np.inf))
    renyi = a * mu2 / 2 + draws * np.maximum(*losses)
    epsilons = renyi + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    return min(float(np.min(epsilons)), _LARGEST)
