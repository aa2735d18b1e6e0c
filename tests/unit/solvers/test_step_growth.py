"""Steps of adaptive_gd that grow with the model, as a function of answers alone."""

import math
import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.plan import PlannedQuery
from solvers import Problem, plan, solve
from solvers.columns import Columns
from solvers.data_access.meter import Meter
from solvers.frame import Frame
from solvers.losses import Logistic, Loss, Softmax
from solvers.methods import AdaptiveGd
from solvers.methods.defaults.step_growth import GROWTH
from solvers.methods.path import Path, StepGrowth, convex_momentum
from solvers.methods.standardised import adaptive_gd
from solvers.solve import data_of
from tests.support.coupled import complaints_of_each
from tests.support.runs import run_quote

Vector = NDArray[np.float64]
COLUMNS = Columns((1, 1))
VARIANCES = np.array([0.25, 0.04])
NOISE_STD = 1e-3  # of a gradient, so small that the noise of a step does not matter
N, STEPS = 300, 40
LEAKED = "no function of the answers"


def path_at(*points: tuple[float, float, float]) -> Path:
    """Return a path through these points, in a frame that changes nothing but the constant."""
    problem = Problem(Logistic(), n=10, d=3, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    path = Path(problem, Frame(np.zeros(2), np.ones(2), 0.3))
    for t, point in enumerate(points, start=1):
        path.descend(np.array(point), np.zeros(3), np.zeros(3), 1.0, t)
    return path


def test_steps_grow_as_the_curvature_of_large_margins_falls() -> None:
    """The intercept does not count: equal margins of all rows are no spread."""
    for scale in (0.0, 1.0, 3.0, 10.0, 30.0):
        path = path_at((2 * scale, -5 * scale, 1e3))
        variance = 2 * scale**2  # (2 * 0.5 + 5 * 0.2)^2 / 2 for scale 1
        curvatures = [1 / math.sqrt(1 + math.pi * each / 8) for each in (GROWTH.usual_variance, variance)]
        step = StepGrowth(VARIANCES).next_step(3.0, np.zeros(3), path, NOISE_STD)
        assert step == pytest.approx(3.0 * max(1.0, curvatures[0] / curvatures[1]))
    assert step > 30


def test_a_step_is_cut_if_the_gradient_points_along_the_last_move_and_recovers() -> None:
    path = path_at((0.0, 0.0, 0.0), (20.0, -50.0, 0.0))
    along = np.array([20.0, -50.0, 0.0]) / math.hypot(20, 50)
    growth = StepGrowth(VARIANCES)
    full = growth.next_step(3.0, -9 * NOISE_STD * along, path, NOISE_STD)
    assert growth.next_step(3.0, 3.9 * NOISE_STD * along, path, NOISE_STD) == full
    short = growth.next_step(3.0, 4.1 * NOISE_STD * along, path, NOISE_STD)
    assert short == pytest.approx(GROWTH.cut * full)
    later = [growth.next_step(3.0, np.zeros(3), path, NOISE_STD) for _ in range(50)]
    assert later[0] == pytest.approx(GROWTH.recovery * short)
    assert later == sorted(later)
    assert later[-1] == full
    for _ in range(50):
        never_shorter = growth.next_step(3.0, along, path, NOISE_STD)
    assert never_shorter == 3.0


def test_a_gradient_along_a_short_step_does_not_limit_later_steps() -> None:
    small, large = path_at((0.0, 0.0, 0.0), (0.02, -0.05, 0.0)), path_at((0.0, 0.0, 0.0), (20.0, -50.0, 0.0))
    along = np.array([20.0, -50.0, 0.0]) / math.hypot(20, 50)
    growth = StepGrowth(VARIANCES)
    assert growth.next_step(3.0, 9 * NOISE_STD * along, small, NOISE_STD) == 3.0
    assert not growth.is_restart
    full = growth.next_step(3.0, np.zeros(3), large, NOISE_STD)
    assert full == StepGrowth(VARIANCES).next_step(3.0, np.zeros(3), large, NOISE_STD)


@pytest.mark.parametrize(("stds", "is_restart"), [(-9.0, False), (7.9, False), (8.1, True)])
def test_momentum_begins_anew_after_a_step_that_was_far_too_long(stds: float, is_restart: bool) -> None:
    path, growth = path_at((0.0, 0.0, 0.0), (20.0, -50.0, 0.0)), StepGrowth(VARIANCES)
    growth.next_step(3.0, stds * NOISE_STD * np.array([20.0, -50.0, 0.0]) / math.hypot(20, 50), path, NOISE_STD)
    assert growth.is_restart == is_restart
    path.restart()
    assert path.slope_along_move(np.ones(3)) == 0
    np.testing.assert_array_equal(path.extrapolate(0.01), [20.0, -50.0, 0.0])


def test_the_intercept_has_the_momentum_of_convex_functions_while_that_is_less() -> None:
    path = path_at((0.0, 0.0, 0.0), (1.0, -1.0, 1.0))
    assert [convex_momentum(t) for t in (1, 4)] == [0, 0.5]
    *slopes, intercept = path.extrapolate(1e-6, 4)
    assert slopes == pytest.approx([2, -2], abs=0.01)
    assert intercept == 1.5
    assert path.extrapolate(0.25, 40)[2] == pytest.approx(path.extrapolate(0.25)[0])


def test_each_output_has_an_intercept_with_this_momentum() -> None:
    problem = Problem(Softmax(2), n=10, d=3, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    path = Path(problem, Frame(np.zeros(2), np.ones(2), 0.3))
    path.descend(np.ones(6), np.zeros(6), np.zeros(6), 1.0, 1)
    np.testing.assert_array_equal(path.extrapolate(1e-6, 4).reshape(2, 3)[:, 2], [1.5, 1.5])


def test_a_run_uses_the_momentum_of_the_intercept_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int | None] = []
    restarts: list[bool] = []
    extrapolate, restart = Path.extrapolate, Path.restart

    def recorded_point(path: Path, step_times_convexity: float, t: int | None = None) -> Vector:
        steps.append(t)
        return extrapolate(path, step_times_convexity, t)

    def far_too_long(growth: StepGrowth, step: float, *_: object) -> float:
        growth.is_restart = True
        return step

    def recorded_restart(path: Path) -> None:
        restarts.append(path.slope_along_move(np.ones(3)) != 0)
        restart(path)

    monkeypatch.setattr(Path, "extrapolate", recorded_point)
    monkeypatch.setattr(Path, "restart", recorded_restart)
    monkeypatch.setattr(StepGrowth, "next_step", far_too_long)
    problem, X, y = separable(Logistic())
    solve(AdaptiveGd(steps=5), problem, X, y, Privacy(10.0, 1e-6))
    assert steps == [1, 2, 3, 4, 5]
    assert restarts == [True] * 5


def test_steps_do_not_grow_where_their_noise_would_move_margins_much() -> None:
    path = path_at((20.0, -50.0, 0.0))
    for noise_std, factor in ((1e-2, 0.15 / 0.03), (0.05, 1.0), (1.0, 1.0)):
        assert StepGrowth(VARIANCES).next_step(3.0, np.zeros(3), path, noise_std) == pytest.approx(3.0 * factor)


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_a_run_of_few_steps_has_no_mean_before_its_first_step(steps: int) -> None:
    problem = Problem(Logistic(), n=50, d=3, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(AdaptiveGd(steps=steps), problem, np.tile([0.5, -0.5, 1.0], (50, 1)), np.ones(50), Privacy(4.0, 1e-5))


def separable(loss: Loss) -> tuple[Problem, Vector, Vector]:
    """Return rows whose class is the sign of their first number, so that the model becomes large."""
    rng = np.random.default_rng(2)
    numbers = np.column_stack((rng.choice([-1.0, 1.0], N) * rng.uniform(0.3, 1, N), rng.uniform(-1, 1, N)))
    y = np.sign(numbers[:, 0])
    problem = Problem(loss, n=N, d=3, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    return problem, np.column_stack((numbers, np.ones(N))), np.maximum(y, 0) if loss.outputs > 1 else y


def complaints_of_grown_run(loss: Loss) -> list[str]:
    """Return the complaints of comparing neighbors of a run whose steps grow."""
    problem, X, y = separable(loss)
    quote = plan(AdaptiveGd(steps=STEPS, slope_limit=1.0), problem, Privacy(100.0, 1e-6))
    X[7], y[7] = [-1.0, -1.0, 1.0], y.max()
    return complaints_of_each(quote, X, y, [((np.array([1.0, 1.0, 1.0]), y.max()), None)])


losses = pytest.mark.parametrize("loss", [Logistic(), Softmax(2)], ids=lambda loss: str(loss.name))


@losses
def test_steps_that_grow_are_functions_of_answers(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios, next_step = [], StepGrowth.next_step

    def recorded(growth: StepGrowth, step: float, gradient: Vector, path: Path, noise_std: float) -> float:
        ratios.append(next_step(growth, step, gradient, path, noise_std) / step)
        return ratios[-1] * step

    monkeypatch.setattr(StepGrowth, "next_step", recorded)
    assert complaints_of_grown_run(loss) == []
    assert max(ratios) > 1.2
    assert len(ratios) == 2 * (STEPS - STEPS // 10)


@losses
@pytest.mark.parametrize("query", ["variances", "gradient"])
def test_a_step_that_follows_an_exact_answer_is_caught(query: str, loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: the variances of `StepGrowth` are the exact ones, or its gradient is."""
    exact: list[Vector] = []
    answer, next_step = Meter.answer, StepGrowth.next_step

    def overheard(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        if planned.name == query:
            exact.append(value.copy())
        return answer(meter, planned, value, bound)

    def by_exact(growth: StepGrowth, step: float, _gradient: Vector, path: Path, _noise_std: float) -> float:
        return next_step(growth, step, exact[-1], path, 1e-9)

    monkeypatch.setattr(Meter, "answer", overheard)
    if query == "variances":
        monkeypatch.setattr(adaptive_gd, "StepGrowth", lambda _: StepGrowth(exact[-1]))
    else:
        monkeypatch.setattr(StepGrowth, "next_step", by_exact)
    assert any(LEAKED in complaint for complaint in complaints_of_grown_run(loss))


def test_a_descent_along_a_difference_of_similar_columns_ends_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    shared, own = rng.uniform(-0.8, 0.8, (3000, 1)), rng.normal(size=(3000, 2))
    X = np.column_stack((np.clip(shared + 0.05 * own, -1, 1), np.ones(3000)))
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-5 * (own[:, 0] - own[:, 1]))), 1.0, -1.0)
    problem = Problem(Logistic(), n=3000, d=3, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    quote = plan(AdaptiveGd(), problem, Privacy(4.0, 1e-6))

    def risk() -> float:
        return float(np.mean(problem.loss.value(X @ run_quote(quote, data_of(quote.problem, X, y))[0], y)))

    grown = risk()
    monkeypatch.setattr(StepGrowth, "next_step", lambda _, step, *__: step)
    assert grown < 0.97 * risk()
