"""adaptive_gd: its models, its queries and its refusals."""

import inspect
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter

from accounting import Privacy
from benchmarks.newton import minimize, objective
from solvers import Problem, plan, solve
from solvers.columns import Columns
from solvers.data_access.standardised import StandardisedOracle
from solvers.domains import L2Ball
from solvers.elsewhere import needs_one_machine
from solvers.errors import NeedsDelta, Unsuitable
from solvers.frame import Frame
from solvers.losses import Absolute, Hinge, HuberHinge, Logistic, Loss, Power, Quantile, Sigmoid, Softmax, Squared
from solvers.losses.smoothing import BoundedSlope
from solvers.methods import AdaptiveGd, DpGd, Method
from solvers.methods.defaults.adaptive_gd import CLASSES, NUMBERS, SETTINGS, SHARES
from solvers.methods.defaults.descent import budget_mu
from solvers.methods.defaults.step_growth import GROWTH
from solvers.methods.path import L1Weight, Path, StepGrowth
from solvers.methods.slopes import LimitTest
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.preparation import Declared
from solvers.regularizers import L2
from solvers.selection import Auto
from solvers.solve import data_of
from tests.support.runs import run_quote
from tests.support.standardised import LIMITED_LOSSES

Vector = NDArray[np.float64]
COLUMNS = Columns((1, 1, 4))
N = 20_000
PRIVACY = Privacy(0.5, 1e-6)


@pytest.mark.parametrize("schedule", [SHARES, SETTINGS, CLASSES, NUMBERS, GROWTH], ids=lambda each: type(each).__name__)
def test_every_constant_of_the_schedule_has_a_source(schedule: Any) -> None:
    _, *parts = re.split(r"^([a-z_0-9, ]+) : ", inspect.getdoc(schedule) or "", flags=re.MULTILINE)
    sources = {
        name: "Source:" in text
        for names, text in zip(parts[::2], parts[1::2], strict=True)
        for name in names.split(", ")
    }
    assert sources == dict.fromkeys(schedule.__dataclass_fields__, True)


def problem(loss: Loss, n: int = N) -> Problem:
    return Problem(loss, n=n, d=COLUMNS.d, row_norm=COLUMNS.row_norm, columns=COLUMNS)


@pytest.fixture(scope="module")
def rows() -> tuple[Vector, Vector]:
    """Two numbers far from the middle and hardly spread, as incomes or ages are, and a lopsided block; margins."""
    rng = np.random.default_rng(3)
    numbers = np.clip(np.column_stack((rng.normal(-0.9, 0.02, N), rng.normal(0.4, 0.1, N))), -1, 1)
    X = np.column_stack((numbers, np.eye(4)[rng.choice(4, N, p=(0.85, 0.1, 0.04, 0.01))], np.ones(N)))
    margin = 1.5 * (X[:, 0] + 0.9) / 0.02 - (X[:, 1] - 0.4) / 0.1 + 2 * X[:, 3] - 1
    return X, margin


def seeded_fit(
    method: Method, problem: Problem, X: Vector, y: Vector, privacy: Privacy, preparation: Declared | None = None
) -> Vector:
    """Return coefficients with seeded noise, because risks of single runs vary too much for a limit."""
    quote = plan(method, problem, privacy, preparation=preparation)
    return run_quote(quote, data_of(quote.problem, X, y))[0]


def accuracy(w: Vector, X: Vector, y: Vector) -> float:
    return float((np.sign(X @ w) == y).mean())


