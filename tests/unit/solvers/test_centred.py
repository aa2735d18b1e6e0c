"""Centred changes: their values, their bounds, their use, and mutants without the half or the clip."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, plan
from solvers.centred import centred_bound, centres
from solvers.columns import Columns
from solvers.data_access import inputs, sampled
from solvers.data_access.data import Data
from solvers.data_access.frames import framed
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.sums import gradient_sum
from solvers.data_access.walk import WalkingOracle
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Absolute, HuberHinge, Logistic, Loss, Quantile, Sigmoid, Softmax, Squared
from solvers.methods import DpSvrg, DpSvrgPp
from solvers.methods.defaults import batches
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from tests.support.batches import ScriptedBatches, own_batches
from tests.support.coded_rows import unfolded
from tests.support.noiseless import ExactAnswer, noiseless
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]
N, D, RATE = 12, 3, 0.5
SIZE = RATE * N
LOSSES: list[Loss] = [Logistic(), HuberHinge(0.3), Squared(0.7), Quantile(0.3, 0.2)]


@pytest.fixture(autouse=True)
def _own() -> Iterator[None]:
    with own_batches():
        yield


@contextmanager
def scripted_oracle(data: Data) -> Iterator[tuple[SampledOracle, ScriptedBatches, list[ExactAnswer]]]:
    """Yield an oracle without noise, the source of its batches, and its answers."""
    source = ScriptedBatches(SeededBits(1))
    source.batch = np.arange(N)
    queries = Plan((PlannedQuery("change", 10**6, PoissonGaussian(RATE), 1.0),))
    with noiseless() as answers:
        yield SampledOracle(data.problem, data, queries, source), source, answers


def drawn(loss: Loss, seed: int, length: float = 3.0) -> tuple[Data, Vector, Vector]:
    """Rows of every length up to R and some beyond, an anchor, and a direction."""
    rng = np.random.default_rng(seed)
    problem = Problem(loss, n=N, d=D, row_norm=2.0)
    X = rng.standard_normal((N, D)) * rng.uniform(0, length, (N, 1))
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0) if loss.takes == "class" else rng.uniform(-1, 1, N)
    anchor, moved = rng.standard_normal(D), rng.standard_normal(D)
    return inputs.of_arrays(X, y, problem), anchor, moved / np.linalg.norm(moved)


def joins(loss: Loss, seed: int, distance: float, data: Data | None = None, anchor: Vector | None = None) -> float:
    """Return the farthest that any record moves a centred change by joining a batch, divided by the bound."""
    own, at, moved = drawn(loss, seed)
    data, at = data or own, at if anchor is None else anchor
    worst = 0.0
    at = at if distance >= 1e-17 else 0.0 * at  # at 0, where so short a move is not rounded away
    with scripted_oracle(data) as (oracle, source, answers):
        for record in range(N):
            answers.clear()
            for batch in (np.delete(np.arange(N), record), np.arange(N)):
                source.batch = batch
                oracle.centred_change("change", at + distance * moved, at)
            if not answers:  # rounded away: w is the anchor
                continue
            without, with_record = answers
            assert without.bound == with_record.bound
            worst = max(worst, float(np.linalg.norm(with_record.value - without.value)) / without.bound)
    return worst


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_centred_change_is_the_mean_change_of_the_records_in_the_batch(loss: Loss) -> None:
    """(1/b) sum over B of (g_i - (L/2) u) + (L/2) u, and a bound of (L/2) ||u|| / b."""
    data, anchor, moved = drawn(loss, 3)
    problem = data.problem
    reach = 0.9 * problem.G / problem.L
    u = reach * moved
    rows = np.array([0, 2, 3, 7])
    with scripted_oracle(data) as (oracle, source, answers):
        source.batch = rows
        value = oracle.centred_change("change", anchor + u, anchor)
        plain = oracle.sampled_change("change", anchor + u, anchor)
    assert value == pytest.approx(plain + problem.L / 2 * u * (1 - len(rows) / SIZE), abs=1e-13)
    centred, whole = (answer.bound for answer in answers)
    assert centred == pytest.approx(problem.L * reach / 2 / SIZE, rel=1e-6)
    assert whole == pytest.approx(problem.L * reach / SIZE, rel=1e-6)


@pytest.mark.slow
def test_it_is_unbiased_over_batches() -> None:
    data, anchor, moved = drawn(Logistic(), 4)
    w, rng = anchor + 0.3 * moved, np.random.default_rng(1)
    answers = []
    with scripted_oracle(data) as (oracle, source, _):
        for _ in range(4000):
            source.batch = np.flatnonzero(rng.random(N) < RATE)
            answers.append(oracle.centred_change("change", w, anchor))
        source.batch = np.arange(N)
        mean = oracle.sampled_change("change", w, anchor) * SIZE / N
    assert np.all(np.abs(np.mean(answers, axis=0) - mean) < 6 * np.std(answers, axis=0) / math.sqrt(4000))


@pytest.mark.parametrize("distance", [1e-90, 3e-17, 3e-16, 1e-9, 1e-3, 0.1, 0.25])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_record_that_joins_moves_it_by_at_most_the_bound(loss: Loss, distance: float) -> None:
    """The bound is half of a plain change's bound, and some records come near it."""
    ratios = [joins(loss, seed, distance) for seed in range(8)]
    assert max(ratios) <= 1
    if distance >= 1e-9:
        assert max(ratios) > 0.6  # a record without curvature gives all of it: -(L/2) u


