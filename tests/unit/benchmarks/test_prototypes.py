"""What the trials of slopes and second moments compute: bounds that noise is made for, and what exact ones are."""

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from benchmarks import prototypes, second_moments
from benchmarks.datasets import Split
from benchmarks.references import Reference
from solvers import Problem
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.losses import Logistic, Squared

RANDOM = np.random.default_rng(3)
N = 4000


@pytest.fixture
def split() -> Split:
    """Four numbers, of which two are nearly the same, and a class that they tell of."""
    random = np.random.default_rng(5)
    X = np.clip(random.normal(0.2, 0.3, (N, 4)), -1, 1)
    X[:, 3] = np.clip(X[:, 2] + random.normal(0, 0.02, N), -1, 1)
    y = np.where(random.random(N) < 1 / (1 + np.exp(-4 * X[:, 0] + 2 * X[:, 2])), 1.0, -1.0)
    columns = Columns((1,) * 4, ((-1.0, 1.0),) * 4)
    X = np.c_[X, np.ones(N)]
    return Split("made up", X, y, X, y, columns.row_norm, columns)


@pytest.mark.parametrize("slopes", [prototypes.clipped, prototypes.tukey])
def test_slopes_of_residuals_reach_but_do_not_exceed_their_bound(slopes: prototypes.Slopes) -> None:
    residuals, bounds = np.linspace(-9, 9, 200_001), np.full(200_001, 0.7)
    magnitudes = np.abs(slopes(residuals[:, None], np.zeros(200_001), bounds))
    assert magnitudes.max() == pytest.approx(0.7, rel=1e-6)
    assert magnitudes.max() <= 0.7 * (1 + 1e-12)


def test_a_large_residual_has_no_weight_under_redescending_slopes() -> None:
    outlier_slope, inlier_slope = prototypes.tukey(np.array([[40.0], [0.01]]), np.zeros(2), np.ones(2)).ravel()
    assert outlier_slope == 0
    assert inlier_slope == pytest.approx(0.01, rel=1e-3)


def test_slopes_against_all_other_classes_keep_their_joint_bound_and_one_weight_per_row() -> None:
    margins = RANDOM.normal(0, 4, (3000, 5))
    all_slopes = np.stack(
        [prototypes.one_against_rest(margins, np.full(3000, k), np.full(3000, 0.6)) for k in range(5)]
    )
    assert (np.linalg.norm(all_slopes, axis=2) <= 0.6 * (1 + 1e-12)).all()
    assert np.linalg.norm(all_slopes, axis=2).max() == pytest.approx(0.6, rel=1e-9)
    p = 1 / (1 + np.exp(-margins))
    # The expected slope if labels are drawn in proportion to the shares.
    drawn = (all_slopes * p.T[:, :, None] / p.sum(axis=1)[None, :, None]).sum(axis=0)
    unweighed = p - p / p.sum(axis=1)[:, None]
    ratios = drawn / unweighed
    assert ratios.max(axis=1) == pytest.approx(ratios.min(axis=1), rel=1e-6)


@pytest.mark.parametrize("slopes", [prototypes.clipped, None])
def test_the_replacement_of_the_oracle_gives_the_same_answers(split: Split, slopes: prototypes.Slopes | None) -> None:
    """Answers agree up to the noise, which is 1e-3 of a record's bound."""
    loss = Logistic() if slopes is None else Squared()
    problem = Problem(loss, n=N, d=5, row_norm=split.row_norm, columns=split.columns)
    frame = Frame(np.full(4, 0.1), np.array([1.0, 2.0, 0.5, 1.5]), 0.3)
    plan, w = Plan((PlannedQuery("gradient", 2, Gaussian(), 1e-3),)), np.array([0.4, -1.0, 0.2, 2.0, 0.3])
    oracle = StandardisedOracle(problem, inputs.of_arrays(split.X, split.y, problem), plan, Noise())
    own = oracle.gradient("gradient", w, frame, 0.5, 0.0)
    if slopes is None:
        z = frame.rows(split.X)
        t = second_moments.bounded(split.y * (z @ w), 0.5 / np.linalg.norm(z, axis=1))
        expected: NDArray[np.float64] = -(split.y * t) @ z / N
    else:
        with prototypes.replaced_slopes(split, slopes):
            expected = oracle.gradient("gradient", w, frame, 0.5, 0.0)
    assert np.abs(own - expected).max() < 10 * 2e-3 * 0.5 / N
    assert np.abs(own).max() > 1e-2


def test_noise_of_symmetric_matrices_is_the_same_in_every_direction() -> None:
    noise, d = second_moments.symmetric(300, 2.0), 300
    assert (noise == noise.T).all()
    free = d * (d + 1) / 2
    assert (noise**2).sum() / (4 * free) == pytest.approx(1, abs=7 * np.sqrt(2 / free))
    assert np.diag(noise).std() == pytest.approx(2.0, rel=7 / np.sqrt(2 * d))


def test_turned_rows_have_no_direction_longer_than_the_rest_and_their_mean_square() -> None:
    z = RANDOM.normal(0, 1, (2000, 6)) * np.array([5.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    turned = z @ second_moments.turning(z, 2)
    values = np.linalg.eigvalsh(turned.T @ turned / 2000)
    assert values[-1] / values[:4].mean() < 1.3
    assert (turned**2).sum() == pytest.approx((z**2).sum())
    assert second_moments.turning(z, 0) == pytest.approx(np.eye(6), abs=1e-9)


@pytest.mark.slow
def test_with_negligible_noise_all_ways_are_near_the_optimum(split: Split) -> None:
    reference = Reference.of(split)
    fits = (
        *(second_moments.by_second_moment(reference, 100.0, way) for way in second_moments.WAYS[3:]),
        second_moments.turned(reference, 100.0, 2),
    )
    for fit in fits:
        assert reference.excess(fit()) < 2e-3


def test_the_best_softmax_has_no_slope_left() -> None:
    X = np.c_[RANDOM.uniform(-1, 1, (1000, 3)), np.ones(1000)]
    y = RANDOM.integers(0, 3, 1000).astype(float)
    W = prototypes.softmax_optimum(Split("made up", X, y, X, y, 2.0))
    p = np.exp(prototypes.softmax_shares(X @ W.T))
    assert np.abs((p - np.eye(3)[y.astype(int)]).T @ X / 1000).max() < 1e-4
