"""The pace of this machine and what it predicts."""

import time

import numpy as np

from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from app.quotes.pace import Pace, pace
from solvers import Problem
from solvers.data_access.data import Data
from solvers.losses import Logistic, Softmax
from solvers.methods import DpGd
from solvers.solve import run

PACE = Pace(per_row=1e-6, per_entry=1e-8, scatter=3.0, per_answer=1e-3, per_coordinate=1e-5)


def test_seconds_by_hand() -> None:
    """Two full answers over 1000 rows and ten sampled ones of 200 evaluations each; d = 10."""
    plan = Plan((PlannedQuery("a", 2, Gaussian(), 1.0), PlannedQuery("b", 10, PoissonGaussian(0.1), 1.0)))
    expected = (2000 + 3 * 2000) * (1e-6 + 1e-7) + 12 * (1e-3 + 1e-4)
    assert abs(PACE.seconds(4000.0, plan, Problem(Logistic(), n=1000, d=10, row_norm=1.0)) - expected) < 1e-12
    several = 3 * (2000 + 3 * 2000) * (1e-6 + 1e-7) + 12 * (1e-3 + 3e-4)
    assert abs(PACE.seconds(4000.0, plan, Problem(Softmax(3), n=1000, d=10, row_norm=1.0)) - several) < 1e-12


def test_is_measured_once_and_is_a_rate() -> None:
    found = pace()
    assert found is pace()
    assert found.per_entry >= 0
    assert found.scatter >= 1
    assert 0 < found.per_answer < 1
    assert 1e-11 < found.per_row + 64 * found.per_entry < 1e-4


def test_predicts_a_run_to_the_order_of_magnitude() -> None:
    """Generous for a shared machine."""
    problem = Problem(Logistic(), n=100_000, d=30, row_norm=1.0)
    X = np.sin(np.arange(3_000_000.0)).reshape(100_000, 30)
    method = DpGd(steps=20, step=0.1)
    plan = Plan((PlannedQuery("gradient", 20, Gaussian(), 10.0),))
    data = Data.of(X, X[:, 0].copy(), problem)
    start = time.perf_counter()
    run(method, problem, data, ReleasePlan(plan, 1.0, 1e-6, "test", "0"), Noise())
    taken = time.perf_counter() - start
    predicted = pace().seconds(method.gradient_evaluations(problem), plan, problem)
    assert taken / 30 < predicted < taken * 30
