"""Losses: slopes against finite differences, bounds against numerical maximization, targets as maps of one record."""

import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from solvers.losses import Logistic, Loss, Squared

LOSSES = [Logistic(), Squared(), Squared(0.3), Squared(5.0)]


def targets(loss: Loss) -> NDArray[np.float64]:
    return np.array([-1.0, 1.0]) if isinstance(loss, Logistic) else np.linspace(-2, 2, 9)


def grid(loss: Loss) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    m, y = np.meshgrid(np.linspace(-30, 30, 4001), targets(loss))
    return m.ravel(), y.ravel()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slope_is_the_derivative_of_value(loss: Loss) -> None:
    m, y = grid(loss)
    h = 1e-5
    numeric = (loss.value(m + h, y) - loss.value(m - h, y)) / (2 * h)
    assert np.allclose(loss.slope(m, y), numeric, atol=2e-6 * loss.slope_bound + 1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_bounds_hold_and_are_attained(loss: Loss) -> None:
    m, y = grid(loss)
    slopes = loss.slope(m, y)
    assert np.abs(slopes).max() <= loss.slope_bound
    assert np.abs(slopes).max() >= 0.999 * loss.slope_bound
    curvature = np.abs(np.diff(slopes.reshape(len(targets(loss)), -1), axis=1)) / (60 / 4000)
    assert curvature.max() <= loss.curvature_bound * (1 + 1e-9)
    assert curvature.max() >= 0.99 * loss.curvature_bound


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_are_convex_and_not_negative(loss: Loss) -> None:
    m, y = grid(loss)
    shape = (len(targets(loss)), -1)
    assert np.all(np.diff(loss.slope(m, y).reshape(shape), axis=1) >= 0)
    assert np.all(loss.value(m, y) >= 0)


def test_values_by_hand() -> None:
    assert Logistic().value(np.array([0.0]), np.array([1.0]))[0] == pytest.approx(math.log(2))
    assert Logistic().slope(np.array([0.0]), np.array([1.0]))[0] == -0.5
    assert Logistic().slope(np.array([math.log(3)]), np.array([-1.0]))[0] == pytest.approx(0.75)
    assert Squared().value(np.array([0.5, 3.0]), np.array([0.0, 0.0])) == pytest.approx([0.125, 2.5])
    assert Squared(2.0).slope(np.array([3.0, 3.0]), np.array([2.5, 0.0])) == pytest.approx([0.5, 2.0])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_value_or_slope_is_nan_far_out(loss: Loss) -> None:
    m = np.array([-1e300, -1e5, 1e5, 1e300])
    for y in targets(loss):
        assert np.isfinite(loss.slope(m, np.full(4, y))).all()
        assert not np.isnan(loss.value(m, np.full(4, y))).any()


def test_targets_are_maps_of_one_record() -> None:
    y = np.array([math.nan, -math.inf, -3.0, 0.0, 1e-300, 7.0, math.inf])
    assert Logistic().targets(y).tolist() == [-1, -1, -1, -1, 1, 1, 1]
    assert np.isfinite(Squared().targets(y)).all()
    assert Squared().targets(y)[0] == 0.0
    for loss in LOSSES:
        alone = np.concatenate([loss.targets(y[i : i + 1]) for i in range(len(y))])
        assert np.array_equal(alone, loss.targets(y))


def test_slopes_do_not_write_into_their_arguments() -> None:
    for loss in LOSSES:
        m, y = np.array([0.3, -2.0]), np.array([1.0, -1.0])
        loss.slope(m, y)
        assert m.tolist() == [0.3, -2.0]
        assert y.tolist() == [1.0, -1.0]


def test_expit_is_within_the_rounding_that_the_oracle_grants() -> None:
    """4 units of 2^-53, docs/proofs/oracle.md."""
    x = np.concatenate([np.linspace(-700, 40, 1500), np.linspace(-3, 3, 1500)])
    with mpmath.workdps(40):
        worst = max(
            abs(mpmath.mpf(float(value)) * (1 + mpmath.exp(-mpmath.mpf(float(at)))) - 1)
            for at, value in zip(x, expit(x), strict=True)
        )
    assert worst < 4 * 2.0**-53


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e7, True, "1"])
def test_a_nonsensical_residual_bound_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="residual_bound"):
        Squared(bound)
