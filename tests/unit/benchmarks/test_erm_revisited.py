"""What the reproduction of the ERM paper rests on: a certificate that cannot lie, slopes, budgets that grow."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize as quasi_newton
from scipy.special import expit

from accounting import Privacy
from benchmarks import newton
from benchmarks.erm_runs import LONGER, VARIANTS, Point
from benchmarks.erm_tables import slope
from solvers import Problem
from solvers.losses import Logistic
from solvers.regularizers import L2, NoRegularizer

N, D = 400, 5


@pytest.fixture
def rows() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A category (the fourth column) whose rows are all of one class, and a column that says nothing new."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(N, D))
    X[:, 4] = X[:, 0] - X[:, 1]
    y = np.where(generator.random(N) < expit(2 * X[:, 0] - X[:, 2]), 1.0, -1.0)
    X[:, 3] = 0.0
    X[np.flatnonzero(y > 0)[:3], 3] = 1.0
    return X, y


def _problem(strength: float) -> Problem:
    return Problem(Logistic(), L2(strength) if strength else NoRegularizer(), n=N, d=D, row_norm=20.0)


@pytest.mark.parametrize("strength", [1e-2, 0.0])
def test_newton_is_certified_and_no_worse_than_another_solver(
    rows: tuple[NDArray[np.float64], NDArray[np.float64]], strength: float
) -> None:
    X, y = rows
    problem = _problem(strength)
    best = newton.minimize(problem, X, y)
    reference = quasi_newton(lambda w: newton.objective(problem, X, y, w), np.zeros(D), options={"gtol": 1e-7})
    assert best.gap <= newton.PRECISION
    assert best.value == newton.objective(problem, X, y, best.w)
    assert best.value <= reference.fun + newton.PRECISION
    assert best.value >= reference.fun - 1e-4


def test_duality_gap_is_never_less_than_the_distance_to_the_infimum(
    rows: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:
    X, y = rows
    problem = _problem(0.0)
    best = newton.minimize(problem, X, y)
    generator = np.random.default_rng(2)
    finite = 0
    for size in (1e-6, 1e-4, 1e-2, 1e-1, 1.0):
        w = best.w + size * generator.normal(size=D)
        value = newton.objective(problem, X, y, w)
        gap = newton._duality_gap(X, y, expit(-y * (X @ w)), value)
        assert gap >= value - best.value
        finite += np.isfinite(gap)
    assert finite >= 3


def test_slope_is_exact_on_a_power_law() -> None:
    points = [Point("", 0.0, n, 1.0, 1.0, np.array([7.0 * n**-1.5] * 2), np.ones(2)) for n in (10, 100, 500)]
    exponent, error = slope(points, lambda p: p.n)
    assert exponent == pytest.approx(-1.5)
    assert error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", [*VARIANTS, *LONGER])
def test_a_share_of_the_steps_costs_less_and_all_of_them_are_the_default(name: str) -> None:
    problem = Problem(Logistic(), L2(1e-2), n=200_000, d=55, row_norm=7.4)
    privacy, variant = Privacy(0.5, 1e-3), (VARIANTS | LONGER)[name]
    shares = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0]
    costs = [variant(problem, privacy, s).resolve(problem, privacy).gradient_evaluations(problem) for s in shares]
    assert all(np.diff(costs) > 0)
    if name in VARIANTS:
        whole = variant(problem, privacy, 1.0)
        assert whole == type(whole)()
