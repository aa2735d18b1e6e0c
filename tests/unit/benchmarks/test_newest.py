"""The newest published methods: what their accounting certifies, and what they find without noise."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from benchmarks import newest
from benchmarks.datasets import Split


def _split() -> Split:
    generator = np.random.default_rng(1)
    X = np.c_[generator.uniform(-1, 1, size=(1000, 3)), np.ones(1000)]
    y = np.clip(X @ np.array([0.5, -0.25, 0.0, 0.1]) + 0.1 * generator.normal(size=1000), -1, 1)
    return Split("made up", X[:800], y[:800], X[800:], y[800:], 2.0)


@pytest.mark.parametrize("band", [1, 2, 4, 12])
def test_the_sensitivity_is_that_of_the_inverted_matrix(band: int) -> None:
    steps, separation = 12, 3
    column = newest.inverse_root(steps, band)
    factor = np.linalg.inv([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
    assert factor.min() >= -1e-12
    exact = max(float(np.linalg.norm(factor[:, start::separation].sum(axis=1))) for start in range(separation))
    assert newest.sensitivity(steps, band, separation) == pytest.approx(exact)


def test_the_full_band_is_the_inverse_root_of_prefix_sums() -> None:
    column = newest.inverse_root(8, 8)
    root = np.array([[column[i - j] if i >= j else 0.0 for j in range(8)] for i in range(8)])
    np.testing.assert_allclose(np.linalg.inv(root @ root), np.tril(np.ones((8, 8))), atol=1e-12)


@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_gaussian_answers_cost_at_least_their_exact_epsilon(mu: float) -> None:
    assert newest.epsilon_of(mu**2, 0, 0.0, 1e-5) >= gauss_epsilon(mu, 1e-5)


@pytest.mark.parametrize("draws", [10, 1000])
def test_sketches_cost_at_least_their_exact_delta(draws: int) -> None:
    v = 1 - 0.02
    epsilon = newest.epsilon_of(0.0, draws, 0.02, 1e-5)
    for a, b in ((1.0, v), (v, 1.0)):  # the loss is above epsilon where the sum of squares is beyond `edge`
        edge = (epsilon - draws / 2 * math.log(b / a)) / ((1 / b - 1 / a) / 2)
        tail = chi2.sf if b < a else chi2.cdf
        assert tail(edge / a, draws) - math.exp(epsilon) * tail(edge / b, draws) <= 1e-5


def test_the_noise_of_bandmf_is_the_inverse_strategy_times_calibrated_noise() -> None:
    """Rows of zeros leave the sum of the noise, whose variance is the squared norm of the column sums of C^-1."""
    steps, strategy = 20, np.array([0.8, 0.6])
    split = Split("zeros", np.zeros((40, 20_000)), np.ones(40), np.zeros((1, 1)), np.ones(1), 1.0)
    w = newest.banded(split, 1.0, 1e-5, "replace_one", strategy, rate=0.5, clip=3.0, schedule=(4, 5))
    query = Query("gradient", 10, PoissonGaussian(0.5))
    std = 3.0 * calibrate((query,), Privacy(1.0, 1e-5)).plan.queries[0].noise_multiplier
    matrix = np.diag(np.full(steps, 0.8)) + np.diag(np.full(steps - 1, 0.6), -1)
    expected = 0.5 / (40 / 4) * std * np.linalg.norm(np.linalg.inv(matrix).sum(axis=0))
    assert np.std(w) == pytest.approx(expected, rel=0.05)


def test_all_find_least_squares_without_noise() -> None:
    """The tolerance is ten times the largest error of 400 runs, which draw other noise and other batches."""
    split = _split()
    exact = np.linalg.lstsq(split.X, split.y, rcond=None)[0]
    correlated = newest.bisr(split, 1e6, 1e-6, 2.0, rate=0.25, clip=9.0, schedule=(2, 100), band=4)
    strategy = np.array([0.8, 0.6])
    banded = newest.banded(split, 50.0, 1e-6, "replace_one", strategy, rate=0.25, clip=9.0, schedule=(2, 100))
    sketched = newest.sketched(split, 1e3, 1e-6, rounds=10, sketch=100, share=0.5, ridge=0.0)
    np.testing.assert_allclose(correlated, exact, atol=0.02)
    np.testing.assert_allclose(banded, exact, atol=0.2)
    np.testing.assert_allclose(sketched, exact, atol=0.02)
