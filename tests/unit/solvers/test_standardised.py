"""StandardisedOracle: its answers, and the bounds within which replacing a record moves them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
from accounting import Privacy
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, kernels, moment_bounds
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.moment_sums import Targets
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Logistic, Loss, Squared
from solvers.losses.smoothing import BoundedSlope, at_least
from solvers.methods import AdaptiveGd, DpGd
from tests.support.noiseless import ExactAnswer, noiseless
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits
from tests.support.standardised import LIMITED_LOSSES, QUERIES, Vector, every_answer, limited

COLUMNS = Columns((1, 3, 1, 2))  # two numbers and two blocks: rows of length 8
D, N = COLUMNS.d, 12


@pytest.fixture
def answers() -> Iterator[list[ExactAnswer]]:
    """All answers of a test, without noise."""
    with noiseless() as answers:
        yield answers


def problem(loss: Loss) -> Problem:
    return Problem(loss, n=N, d=D, row_norm=COLUMNS.row_norm, columns=COLUMNS)


def oracle(loss: Loss, X: Vector, y: Vector, count: int = 100) -> StandardisedOracle:
    plan = Plan(tuple(PlannedQuery(name, count, Gaussian(), 1.0) for name in QUERIES))
    task = problem(loss)
    return StandardisedOracle(task, inputs.of_arrays(X, y, task), plan, Noise(SeededBits(3)))


def row(rng: np.random.Generator, extreme: bool = False) -> Vector:
    number = (lambda: rng.choice([-1.0, 1.0])) if extreme else (lambda: rng.uniform(-1, 1))
    parts = [np.eye(w)[rng.integers(w)] if w > 1 else np.array([number()]) for w in COLUMNS.widths]
    return np.concatenate([*parts, [1.0]])


def target(rng: np.random.Generator, loss: Loss) -> float:
    if loss.takes == "number":
        return float(rng.choice([-1.0, 1.0, rng.uniform(-1, 1)]))
    return float(rng.integers(loss.outputs)) if loss.outputs > 1 else float(rng.choice([-1.0, 1.0]))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
@given(seed=st.integers(0, 2**32 - 1), extreme=st.booleans())
def test_replacing_a_record_moves_no_answer_by_more_than_twice_its_bound(loss: Loss, seed: int, extreme: bool) -> None:
    """Coupled neighbors, in exact values; the slack is the rounding that the bound grants, tested to be small below."""
    rng = np.random.default_rng(seed)
    X = np.stack([row(rng) for _ in range(N)])
    y = np.array([target(rng, loss) for _ in range(N)])
    center = np.clip(rng.normal(size=D - 1), np.where(COLUMNS.is_number, -1, 0), 1)
    frame = Frame(center, np.exp(rng.normal(size=D - 1) * 2), float(rng.uniform(0.1, 2)))
    w, limit = rng.normal(size=D * loss.outputs) * float(rng.choice([0.1, 10.0])), float(rng.uniform(0.01, 2))
    runs = []
    for at in range(2):
        if at:
            X[5], y[5] = row(rng, extreme), target(rng, loss)
        with noiseless() as answers:
            every_answer(oracle(loss, X, y), loss, center, frame, w, limit)
        runs.append(answers)
    assert len(runs[0]) == len(runs[1]) > 5
    for (answer, bound), (neighbor_answer, neighbor_bound) in zip(*runs, strict=True):
        assert bound == neighbor_bound
        assert float(np.linalg.norm(answer - neighbor_answer)) <= 2 * bound


def test_bounds_are_attained_and_rounding_is_small(answers: list[ExactAnswer]) -> None:
    """Worst pairs: every number from -1 to 1 and every block to another corner; a gradient turned around."""
    low, high = np.array([-1, 1, 0, 0, -1, 1, 0, 1.0]), np.array([1, 0, 1, 0, 1, 0, 1, 1.0])
    X = np.tile(low, (N, 1))
    center = np.zeros(D - 1)
    frame = Frame(center, np.full(D - 1, 100.0), 0.01)
    for first in (low, high):
        X[0] = first
        standardised = oracle(Logistic(), X, np.ones(N))
        standardised.means("means")
        standardised.gradient("gradient", np.zeros(D), frame, 0.01)
    (means, bound), (gradient, limit), (neighbor_means, _), (turned, _) = answers
    assert np.linalg.norm(means - neighbor_means) == pytest.approx(2 * bound, rel=1e-9)
    assert limit == pytest.approx(0.01 / N, rel=1e-6)
    assert np.linalg.norm(gradient - turned) > 1.0 * limit  # blocks do not turn around: they are at right angles


def test_a_spread_and_variances_reach_their_bounds(answers: list[ExactAnswer]) -> None:
    rng = np.random.default_rng(4)
    X = np.stack([row(rng) for _ in range(N)])
    center = np.zeros(D - 1)
    center[COLUMNS.is_number] = (0.5, -0.25)
    for corner in ((0.5, -0.25), (-1.0, 1.0)):
        X[0, :-1][COLUMNS.is_number] = corner
        standardised = oracle(Logistic(), X, np.ones(N))
        standardised.spread("spread", center)
        standardised.variances("variances", center, 9.0)
    (spread, spread_bound), (variances, widest), (neighbor_spread, _), (apart, _) = answers
    assert neighbor_spread[0] - spread[0] == pytest.approx(2 * spread_bound, rel=1e-9)
    assert np.linalg.norm(apart - variances) == pytest.approx(2 * widest, rel=1e-9)


@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
def test_answers_are_the_formulas(loss: Loss, answers: list[ExactAnswer]) -> None:
    """Against NumPy on explicit z; 1e-12 is far above the rounding of a dozen rows of eight."""
    del answers
    rng = np.random.default_rng(8)
    X = np.stack([row(rng) for _ in range(N)])
    y = np.array([target(rng, loss) for _ in range(N)])
    center = np.where(COLUMNS.is_number, 0.2, 0.4)
    frame, limit = Frame(center, rng.uniform(0.2, 3, D - 1), 0.3), 0.4
    w = rng.normal(size=(loss.outputs, D))
    standardised = oracle(loss, X, y)
    numbers = (X[:, :-1] - center)[:, COLUMNS.is_number]
    assert np.allclose(standardised.means("means"), X[:, :-1].mean(axis=0), atol=1e-12)
    assert standardised.spread("spread", center) == pytest.approx((numbers**2).sum() / N, rel=1e-12)
    short = numbers * np.minimum(1, 0.5 / np.linalg.norm(numbers, axis=1))[:, None]
    assert np.allclose(standardised.variances("variances", center, 0.5), (short**2).mean(axis=0), atol=1e-12)
    z = np.column_stack(((X[:, :-1] - center) * frame.scale, np.full(N, frame.constant)))
    allowed = limit / np.linalg.norm(z, axis=1)
    margins = z @ w.T
    assert np.allclose(X @ frame.raw(w).T, margins, atol=1e-12)
    if loss.takes == "number":
        assert standardised.residual("residual", w.ravel(), frame, 0.5) == pytest.approx(
            np.minimum(abs(margins[:, 0] - y), 0.5).mean(), rel=1e-12
        )
    t = limited(loss, margins, y, allowed)
    assert np.allclose(standardised.gradient("gradient", w.ravel(), frame, limit), (t.T @ z / N).ravel(), atol=1e-12)
    assert (np.linalg.norm(t, axis=1) <= allowed * (1 + 1e-12)).all()
    if isinstance(loss, BoundedSlope):
        t = limited(at_least(loss, 0.7), margins, y, allowed)
        assert np.allclose(
            standardised.gradient("gradient", w.ravel(), frame, limit, 0.7), (t.T @ z / N).ravel(), atol=1e-12
        )


@given(margin=st.floats(-6, 6), limit=st.floats(0.01, 2))
def test_the_weight_keeps_the_log_odds(margin: float, limit: float) -> None:
    """E[t | x] = 0 where <z, w> is the log-odds: P(+1) of the slope at +1 balances P(-1) of that at -1."""
    p = 1 / (1 + math.exp(-margin))
    slopes = [-y * s * min(1.0, limit / max(s, 1 - s)) for y in (1.0, -1.0) for s in [1 / (1 + math.exp(y * margin))]]
    assert p * slopes[0] + (1 - p) * slopes[1] == pytest.approx(0, abs=1e-12)


@given(margins=st.lists(st.floats(-6, 6), min_size=3, max_size=6), limit=st.floats(0.01, 2))
def test_the_weight_of_several_classes_keeps_their_law(margins: list[float], limit: float) -> None:
    """E[t | x] = 0 where the softmax of the margins is the law of the label, and nowhere else: slopes by the loops."""
    k, columns = len(margins), Columns(())
    records = inputs.folded(np.ones((k, 1)), columns).records(
        Problem(Squared(), n=k, d=1, row_norm=1.0, columns=columns)
    )
    labels, inverse_norms, W = np.arange(k, dtype=float), np.ones(k), np.array(margins)[:, None]
    examples = kernels.FramedExamples(records, labels, inverse_norms).read_only()
    slopes = np.hstack([kernels.softmax_sum(examples, limit, W, i, i + 1) for i in range(k)])
    p = np.exp(W[:, 0] - max(margins))
    law = p / p.sum()
    assert slopes @ law == pytest.approx(np.zeros(k), abs=1e-12)
    pull, apart = np.linalg.norm(slopes.mean(axis=1)), np.linalg.norm(law - 1 / k)
    assert pull >= min(1.0, limit / math.sqrt(2)) * apart - 1e-12
    assert (np.linalg.norm(slopes, axis=0) <= limit * (1 + 1e-12)).all()


def test_rows_of_another_layout_count_as_empty_ones() -> None:
    rng = np.random.default_rng(2)
    X = np.stack([row(rng) for _ in range(N)])
    X[1, 0], X[2, 1:4], X[3, 1:4], X[4, -1], X[5, 0] = 1.5, 0.0, (1.0, 1.0, 0.0), 0.5, math.nan
    stored = rows_of(inputs.of_arrays(X, np.ones(N), problem(Logistic())))
    empty = np.array([0, 1, 0, 0, 0, 1, 0, 1.0])
    assert (stored[1:6] == empty).all()
    assert (stored[6:] == X[6:]).all()
    assert X[1, 0] == 1.5


def test_requests_that_are_not_planned_or_not_finite_are_refused() -> None:
    rng = np.random.default_rng(2)
    X = np.stack([row(rng) for _ in range(N)])
    standardised = oracle(Logistic(), X, np.ones(N), count=1)
    frame = Frame(np.zeros(D - 1), np.ones(D - 1), 1.0)
    for w, used, limit in (
        (np.full(D, math.nan), frame, 1.0),
        (np.zeros(D + 1), frame, 1.0),
        (np.zeros(D), Frame(np.full(D - 1, 2.0), np.ones(D - 1), 1.0), 1.0),
        (np.zeros(D), Frame(np.zeros(D - 1), np.zeros(D - 1), 1.0), 1.0),
        (np.zeros(D), Frame(np.zeros(D - 1), np.ones(D - 1), 0.0), 1.0),
        (np.zeros(D), Frame(np.zeros(D - 1), np.ones(D - 1), 1e-7), 1.0),
        (np.zeros(D), Frame(np.zeros(D - 1), np.full(D - 1, 1e25), 1.0), 1.0),
        (np.zeros(D), frame, math.inf),
        (np.zeros(D), frame, 1e-101),
        (np.zeros(D), frame, 0.0),
    ):
        with pytest.raises(Unsuitable):
            standardised.gradient("gradient", w, used, limit)
    for smoothing in (-1.0, math.nan, math.inf):
        with pytest.raises(Unsuitable, match="smoothing"):
            standardised.gradient("gradient", np.zeros(D), frame, 1.0, smoothing)
    assert standardised.transcript().queries == ()
    standardised.gradient("gradient", np.zeros(D), frame, 1.0)
    with pytest.raises(OutOfPlan):
        standardised.gradient("gradient", np.zeros(D), frame, 1.0)
    with pytest.raises(OutOfPlan):
        standardised.means("another")
    for center, radius in ((np.zeros(D - 1), math.nan), (np.zeros(D - 1), 1e200), (np.zeros(D), 1.0)):
        with pytest.raises(Unsuitable):
            standardised.variances("variances", center, radius)
    with pytest.raises(Unsuitable):
        standardised.spread("spread", np.full(D - 1, math.nan))
    with pytest.raises(Unsuitable):
        standardised.target_spread("target_spread", math.nan)
    plain = Problem(Logistic(), n=N, d=D, row_norm=3.0)
    with pytest.raises(Unsuitable, match="columns"):
        StandardisedOracle(plain, inputs.of_arrays(X, np.ones(N), plain), Plan(()), Noise())


def test_columns_state_their_bounds_and_kinds() -> None:
    assert (COLUMNS.d, COLUMNS.row_norm) == (8, math.sqrt(5))
    assert moment_bounds.diameter(COLUMNS) == math.sqrt(4 * 2 + 2 * 2)
    assert COLUMNS.is_number.tolist() == [True, False, False, False, True, False, False]
    assert COLUMNS.starts.tolist() == [0, 1, 4, 5]
    with pytest.raises(Unsuitable):
        Columns((1, 0))
    with pytest.raises(Unsuitable, match="columns"):
        Problem(Logistic(), n=4, d=9, row_norm=2.0, columns=COLUMNS)


def test_a_frame_changed_after_it_was_used_is_another_frame(answers: list[ExactAnswer]) -> None:
    """Limits are those of the changed frame. Those of the old one would be a thousand times too large."""
    rng = np.random.default_rng(2)
    X = np.stack([row(rng) for _ in range(N)])
    standardised, frame = oracle(Squared(), X, np.full(N, 1e3)), Frame(np.zeros(D - 1), np.full(D - 1, 1e-3), 0.01)
    standardised.gradient("gradient", np.zeros(D), frame, 1.0)
    frame.scale[:] = 1e3
    standardised.gradient("gradient", np.zeros(D), frame, 1.0)
    for value, bound in answers:
        assert np.linalg.norm(value) <= N * bound


@pytest.mark.parametrize("name", ["center", "scale", "constant"])
def test_a_frame_that_differs_in_one_thing_is_another_frame(name: str, answers: list[ExactAnswer]) -> None:
    """All rows are one that the first frame makes a hundred times shorter than the next: limits of the first are not
    the next one's.
    """
    x = row(np.random.default_rng(2))
    standardised = oracle(Squared(), np.tile(x, (N, 1)), np.full(N, 1e3))
    short = {"center": x[:-1], "scale": np.full(D - 1, 1e-6)}.get(name, np.zeros(D - 1))
    all_ones = np.ones(D - 1)
    first, then = {
        "center": (Frame(short, all_ones, 0.01), Frame(-short, all_ones, 0.01)),
        "scale": (Frame(all_ones, short, 0.01), Frame(all_ones, all_ones, 0.01)),
        "constant": (Frame(all_ones, 1e-6 * all_ones, 0.01), Frame(all_ones, 1e-6 * all_ones, 1.0)),
    }[name]
    for frame in (first, then):
        standardised.gradient("gradient", np.zeros(D), frame, 1.0)
    for value, bound in answers:
        assert np.linalg.norm(value) < N * bound * (1 + 1e-9)


CHANGES: list[dict[str, Any]] = [{"relation": "zero_out"}, {"loss": Squared()}, {"n": N - 1}, {"columns": None}]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_data_that_were_prepared_for_another_problem_are_refused(change: dict[str, Any]) -> None:
    """An oracle's bounds and noise are those of its problem, and `run` passes the data on unchanged."""
    X, own = np.stack([row(np.random.default_rng(2)) for _ in range(N)]), problem(Logistic())
    changed = replace(own, **change)
    data = inputs.of_arrays(X[: changed.n], np.ones(changed.n), changed)
    with pytest.raises(Unsuitable, match="another problem"):
        StandardisedOracle(own, data, Plan(()), Noise())
    for method in (AdaptiveGd(steps=2), DpGd(steps=2)):
        quote = solvers.plan(method, own, Privacy(1.0, 1e-6))
        assert quote.preparation.name in ("private", "by_method")
        prepared = replace(quote.problem, **change)
        data = inputs.of_arrays(X[: prepared.n], np.ones(prepared.n), prepared)
        with pytest.raises(Unsuitable, match="another problem"):
            run_quote(quote, data)