def test_the_bound_holds_in_a_frame_too() -> None:
    columns = Columns((1, 1, 4))
    rng = np.random.default_rng(2)
    problem = Problem(Logistic(), n=N, d=columns.d, row_norm=columns.row_norm, columns=columns)
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    data = inputs.of_arrays(unfolded(N, columns), y, problem)
    for scale in (1e-3, 1.0, 1e6):
        frame = Frame(rng.uniform(-0.5, 0.5, columns.d - 1), np.full(columns.d - 1, scale), 0.4)
        met = framed(data, frame, 1.0)
        u = rng.standard_normal(columns.d)
        u *= 0.5 / np.linalg.norm(u)
        with scripted_oracle(met) as (oracle, source, answers):
            for batch in (np.arange(N), np.arange(1, N)):
                source.batch = batch
                oracle.centred_change("change", u, np.zeros(columns.d))
        assert np.linalg.norm(answers[0].value - answers[1].value) <= answers[0].bound


def test_mutant_the_half_without_the_center_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the noise on a plain change: a record whose gradient moves by L u shows."""
    monkeypatch.setattr(sampled, "center", lambda _problem, moved, _share: 0.0 * moved)
    assert max(joins(Logistic(), seed, 0.1, *aligned(seed)) for seed in range(8)) > 1.5


def aligned(seed: int) -> tuple[Data, Vector]:
    """Every row is R long, on the line of the move; at the anchor 0 logistic curvature is at its largest."""
    data, _, moved = drawn(Logistic(), seed)
    X = np.outer(np.full(N, data.problem.row_norm), moved)
    return inputs.of_arrays(X, data.y, data.problem), np.zeros(D)


def test_aligned_rows_keep_the_bound() -> None:
    assert 0.9 < max(joins(Logistic(), seed, 0.1, *aligned(seed)) for seed in range(8)) <= 1


def unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(data: Data, pieces: Any, w: Vector, *arguments: Any) -> Vector:
        return gradient_sum(data, pieces, w, *(*arguments[:2], 1e300) if len(arguments) == 3 else arguments)

    monkeypatch.setattr(sampled, "gradient_sum", without)


def test_mutant_the_clip_forgotten_is_caught_where_slopes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A move below a slope's own rounding: the slope's last bit is worth more than the curvature allows."""
    honest = [joins(Logistic(), seed, 3e-16) for seed in range(40)]
    assert max(honest) <= 1
    unclipped(monkeypatch)
    assert max(joins(Logistic(), seed, 3e-16) for seed in range(40)) > 1.2


def test_mutant_the_clip_forgotten_is_caught_where_a_curvature_is_misstated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Logistic, "curvature_bound", 0.05)
    assert max(joins(Logistic(), seed, 0.3) for seed in range(8)) <= 1
    unclipped(monkeypatch)
    assert max(joins(Logistic(), seed, 0.3) for seed in range(8)) > 1.5


