"""Regression from noisy marginals: what it finds without noise, and what its tree of tables implies."""

import numpy as np
import pytest

from benchmarks import marginals
from benchmarks.datasets import Split
from benchmarks.marginals import Tables, from_marginals
from solvers.columns import Columns


def _split() -> Split:
    """Return rows whose columns form a chain: a number of four values, a category that follows it, and a number."""
    random = np.random.default_rng(1)
    a = random.integers(4, size=2000)
    b = np.where(random.random(2000) < 0.7, a % 3, random.integers(3, size=2000))
    c = np.where(random.random(2000) < 0.6, b, random.integers(3, size=2000))
    X = np.c_[a / 3, np.eye(3)[b], c / 2, np.ones(2000)]
    y = np.round(0.4 * X[:, 0] - 0.3 * X[:, 2] + 0.2 * X[:, 4] + 0.1 * random.integers(-1, 2, size=2000), 2)
    return Split("made up", X, y, X, y, 2.0, Columns((1, 3, 1), ((0.0, 1.0), (0.0, 1.0))))


@pytest.mark.parametrize(("first", "more"), [("none", 6), ("target", 3), ("tree", 100)])
def test_all_pairs_without_noise_give_least_squares(first: str, more: int) -> None:
    split = _split()
    w = from_marginals(Tables.of(split, 50), 1e4, 1e-6, 2, first=first, more=more, ridge=1e-9)
    exact = np.linalg.lstsq(split.X, split.y, rcond=None)[0]
    np.testing.assert_allclose(split.X @ w, split.X @ exact, atol=1e-3)


def test_a_pair_that_is_not_measured_follows_from_the_chain_between_its_columns() -> None:
    tables = Tables.of(_split(), 50)
    one_way = np.diag(tables.counts)
    a, b, c, target = tables.slices[1:]
    measured = {(1, 2): tables.counts[a, b], (2, 3): tables.counts[b, c]}
    estimated = marginals._all_pairs(tables, one_way, measured)
    chain = tables.counts[a, b] @ (tables.counts[b, c] / one_way[b, None])
    np.testing.assert_allclose(estimated[a, c], chain)
    np.testing.assert_allclose(estimated[c, a], chain.T)
    np.testing.assert_allclose(estimated[a, target], np.outer(one_way[a], one_way[target]) / tables.n)


def test_numbers_are_cut_at_quantiles_and_have_the_mean_of_their_level() -> None:
    column = np.array([0.0] * 6 + [0.1, 0.2, 0.5, 1.0])
    np.testing.assert_array_equal(marginals.cut_at_quantiles(column, 10), [0] * 6 + [1, 2, 3, 4])
    assert len(set(marginals.cut_at_quantiles(column, 3))) <= 3
    split = _split()
    tables = Tables.of(split, 2)
    moments = tables.values.T @ np.diag(tables.counts) / tables.n
    np.testing.assert_allclose(moments, np.append(split.X, split.y[:, None], axis=1).mean(axis=0))


def test_the_nearest_nonnegative_vector_keeps_the_sum() -> None:
    np.testing.assert_allclose(marginals._nonnegative(np.array([3.0, 1.0, -2.0]), 3.0), [2.5, 0.5, 0.0])


def test_the_polynomial_of_a_short_interval_is_the_taylor_expansion_of_the_logistic_loss() -> None:
    """log 2 - x / 2 + x^2 / 8 is least at x = 2."""
    assert marginals._logistic_scale(0.01) == pytest.approx(2, abs=1e-3)
    assert marginals._logistic_scale(6.0) > marginals._logistic_scale(1.0)