@pytest.mark.slow
def test_columns_far_from_the_middle_are_learned_where_plain_gradients_are_not(rows: tuple[Vector, Vector]) -> None:
    X, margin = rows
    y = np.where(np.random.default_rng(4).random(N) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    best = accuracy(np.array([75.0, -10, 0, 2, 0, 0, 75 * 0.9 + 3]), X, y)
    adaptive = accuracy(seeded_fit(AdaptiveGd(), problem(Logistic()), X, y, PRIVACY), X, y)
    plain = accuracy(seeded_fit(DpGd(), problem(Logistic()), X, y, PRIVACY, Declared()), X, y)
    prepared = accuracy(seeded_fit(DpGd(), problem(Logistic()), X, y, PRIVACY), X, y)
    assert adaptive > best - 0.04
    assert plain < best - 0.05
    assert prepared > best - 0.04


@pytest.mark.slow
def test_softmax_separates_classes(rows: tuple[Vector, Vector]) -> None:
    X, margin = (part[:5_000] for part in rows)
    y = (margin > -1.0).astype(float) + (margin > 1.0)
    w = seeded_fit(AdaptiveGd(), problem(Softmax(3), 5_000), X, y, Privacy(2.0, 1e-6)).reshape(3, -1)
    assert (np.argmax(X @ w.T, axis=1) == y).mean() > 0.8


def test_the_price_is_that_of_its_gaussian_answers() -> None:
    quote = plan(AdaptiveGd(steps=100), problem(Squared()), PRIVACY)
    assert [q.name for q in quote.release.plan.queries] == [
        "gradient",
        "means",
        "spread",
        "variances",
        "target_mean",
        "target_spread",
        "residual",
    ]
    spent = {q.name: q.count * (2 / q.noise_multiplier) ** 2 for q in quote.release.plan.queries}
    whole = sum(spent.values())
    assert spent["gradient"] / whole == pytest.approx(0.85, rel=1e-6)
    assert spent["means"] / whole == pytest.approx(0.05, rel=1e-6)
    assert quote.release.plan.gdp() == pytest.approx(whole**0.5)
    assert quote.release.accountant == "exact_gaussian"


def test_settings_are_kept_and_open_ones_filled() -> None:
    run = AdaptiveGd(steps=7, slope_limit=0.25).resolve(problem(Logistic()), PRIVACY)
    assert run == AdaptiveGdRun(7, 0.25)
    assert AdaptiveGd().resolve(problem(Logistic()), PRIVACY).slope_limit == 1.0  # n mu* / d is above 200
    for settings in ({"steps": 0}, {"slope_limit": 8.5}, {"residual_limit": 0.5}):
        with pytest.raises(Unsuitable):
            AdaptiveGdRun(**({"steps": 1, "slope_limit": 1.0} | settings))


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "steps", "residual_limit"),
    [
        (1000, 400, 1.0, 250, 1.0),
        (60_000, 400, 1.0, 500, 1.0),
        (60_000, 160, 1.0, 320, 1.0),
        (200_000, 10, 1.0, 250, 4.0),
    ],
)
def test_many_columns_take_more_steps_and_little_noise_wider_residuals(
    n: int, d: int, epsilon: float, steps: int, residual_limit: float
) -> None:
    columns = Columns((1,) * (d - 1))
    case = Problem(Squared(), n=n, d=d, row_norm=columns.row_norm, columns=columns)
    run = AdaptiveGd().resolve(case, Privacy(epsilon, 1e-5))
    assert (run.steps, run.residual_limit) == (steps, residual_limit)
    assert run.bounds(case)["gradient"] == (residual_limit / n, d)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)])
@pytest.mark.parametrize(
    ("n", "epsilon", "steps"),
    [(2_000, 0.5, 250), (50_000, 1.0, None), (50_000, 4.0, None), (10**6, 4.0, 1000), (10**8, 4.0, 250)],
)
def test_classes_take_as_many_steps_as_momentum_needs_to_forget_its_start(
    loss: Loss, n: int, epsilon: float, steps: int | None
) -> None:
    """But no more than 1000, nor 5e9 gradients where 250 steps are fewer."""
    columns, privacy = Columns((1,) * 20), Privacy(epsilon, 1e-5)
    case = Problem(loss, n=n, d=21, row_norm=columns.row_norm, columns=columns)
    run = AdaptiveGd().resolve(case, privacy)
    if steps is None:
        noise = 2 * min(run.slope_limit, 1.0) * loss.slope_bound / (n * budget_mu(case, privacy))
        eta = 3.0 if case.outputs == 1 else 1.5
        assert 250 < run.steps < 1000
        moving = 0.9 if run.slope_limit > 1 else 1.0  # the other steps test the limit
        assert 8 <= moving * run.steps * np.sqrt(eta * noise) < 8.05
    else:
        assert run.steps == steps