def test_the_clip_keeps_the_bound_for_a_loss_that_wrongly_states_it_is_convex(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slope that falls where the margin rises is cut at 0, not at -L: else a record gives up to (3L/2) ||u||."""
    monkeypatch.setattr(Sigmoid, "is_convex", True)
    cases = []
    for seed in range(8):
        data, _, moved = drawn(Sigmoid(), seed)
        rows = inputs.of_arrays(np.outer(np.full(N, data.problem.row_norm), moved), data.y, data.problem)
        steepest = math.log(2 + math.sqrt(3)) / data.problem.row_norm * moved  # f'' is at its least and its largest
        cases.append((Sigmoid(), seed, 0.1, rows, steepest))
    assert max(joins(*case) for case in cases) <= 1

    def plain(data: Data, pieces: Any, moved: Vector, anchor: Vector, *_: float) -> Vector:
        return gradient_sum(data, pieces, anchor + moved, anchor, 1e300)

    monkeypatch.setattr(sampled, "gradient_sum", plain)
    assert max(joins(*case) for case in cases) > 2.5


def test_beyond_its_reach_it_is_a_plain_change() -> None:
    """(L/2) ||u|| > G, or a u whose squares underflow: the same value and bound."""
    data, anchor, moved = drawn(Logistic(), 5)
    problem = data.problem
    edge = 2 * problem.G / problem.L
    for distance, centred in ((0.95 * edge, True), (1.05 * edge, False), (1e-120, False)):
        at = anchor if distance > 1 else np.zeros(D)
        assert centres(problem, distance) == centred
        with scripted_oracle(data) as (oracle, _, answers):
            centred_answer = oracle.centred_change("change", at + distance * moved, at)
            plain_answer = oracle.sampled_change("change", at + distance * moved, at)
        bounds = [answer.bound for answer in answers]
        assert (bounds[0] == bounds[1]) != centred
        assert np.array_equal(centred_answer, plain_answer) or centred
        assert max(bounds) <= centred_bound(problem, SIZE, problem.G)


def test_at_its_anchor_a_change_reads_no_data_but_counts_as_an_answer() -> None:
    data, anchor, _ = drawn(Logistic(), 6)
    with scripted_oracle(data) as (oracle, _, answers):
        assert not oracle.centred_change("change", anchor, anchor).any()
    assert answers == []
    assert oracle.transcript().query("change").count == 1


@pytest.mark.parametrize("loss", [Softmax(3), Sigmoid(), Absolute()], ids=repr)
def test_it_is_refused_where_its_theorem_fails(loss: Loss) -> None:
    """Losses of several margins, or without convexity or smoothness, are refused. No answer is counted."""
    problem = Problem(loss, n=N, d=D, row_norm=1.0)
    data = inputs.of_arrays(np.ones((N, D)), np.ones(N), problem)
    at = np.zeros(problem.size)
    queries = Plan((PlannedQuery("change", 9, PoissonGaussian(RATE), 1.0),))
    oracle = WalkingOracle(problem, data, queries, Noise(SeededBits(1)))
    with pytest.raises(Unsuitable, match="centred"):
        oracle.centred_change("change", at + 1e-3, at)
    with pytest.raises(Unsuitable, match="centred"):
        oracle.walk("change", at, at, at, 0.1, 3, centred=True)
    assert oracle.transcript() == Plan(())


PRIVACY = Privacy(1.0, 1e-6)


@pytest.mark.parametrize("method", [DpSvrg, DpSvrgPp])
@pytest.mark.parametrize(("d", "batch"), [(105, 1000), (10, 1000), (54, 5000), (2, 30_000)])
def test_the_rule_follows_dimension_noise_and_batch(method: Any, d: int, batch: int) -> None:
    """Centred where 3 d z^2 > b, from public facts; the quote says which."""
    problem = Problem(Logistic(), n=200_000, d=d, row_norm=1.0)
    quote = plan(method(batch=batch), problem, PRIVACY)
    z = quote.release.plan.query("change").noise_multiplier
    value = 3 * d * z**2 / batch
    assert abs(value - 1) > 0.1  # not at the edge, where z's limit and z itself may differ
    assert isinstance(quote.method, DpSvrgRun | DpSvrgPpRun)
    assert quote.method.form == ("centred" if value > 1 else "safeguarded")


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 30, 1000, 20_000])
def test_the_rules_noise_is_near_the_plans(batch: int) -> None:
    """The limit of many answers against what an accountant finds for a thousand; below it for single records."""
    problem = Problem(Logistic(), n=200_000, d=20, row_norm=1.0)
    quote = plan(DpSvrg(batch=batch, epochs=5, inner_steps=200), problem, PRIVACY)
    z = quote.release.plan.query("change").noise_multiplier
    assert (0.85 if batch >= 1000 else 0.6) * z < batches.limit_noise(problem, PRIVACY, batch, 1000) < 1.15 * z


def test_a_requested_form_is_kept_or_refused() -> None:
    problem = Problem(Logistic(), n=200_000, d=105, row_norm=1.0)
    forms: tuple[batches.Form, ...] = ("safeguarded", "centred", "printed")
    for form in forms:
        quote = plan(DpSvrg(batch=1000, form=form), problem, PRIVACY)
        assert isinstance(quote.method, DpSvrgRun)
        assert quote.method.form == form
    several = Problem(Softmax(3), n=200_000, d=105, row_norm=1.0)
    quote = plan(DpSvrg(batch=1000), several, PRIVACY)
    assert isinstance(quote.method, DpSvrgRun)
    assert quote.method.form == "safeguarded"
    with pytest.raises(Unsuitable, match="one margin"):
        plan(DpSvrg(batch=1000, form="centred"), several, PRIVACY)
    with pytest.raises(Unsuitable, match="centred"):
        DpSvrg(form="other")  # type: ignore[arg-type]


def test_a_plan_is_the_same_centred_or_not() -> None:
    """The number of answers fixes the noise multiplier. Centring changes only the bound that it multiplies."""
    problem = Problem(Logistic(), n=20_000, d=20, row_norm=1.0)
    forms: tuple[batches.Form, ...] = ("safeguarded", "centred")
    safeguarded, centred = (plan(DpSvrg(batch=400, form=form), problem, PRIVACY) for form in forms)
    assert safeguarded.release == centred.release
    assert safeguarded.noise_stds == pytest.approx(centred.noise_stds, rel=1e-6)


def test_a_run_stored_before_forms_were_resolved_keeps_its_form() -> None:
    assert DpSvrgRun(1, 2, 3, 0.1).form == "safeguarded"
