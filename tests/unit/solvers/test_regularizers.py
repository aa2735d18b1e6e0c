"""Regularizers and domains: proximal maps and projections against their definitions."""

import math

import numpy as np
import pytest

from solvers.domains import Free, L2Ball
from solvers.regularizers import L2, NoRegularizer


def test_prox_of_l2_by_hand() -> None:
    w = np.array([2.0, -4.0])
    assert L2(0.5).prox(w, 2.0).tolist() == [1.0, -2.0]
    assert L2(0.0).prox(w, 7.0).tolist() == w.tolist()
    assert L2(0.5).value(w) == 5.0
    assert L2(0.5).strong_convexity == 0.5


def test_prox_of_l2_is_the_minimizer() -> None:
    r, w, step = L2(0.7), np.array([1.0, -2.0, 0.5]), 0.3
    u = r.prox(w, step)
    gradient = step * 0.7 * u + (u - w)
    assert np.abs(gradient).max() < 1e-15


def test_no_regularizer() -> None:
    w = np.array([1.0])
    assert NoRegularizer().prox(w, 3.0) is w
    assert NoRegularizer().value(w) == NoRegularizer().strong_convexity == 0.0


def test_the_free_domain() -> None:
    w = np.array([1e9])
    assert Free().project(w) is w
    assert Free().diameter == math.inf


def test_the_ball() -> None:
    ball = L2Ball(2.0)
    assert ball.diameter == 4.0
    assert ball.project(np.array([3.0, 4.0])) == pytest.approx([1.2, 1.6])
    assert ball.project(np.array([1.0, 1.0])).tolist() == [1.0, 1.0]
    assert ball.minimize_linear(np.array([3.0, -4.0])) == pytest.approx([-1.2, 1.6])
    assert ball.minimize_linear(np.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e7, True, "1"])
def test_nonsensical_parameters_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="strength"):
        L2(value)
    with pytest.raises(ValueError, match="radius"):
        L2Ball(value)
    with pytest.raises(ValueError, match="radius"):
        L2Ball(0.0)