def test_a_document_of_an_earlier_version_cuts_residuals_as_it_did() -> None:
    text = '{"name": "adaptive_gd", "steps": 250, "slope_limit": 1.0}'
    assert TypeAdapter(AdaptiveGdRun).validate_json(text) == AdaptiveGdRun(250, 1.0, 1.0)


def test_problems_that_do_not_fit_are_refused() -> None:
    plain = Problem(Logistic(), n=N, d=7, row_norm=2.0)
    clipped = Problem(Logistic(), n=N, d=7, row_norm=1.0, columns=COLUMNS)
    inside = Problem(Logistic(), domain=L2Ball(1.0), n=N, d=7, row_norm=2.0, columns=COLUMNS)
    for case, word in ((plain, "declared"), (clipped, "clipped"), (inside, "free"), (problem(Sigmoid()), "sigmoid")):
        with pytest.raises(Unsuitable, match=word):
            AdaptiveGd().resolve(case, PRIVACY)
    for widest in (1e-80, 1e-13):  # a run would have ended without a model, after its charge
        next_to_nothing = Columns((1, 3), ((0.0, widest),))
        narrow = Problem(Logistic(), n=N, d=5, row_norm=next_to_nothing.row_norm, columns=next_to_nothing)
        with pytest.raises(Unsuitable, match="1e-12"):
            AdaptiveGd().resolve(narrow, PRIVACY)
    with pytest.raises(NeedsDelta, match="adaptive_gd"):
        AdaptiveGd().resolve(problem(Logistic()), Privacy(1.0))


def test_auto_takes_it_for_declared_columns_and_a_weak_ridge_alone() -> None:
    def chosen(case: Problem) -> str:
        return Auto().choose(case, PRIVACY)[0].method.name

    for loss in LIMITED_LOSSES:
        assert chosen(problem(loss)) == "adaptive_gd"
    assert chosen(problem(Sigmoid())) == "dp_gd"
    assert chosen(problem(Power())) == "noisy_sgd"
    strong = Problem(Logistic(), L2(1.0), n=N, d=7, row_norm=2.0, columns=COLUMNS)
    assert chosen(strong) != "adaptive_gd"
    assert chosen(Problem(Logistic(), n=N, d=7, row_norm=2.0)) == "dp_gd"


@pytest.mark.parametrize("n", [1, 10, 30])
def test_a_few_rows_give_a_poor_model_and_no_failure(n: int) -> None:
    """Penalties at the level of the noise are limited if they would make steps grow."""
    rng = np.random.default_rng(n)
    X = np.column_stack((rng.uniform(-1, 1, (n, 2)), np.eye(4)[rng.choice(4, n)], np.ones(n)))
    for loss in LIMITED_LOSSES:
        y = np.zeros(n) if loss.outputs > 1 else np.ones(n)
        small_problem = Problem(loss, n=n, d=7, row_norm=2.0, columns=COLUMNS)
        assert np.isfinite(solve(AdaptiveGd(), small_problem, X, y, Privacy(0.1, 1e-5)).coefficients).all()


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.1), Quantile(0.9), Hinge(), HuberHinge()], ids=repr)
def test_other_losses_are_minimized_in_private_coordinates(loss: Loss, rows: tuple[Vector, Vector]) -> None:
    """The excess risk is below a twentieth of that of w = 0. Gradient steps on rows as declared leave more."""
    X, margin = rows
    noise = np.random.default_rng(4).gumbel(size=N)  # skewed, so that mean, median and quantiles differ
    y = np.clip((margin + noise) / 8, -1, 1) if loss.takes == "number" else np.sign(margin + noise)

    def risk(w: Vector) -> float:
        return float(np.mean(loss.value(X @ w, y)))

    true = np.array([75.0, -10, 0, 2, 0, 0, 75 * 0.9 + 3])
    offset = {"absolute": 0.37, "quantile": -np.log(-np.log(getattr(loss, "level", 0.5)))}.get(str(loss.name), 0.0)
    best = (true + np.append(np.zeros(6), offset)) / (8 if loss.takes == "number" else 1)
    best_risk = risk(best)
    private = risk(seeded_fit(AdaptiveGd(), problem(loss), X, y, PRIVACY))
    assert private - best_risk < 0.05 * (risk(0 * best) - best_risk)


