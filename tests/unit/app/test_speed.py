"""The speed of this machine and what it predicts."""

import time

import numpy as np
import pytest

from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from app.calculation.speed import Speed, measured_speed
from solvers import Problem
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.losses import Logistic, Softmax
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.solve import run

SPEED = Speed(per_row=1e-6, per_entry=1e-8, scatter=3.0, per_answer=1e-3, per_coordinate=1e-5)


def test_seconds_by_hand() -> None:
    """Two full answers over 1000 rows and ten sampled ones of 200 evaluations each; d = 10."""
    plan = Plan((PlannedQuery("a", 2, Gaussian(), 1.0), PlannedQuery("b", 10, PoissonGaussian(0.1), 1.0)))
    expected = (2000 + 3 * 2000) * (1e-6 + 1e-7) + 12 * (1e-3 + 1e-4)
    assert abs(SPEED.seconds(4000.0, plan, Problem(Logistic(), n=1000, d=10, row_norm=1.0)) - expected) < 1e-12
    several = 3 * (2000 + 3 * 2000) * (1e-6 + 1e-7) + 12 * (1e-3 + 3e-4)
    assert abs(SPEED.seconds(4000.0, plan, Problem(Softmax(3), n=1000, d=10, row_norm=1.0)) - several) < 1e-12
    columns = Columns((1, 1, 5, 2))  # 2 numbers, the constant and 2 categories: 11 entries, 10 coordinates
    coded = (2000 + 3 * 2000) * (1e-6 + 1.1e-7) + 12 * (1e-3 + 1e-4)
    declared = Problem(Logistic(), n=1000, d=10, row_norm=columns.row_norm, columns=columns)
    assert abs(SPEED.seconds(4000.0, plan, declared) - coded) < 1e-12


def test_pace_measures_a_machine_of_known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that charges 2 us a row, 30 ns an entry, four times as much if sampled, 1 ms and 10 us a coordinate."""
    sizes: list[tuple[int, int]] = []

    def seconds(n: int, d: int) -> tuple[float, float]:
        sizes.append((n, d))
        answer, rows = 1e-3 + 1e-5 * d, n * (2e-6 + 3e-8 * d)
        return (answer, answer) if n == 1 else (answer + rows, answer + 4 * 0.05 * rows)

    monkeypatch.setattr("app.calculation.speed._seconds", seconds)
    measured_speed.cache_clear()
    try:
        measured = measured_speed()
        assert measured_speed() is measured
    finally:
        measured_speed.cache_clear()
    assert len(sizes) == len(set(sizes)) == 4
    assert (measured.per_row, measured.per_entry) == pytest.approx((2e-6, 3e-8), rel=1e-9)
    assert (measured.scatter, measured.per_coordinate) == pytest.approx((4.0, 1e-5), rel=1e-9)
    assert measured.per_answer == pytest.approx(1e-3, rel=0.05)  # with its four coordinates


@pytest.mark.slow
def test_predicts_a_run_to_the_order_of_magnitude() -> None:
    """Both are CPU times of the same loops, so load has no effect; caches and clocks change them less than 30 times."""
    import solvers.compiled  # noqa: F401, before the run, whose time would otherwise include the compilation

    problem = Problem(Logistic(), n=100_000, d=30, row_norm=1.0)
    X = np.sin(np.arange(3_000_000.0)).reshape(100_000, 30)
    method = DpGdRun(steps=20, step=0.1)
    plan = Plan((PlannedQuery("gradient", 20, Gaussian(), 10.0),))
    data = inputs.of_arrays(X, X[:, 0].copy(), problem)
    start = time.thread_time()
    run(method, problem, data, ReleasePlan(plan, 1.0, 1e-6, "test", "0"), Noise())
    elapsed = time.thread_time() - start
    predicted = measured_speed().seconds(method.gradient_evaluations(problem), plan, problem)
    assert elapsed / 30 < predicted < elapsed * 30
