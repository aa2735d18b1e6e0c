"""SVRG as published and Barzilai-Borwein steps, compared by hand, the sums of the oracle, and refusals."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, SvrgStep
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, plan
from solvers.bounds import gradient_bound
from solvers.data_access import inputs, sums
from solvers.data_access.data import Data
from solvers.data_access.sampled import SampledOracle
from solvers.domains import L2Ball
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods import DpSvrg, DpSvrgPp
from solvers.methods.defaults.batches import Form, barzilai_borwein
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.solve import run
from tests.support.noiseless import noiseless
from tests.support.quiet_oracle import QuietOracle
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]
PRIVACY = Privacy(1.0, 1e-5)
FORMS: tuple[Form, ...] = ("printed", "safeguarded")
PROBLEM = Problem(Squared(), n=6, d=2, row_norm=2.0)


def rows(n: int, d: int, seed: int = 5) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)


def oracle_of(data: Data, batch: int, count: int = 9) -> SampledOracle:
    step = PlannedQuery("step", count, SvrgStep(batch, data.problem.n), 1.0)
    queries = Plan((step, PlannedQuery("full", 1, Gaussian(), 1.0)))
    return SampledOracle(data.problem, data, queries, Noise(SeededBits(4)))


def test_with_all_rows_in_the_batch_the_anchor_cancels() -> None:
    X, y = rows(6, 2)
    w, anchor = np.array([0.3, -0.2]), np.array([-0.5, 0.1])
    with noiseless() as answers:
        answer = oracle_of(inputs.of_arrays(X, y, PROBLEM), 6).printed_change("step", w, anchor)
    gradient = np.clip(X @ w - y, -1, 1) @ X / 6
    assert answer == pytest.approx(gradient)
    assert answers[0].value[1] == pytest.approx(np.clip(X @ anchor - y, -1, 1) @ X / 6)


def test_the_anchors_gradient_is_summed_once_for_each_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(6, 2)
    oracle = oracle_of(inputs.of_arrays(X, y, PROBLEM), 2)
    passes: list[Vector] = []
    original = vars(sums)["gradient_sum"]

    def counting(data: Data, pieces: Any, w: Vector, *arguments: Any) -> Vector:
        if not arguments:
            passes.append(w.copy())
        return original(data, pieces, w, *arguments)

    monkeypatch.setattr(sums, "gradient_sum", counting)
    first, second = np.zeros(2), np.ones(2)
    anchor = first.copy()
    for _ in range(3):
        oracle.printed_change("step", second, anchor)
    anchor[:] = second  # the caller's own array may change
    oracle.printed_change("step", first, anchor)
    assert [list(w) for w in passes] == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3)], ids=repr)
def test_replacing_one_record_moves_both_parts_within_their_bounds(loss: Any) -> None:
    problem = Problem(loss, n=6, d=2, row_norm=2.0)
    rng = np.random.default_rng(1)
    for trial in range(60):
        X, y = rng.standard_normal((6, 2)) * 10.0 ** rng.integers(-2, 4), rng.integers(0, 3, 6).astype(float) - 1
        w, anchor = rng.standard_normal((2, problem.size)) * 5
        with noiseless() as answers:
            for changed in (False, True):
                if changed:
                    X, y = X.copy(), y.copy()
                    X[trial % 6], y[trial % 6] = -3 * X[trial % 6], 1.0
                oracle_of(inputs.of_arrays(X, y, problem), 3).printed_change("step", w, anchor)
        (parts, bound), (neighbor_parts, neighbor_bound) = answers
        assert bound == neighbor_bound >= 2 * problem.G / 3
        assert np.linalg.norm(parts[0] - neighbor_parts[0]) <= 2 * bound
        assert np.linalg.norm(parts[1] - neighbor_parts[1]) <= bound * 3 / 6
        null_bound = gradient_bound(problem, float(np.linalg.norm(anchor)))  # a step to the null record pays no less
        assert null_bound <= bound * 3 / 12 * (1 + 1e-15)


def test_the_oracle_refuses_wrong_queries_and_points_that_are_not_finite() -> None:
    data = inputs.of_arrays(*rows(6, 2), PROBLEM)
    oracle = oracle_of(data, 2, count=1)
    w = np.zeros(2)
    with pytest.raises(OutOfPlan):
        oracle.printed_change("full", w, w)
    with pytest.raises(OutOfPlan):
        oracle.sampled_change("step", w, w)
    with pytest.raises(Unsuitable):
        oracle.printed_change("step", w, np.full(2, np.nan))
    oracle.printed_change("step", w, w)
    with pytest.raises(OutOfPlan):
        oracle.printed_change("step", w, w)
    wrong = Plan((PlannedQuery("step", 1, SvrgStep(2, 7), 1.0),))
    with pytest.raises(OutOfPlan, match="rows"):
        SampledOracle(PROBLEM, data, wrong, Noise(SeededBits(1))).printed_change("step", w, w)


@pytest.mark.parametrize("kind", [DpSvrgRun, DpSvrgPpRun])
def test_the_printed_form_requests_printed_steps_alone(kind: type[DpSvrgRun | DpSvrgPpRun]) -> None:
    problem = Problem(Squared(), domain=L2Ball(3.0), n=6, d=2, row_norm=2.0)
    X, y = rows(6, 2)
    oracle = QuietOracle(problem, X, y)
    method = kind(epochs=3, inner_steps=20, batch=6, step=0.25, form="printed")
    w = method.run(oracle, problem)
    (query,) = method.queries(problem)
    assert (query.name, query.mechanism) == ("step", SvrgStep(6, 6))
    assert dict(oracle.queries_asked) == {"step": query.count}
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.linalg.norm(X @ w - y) ** 2 <= np.linalg.norm(X @ best - y) ** 2 + 0.2


@pytest.mark.slow
def test_the_printed_form_needs_more_noise_than_the_safeguarded_one() -> None:
    """Large batches: a printed step has about 3 / sqrt(4/3) times the noise of a change at its largest."""
    problem = Problem(Logistic(), n=20_000, d=20, row_norm=1.0)
    printed = plan(DpSvrg(form="printed"), problem, PRIVACY)
    safeguarded = plan(DpSvrg(), problem, PRIVACY)
    assert printed.gradient_evaluations == safeguarded.gradient_evaluations
    assert 2.2 < printed.noise_stds[0] / safeguarded.noise_stds[1] < 3.5
    small = Problem(Logistic(), n=2000, d=20, row_norm=1.0)
    single = [plan(DpSvrg(form=f, batch=1, epochs=2, inner_steps=50), small, PRIVACY) for f in FORMS]
    assert single[0].noise_stds[0] > 2 * single[1].noise_stds[1]


class TestBarzilaiBorwein:
    def test_by_hand(self) -> None:
        assert barzilai_borwein(np.array([2.0, 0.0]), np.array([1.0, 0.5]), 10, 1.0) == pytest.approx(4 / (10 * 2.0))

    @pytest.mark.parametrize(
        "change", [[-1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [3.0, 0.0], [1.0, 2.0], [math.nan, 0.0], [math.inf, 0.0]]
    )
    def test_noise_is_not_believed(self, change: list[float]) -> None:
        """A negative or no curvature, or a change longer than L allows: the given step stays."""
        assert barzilai_borwein(np.array([2.0, 0.0]), np.array(change), 10, 1.0) is None

    def test_no_move_tells_nothing(self) -> None:
        assert barzilai_borwein(np.zeros(2), np.zeros(2), 10, 1.0) is None

    @pytest.mark.parametrize(
        ("curvature", "expected"), [(0.6, 1 / (2 * 0.6)), (1.0, 0.5), (0.01, 1 / (1 + 11 / 1000)), (0.0, 0.1)]
    )
    def test_the_second_epochs_step(self, curvature: float, expected: float) -> None:
        """L = 1, m = 2: 1 / (m curvature), but at most 1 / (L (1 + 11/b)); the first epoch has the given 0.1."""
        problem = Problem(Squared(), n=2000, d=1, row_norm=1.0)

        class Bent:
            """Exact answers about F(w) = curvature w^2 / 2 - w, and the points at which they were requested."""

            def __init__(self) -> None:
                self.points: list[float] = []

            def gradient(self, _query: str, w: Vector) -> Vector:
                return curvature * w - 1.0

            def sampled_change(self, _query: str, w: Vector, anchor: Vector) -> Vector:
                self.points.append(float(w[0]))
                return curvature * (w - anchor)

            def walk(self, *_arguments: Any) -> None:
                """Return None, so that every answer is requested."""

        oracle = Bent()
        DpSvrgRun(epochs=2, inner_steps=2, batch=1000, step=0.1, step_rule="barzilai_borwein").run(oracle, problem)  # type: ignore[arg-type]
        first, second, third, fourth = oracle.points
        assert second - first == pytest.approx(0.1 * (1 - curvature * first))
        assert fourth - third == pytest.approx(expected * (1 - curvature * third))

    def test_never_below_a_quarter_of_the_given_step(self) -> None:
        """Curvature 1, m = 100: 1/100 would do nothing; the doubling epochs count their own lengths."""
        problem = Problem(Squared(), domain=L2Ball(3.0), n=6, d=2, row_norm=1.0)
        X, y = rows(6, 2)
        steps: list[float] = []

        original = Problem.prox

        def prox(self: Problem, w: Vector, step: float) -> Vector:
            steps.append(step)
            return original(self, w, step)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Problem, "prox", prox)
            DpSvrgPpRun(epochs=3, inner_steps=50, batch=6, step=0.3, step_rule="barzilai_borwein").run(
                QuietOracle(problem, X, y),
                problem,
            )
        assert set(steps[:100]) == {0.3}
        assert set(steps[100:300]) == {0.3 / 4}

    def test_it_costs_nothing(self) -> None:
        problem = Problem(Logistic(), n=500, d=4, row_norm=1.0)
        fixed, moving = (plan(DpSvrg(step_rule=rule), problem, PRIVACY) for rule in ("fixed", "barzilai_borwein"))
        assert fixed.release == moving.release
        data = inputs.of_arrays(*rows(500, 4), problem)
        w, transcript, _ = run(moving.method, problem, data, moving.release, Noise(SeededBits(3)))
        assert np.isfinite(w).all()
        assert transcript == moving.release.plan

    @pytest.mark.parametrize("method", [DpSvrg, DpSvrgPp])
    def test_a_form_and_a_rule_that_exclude_each_other_are_refused(self, method: type[DpSvrg | DpSvrgPp]) -> None:
        with pytest.raises(Unsuitable):
            method(form="printed", step_rule="barzilai_borwein")