def test_the_oracle_computes_the_longest_row_of_a_frame_itself(answers: list[ExactAnswer]) -> None:
    """A caller's own kind of frame, by which rows would seem to be short."""

    class Boasting(Frame):
        def longest(self, columns: Columns | None) -> float:  # noqa: ARG002
            return 0.0

    X, frames = np.stack([row(np.random.default_rng(2)) for _ in range(N)]), (Frame, Boasting)
    for kind in frames:
        oracle(Logistic(), X, np.ones(N)).gradient(
            "gradient", np.zeros(D), kind(np.zeros(D - 1), np.ones(D - 1), 1.0), 1.0
        )
    assert answers[0][1] == answers[1][1]


@pytest.mark.parametrize("constant", [1e-6, 1e3])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 9e24])
@pytest.mark.parametrize("limit", [1e-100, 1.0, 1e100])
def test_at_the_ends_of_the_ranges_a_record_stays_within_its_limit(
    constant: float, scale: float, limit: float, answers: list[ExactAnswer]
) -> None:
    """Rows at the center and far from it, targets that nobody clipped."""
    rng = np.random.default_rng(6)
    X = np.stack([row(rng, extreme=True) for _ in range(N)])
    frame = Frame(X[0, :-1].copy(), np.full(D - 1, scale), constant)
    for loss in LIMITED_LOSSES:
        y = np.full(N, 1e300) if loss.takes == "number" else np.arange(N) % 3.0 if loss.outputs > 1 else np.ones(N)
        for smoothing in (0.0, 1e-4, 100.0):
            standardised = oracle(loss, X, np.asarray(y, dtype=float))
            standardised.gradient("gradient", np.zeros(D * loss.outputs), frame, limit, smoothing)
    for value, bound in answers:
        assert np.isfinite(value).all()
        assert np.linalg.norm(value) <= N * bound