BOUNDED_SLOPES = [loss for loss in LIMITED_LOSSES if isinstance(loss, BoundedSlope)]


@pytest.mark.parametrize("loss", [*BOUNDED_SLOPES, Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize(
    ("n", "epsilon", "limit"), [(1_000, 0.5, 0.5), (50_000, 1.0, None), (10**6, 1.0, None), (10**9, 4.0, 8.0)]
)
def test_the_largest_limit_grows_as_the_cube_root_of_the_signal(
    loss: Loss, n: int, epsilon: float, limit: float | None
) -> None:
    """At a middle signal the limit of classes is 1, because only a much wider one is tested."""
    columns, privacy = Columns((1,) * 20), Privacy(epsilon, 1e-5)
    case = Problem(loss, n=n, d=21, row_norm=columns.row_norm, columns=columns)
    run = AdaptiveGd().resolve(case, privacy)
    signal = n * budget_mu(case, privacy) / case.size
    if n == 50_000 and not isinstance(loss, BoundedSlope):
        limit = 1.0
    assert run.slope_limit == pytest.approx(np.cbrt(signal / 100) if limit is None else limit)
    assert run.bounds(case)["gradient"] == (run.slope_limit * loss.slope_bound / n, case.size)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Hinge()])
def test_the_largest_limit_never_falls_as_the_signal_grows(loss: Loss) -> None:
    case = problem(loss)
    limits = [SETTINGS.slope_limit(case, signal) for signal in np.geomspace(0.1, 1e7, 200)]
    assert limits == sorted(limits)
    assert (limits[0], limits[-1]) == (0.5, 8.0)


def test_only_a_wider_limit_of_logistic_and_softmax_is_tested() -> None:
    for loss in (Logistic(), Softmax(3)):
        assert [CLASSES.narrow_limit(problem(loss), limit) for limit in (0.3, 1.0, 8.0)] == [0.3, 1.0, 1.0]
    assert CLASSES.narrow_limit(problem(Hinge()), 8.0) == 8.0
    assert CLASSES.tested_steps(250) == range(51, 76)
    assert [len(CLASSES.tested_steps(steps)) for steps in (1, 10, 13, 14)] == [0, 0, 0, 2]


def requested_limits(w: Vector, square: float, patched: pytest.MonkeyPatch) -> tuple[list[float], float]:
    """Return the limit of each requested gradient, and the distance of the model from the best one.

    Three numbers, of which few rows are far from the others. Labels depend on w and on one square.
    """
    rng = np.random.default_rng(5)
    numbers = rng.exponential(size=(N, 3)).clip(0, 8)
    margin = (numbers - 1) @ w + square * ((numbers[:, 0] - 1) ** 2 - 1)
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    X, columns = np.column_stack((numbers / 4 - 1, np.ones(N))), Columns((1, 1, 1))
    case = Problem(Logistic(), n=N, d=4, row_norm=columns.row_norm, columns=columns)
    limits: list[float] = []
    gradient = StandardisedOracle.gradient

    def heard(oracle: StandardisedOracle, query: str, at: Vector, frame: Frame, limit: float, h: float = 0) -> Vector:
        limits.append(limit)
        return gradient(oracle, query, at, frame, limit, h)

    patched.setattr(StandardisedOracle, "gradient", heard)
    fitted_w = seeded_fit(AdaptiveGd(steps=200, slope_limit=4.0), case, X, y, Privacy(8.0, 1e-5))
    best = minimize(case, X, y)
    return limits, objective(case, X, y, fitted_w) - best.value


