"""What the tables of rough losses rest on: a certificate that cannot lie."""

import numpy as np
import pytest
from scipy.optimize import minimize as quasi_newton

from benchmarks import dual
from benchmarks.newton import objective
from solvers import Problem
from solvers.losses import Absolute, Hinge, Loss
from solvers.losses.smoothing import smoothed
from solvers.regularizers import L2

N, D = 300, 4


def _case(loss: Loss, strength: float) -> tuple[Problem, dual.Vector, dual.Vector]:
    generator = np.random.default_rng(1)
    X = generator.normal(size=(N, D))
    signal = X @ np.array([1.0, -2.0, 0.5, 0.0]) + generator.normal(size=N)
    y = np.sign(signal) if loss.takes == "class" else signal
    return Problem(loss, L2(strength), n=N, d=D, row_norm=10.0), X, y


@pytest.mark.slow
@pytest.mark.parametrize("strength", [1e-4, 1e-1])
@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_optimum_is_certified_and_as_good_as_another_solvers(loss: Loss, strength: float) -> None:
    problem, X, y = _case(loss, strength)
    best = dual.minimize(problem, X, y)
    narrow = smoothed(loss, 1e-4)
    reference = quasi_newton(
        lambda w: float(np.mean(narrow.value(X @ w, y))) + strength / 2 * float(w @ w),
        best.w + 0.1,
        method="Powell",
        options={"maxiter": 10_000, "ftol": 1e-12, "xtol": 1e-9},
    )
    assert 0 <= best.gap <= dual.PRECISION
    assert best.value == objective(problem, X, y, best.w)
    assert best.value <= reference.fun + 1e-4 + dual.PRECISION
    assert best.value >= reference.fun - 1e-2


@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_no_point_is_below_any_lower_bound(loss: Loss) -> None:
    problem, X, y = _case(loss, 0.1)
    best, generator = dual.minimize(problem, X, y), np.random.default_rng(2)
    bounds = []
    for size in (1e-3, 0.1, 1.0):
        for width in (1e-3, 0.1, 1.0):
            w = best.w + size * generator.normal(size=D)
            bounds.append(dual.lower_bound(problem, X, y, smoothed(loss, width).slope(X @ w, y)))
    assert max(bounds) <= best.value
    assert max(bounds) >= best.value - 1e-2