@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
def test_the_bound_covers_the_terms_that_centring_cancels(loss: Loss, answers: list[ExactAnswer]) -> None:
    """Rows lie at the center of a wide frame, where terms are 1e19 times as long as their sum."""
    rng = np.random.default_rng(3)
    X = np.tile(row(rng), (N, 1))
    frame, limit = Frame(X[0, :-1].copy(), np.full(D - 1, 1e13), 1e-6), 3.3e-7
    y = rng.integers(3, size=N).astype(float) if loss.outputs > 1 else rng.choice([-1.0, 1.0], N)
    for seed in range(20):
        X[0] = row(np.random.default_rng(seed))
        oracle(loss, X, y).gradient("gradient", np.zeros(D * loss.outputs), frame, limit)
    gaps = [float(np.linalg.norm(first - second)) for first, _ in answers for second, _ in answers]
    assert len({bound for _, bound in answers}) == 1
    assert 2 * limit / N < max(gaps) <= 2 * answers[0][1]


def test_targets_beyond_their_range_are_cut() -> None:
    columns = Columns((1,))
    problem = Problem(Squared(), n=3, d=2, row_norm=columns.row_norm, columns=columns)
    data = inputs.of_arrays(np.ones((3, 2)), np.array([50.0, -50.0, 0.5]), problem)
    assert [float(data.total(work)) for work in (Targets(), Targets(0.5))] == [0.5, 2.0]


def test_released_means_stay_the_answer_if_a_method_changes_its_array() -> None:
    rng = np.random.default_rng(5)
    X, loss = np.stack([row(rng) for _ in range(N)]), Logistic()
    opened = oracle(loss, X, np.array([target(rng, loss) for _ in range(N)]))
    answer = opened.means("means")
    expected = answer.copy()
    answer[:] = 0.0
    assert opened.released_means is not None
    assert np.array_equal(opened.released_means[0], expected)