def test_a_limit_that_moves_a_wrong_model_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels follow a square, so rows that the limit shortens disagree with the others."""
    limits, excess = requested_limits(np.array([0.0, 1.0, -1.0]), 1.0, monkeypatch)
    assert limits == [1.0] * 44 + [4.0] * 156
    monkeypatch.setattr(LimitTest, "chosen", lambda test, *_: test.narrow)
    limits, narrow = requested_limits(np.array([0.0, 1.0, -1.0]), 1.0, monkeypatch)
    assert set(limits) == {1.0}
    assert excess < narrow / 4


def test_the_weight_of_the_l1_is_not_learned_while_a_path_leaves_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with a wide limit begins again, so it also waits a tenth of the steps before it learns."""
    learned = []
    monkeypatch.setattr(L1Weight, "learn", lambda *_: learned.append(1))
    requested_limits(np.array([0.0, 1.0, -1.0]), 1.0, monkeypatch)
    assert len(learned) == len(range(20, 41)) + len(range(60 + 20, 201))


def test_growth_of_steps_begins_anew_with_a_wide_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the noise of the wide limit, and it waits a tenth of the steps from the new start."""
    used: list[tuple[StepGrowth, float]] = []
    path_steps: list[int | None] = []
    extrapolate = Path.extrapolate

    def recorded_growth(growth: StepGrowth, step: float, _gradient: Vector, _path: Path, noise_std: float) -> float:
        used.append((growth, noise_std))
        return step

    def recorded_point(path: Path, step_times_convexity: float, t: int | None = None) -> Vector:
        path_steps.append(t)
        return extrapolate(path, step_times_convexity, t)

    monkeypatch.setattr(StepGrowth, "next_step", recorded_growth)
    monkeypatch.setattr(Path, "extrapolate", recorded_point)
    requested_limits(np.array([0.0, 1.0, -1.0]), 1.0, monkeypatch)
    (first, narrow_noise), (second, wide_noise) = used[0], used[-1]
    assert first is not second
    assert wide_noise == pytest.approx(4 * narrow_noise)
    assert used == [(first, narrow_noise)] * len(range(21, 41)) + [(second, wide_noise)] * len(range(60 + 21, 201))
    assert path_steps == [*range(1, 41), *range(1, 141)]


def test_a_limit_of_a_right_model_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, excess = requested_limits(np.array([0.5, 0.5, -0.5]), 0.0, monkeypatch)
    assert limits == [1.0] * 44 + [4.0] * 16 + [1.0] * 140
    assert excess < 1e-3


def test_auto_keeps_it_up_to_the_limit_of_a_service() -> None:
    """250 steps over 3.9e8 rows are 1e11 gradients."""
    columns = Columns((1,) * 20)

    def chosen(n: int) -> str:
        case = Problem(Logistic(), n=n, d=21, row_norm=columns.row_norm, columns=columns)
        return Auto().choose(case, Privacy(1.0, 1e-6))[0].method.name

    assert [chosen(n) for n in (5 * 10**7, 3 * 10**8)] == ["adaptive_gd"] * 2
    assert chosen(10**9) == "dp_svrg"


@pytest.mark.parametrize("loss", [*LIMITED_LOSSES, Sigmoid(), Power()], ids=repr)
@pytest.mark.parametrize("n", [400, 10**6, 5 * 10**9])
def test_auto_takes_no_method_that_partitions_refuse(loss: Loss, n: int) -> None:
    """Batches of dp_svrg may be too large to be sent to partitions."""
    columns = Columns((1,) * 20)
    declared = Problem(loss, n=n, d=21, row_norm=columns.row_norm, columns=columns)
    for case in (declared, Problem(loss, n=n, d=21, row_norm=1.0)):
        fitted, _ = Auto().choose(case, Privacy(4.0, 1e-6), is_apart=True)
        assert needs_one_machine(fitted.method, fitted.preparation.prepared(fitted.problem)) is None
