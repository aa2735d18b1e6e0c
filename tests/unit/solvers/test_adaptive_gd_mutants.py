"""Mutants of adaptive_gd, each of which a comparison of neighbors must find."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.plan import PlannedQuery
from solvers import Problem, kernels, plan
from solvers.audit import CASES
from solvers.audit.cases import Case
from solvers.columns import Columns
from solvers.data_access import moment_sums
from solvers.data_access.data import Data, Slots
from solvers.data_access.frames import in_frame
from solvers.data_access.meter import Meter
from solvers.data_access.moment_sums import Limited
from solvers.frame import Frame
from solvers.losses import Logistic, Loss, Softmax
from solvers.methods import AdaptiveGd, slopes
from solvers.methods.defaults.little_signal import model_kind
from solvers.methods.path import L1Weight, reallocated
from solvers.methods.standardised import adaptive_gd
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from tests.support.coupled import complaints_of_each
from tests.support.mutants import used_before_noise, with_bound_divided
from tests.support.standardised import LIMITED_LOSSES

Vector = NDArray[np.float64]
N, STEPS = 300, 40  # so many that penalties, the l1's weight, residuals' scale and frames are all learned on the way
COLUMNS = Columns((1, 3, 1))
LOSSES: dict[str, Loss] = {str(loss.name): loss for loss in reversed(LIMITED_LOSSES)}  # of two, the first
CLASSES, NUMBERS = ("hinge", "logistic", "softmax"), ("quantile", "squared")  # one of each kind of slope
TARGETS = "target_mean", "target_spread", "residual"
FAR_ROW, OPPOSITE_ROW = np.array([1.0, 0, 0, 1, 1, 1]), np.array([-1.0, 1, 0, 0, -1, 1])
CENTRAL_ROW = np.array([0.0, 0, 1, 0, 0, 1])
MOVED, LEAKED = "moved by more than its bound says", ("depends on the data", "no function of the answers")


def complaints_of_run(loss: str, limit: float = 0.3) -> list[str]:
    """Return the complaints of comparing neighbors: record 7 turned around, moved to the center, or with a new target.

    Parameters
    ----------
    limit : of slopes
    """
    problem = Problem(LOSSES[loss], n=N, d=COLUMNS.d, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    quote = plan(AdaptiveGd(steps=STEPS, slope_limit=limit), problem, Privacy(6.0, 1e-6))
    rng = np.random.default_rng(2)
    first, second = np.clip(rng.normal(-0.1, 0.1, N), -1, 1), np.clip(rng.normal(0.1, 0.4, N), -1, 1)
    X = np.column_stack((first, np.eye(3)[rng.choice(3, N, p=(0.6, 0.3, 0.1))], second, np.ones(N)))
    margin = (first + 0.1) / 0.1 + 2 * second + rng.normal(size=N)
    is_number = problem.loss.takes == "number"
    y = np.clip(margin / 8, -1, 1) if is_number else np.sign(margin) + (loss == "softmax")
    X[7], y[7] = OPPOSITE_ROW, 1.0
    ends = (0.0, 1.0) if loss == "softmax" else (-1.0, 1.0)
    neighbors = [
        (FAR_ROW, ends[0]),
        (FAR_ROW, ends[1]),
        (OPPOSITE_ROW, ends[0]),
        (OPPOSITE_ROW, 0.0 if is_number else ends[1]),
    ]
    neighbors += [(CENTRAL_ROW, ends[1])]
    return complaints_of_each(quote, X, y, [(neighbor, None) for neighbor in neighbors])


every = pytest.mark.parametrize("loss", CLASSES + NUMBERS)
classes = pytest.mark.parametrize("loss", CLASSES)


@pytest.mark.parametrize("loss", LOSSES)
def test_neighbors_differ_by_no_more_than_their_bounds_and_by_answers_alone(loss: str) -> None:
    assert complaints_of_run(loss) == []


def complaints_of_sparse_run() -> list[str]:
    """Return the complaints of comparing neighbors of a run with small coefficients: record 7 is full or empty."""
    columns = Columns((1,) * 120 + (3,), ((0.0, 1.0),) * 120)
    problem = Problem(Logistic(), n=140, d=columns.d, row_norm=columns.row_norm, columns=columns)
    quote = plan(AdaptiveGd(steps=STEPS, slope_limit=0.3), problem, Privacy(4.0, 1e-6))
    assert isinstance(quote.method, AdaptiveGdRun)
    noise_multiplier = quote.release.plan.query("gradient").noise_multiplier
    assert model_kind(problem, quote.method.signal(problem, noise_multiplier)) == "small"
    rng = np.random.default_rng(2)
    X = np.column_stack((rng.random((140, 120)) < 0.1, np.eye(3)[rng.choice(3, 140)], np.ones(140))).astype(float)
    y = rng.choice((-1.0, 1.0), 140)
    ends = np.ones(124), np.append(np.zeros(120), [0.0, 0.0, 1.0, 1.0])
    ends[0][121:123] = 0.0
    X[7], y[7] = ends[0], 1.0
    return complaints_of_each(quote, X, y, [((ends[0], -1.0), None), ((ends[1], 1.0), None), ((ends[1], -1.0), None)])


@pytest.mark.parametrize("query", ["spread", "gradient"])
def test_faults_of_a_run_with_small_coefficients_are_caught(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaints_of_sparse_run() == []
    with monkeypatch.context() as patched:
        patched.setattr(Meter, "answer", used_before_noise(query))
        assert any(what in each for each in complaints_of_sparse_run() for what in LEAKED)
    monkeypatch.setattr(Meter, "answer", with_bound_divided(query, 3))
    assert f"{query}: {MOVED}" in complaints_of_sparse_run()


def unlimited(work: Limited, data: Data, rows: Slots) -> Vector:
    """Mutant: no row has a limit."""
    return SUM(replace(work, limit=1e50), data, rows)


def unlimited_if_wide(work: Limited, data: Data, rows: Slots) -> Vector:
    """Mutant: rows have a limit only as long as it is at most the bound of slopes."""
    is_wide = work.limit > data.problem.loss.slope_bound
    return SUM(replace(work, limit=1e50) if is_wide else work, data, rows)


def limited_after_the_sum(work: Limited, data: Data, rows: Slots) -> Vector:
    """Mutant: limit the sum to the largest sum of limited rows, instead of limiting its terms."""
    assert isinstance(rows, slice)
    total, longest = SUM(replace(work, limit=1e50), data, rows), work.limit * (rows.stop - rows.start)
    return np.asarray(total * min(1.0, longest / float(np.linalg.norm(total))))


def limited_for_the_average_row(data: Data, own: Frame) -> Vector:
    """Mutant: what is allowed follows all rows' lengths, not each row's own."""
    inverse = kernels.inverse_norms(in_frame(data, own))
    return np.full(len(inverse), 1 / float(np.mean(1 / inverse)))


def limited_in_the_first_frame(data: Data, own: Frame) -> Vector:
    """Mutant: a row's length is kept when noise is re-allocated."""
    first = data.cache.setdefault("first", (kernels.inverse_norms(in_frame(data, own)),))
    return np.asarray(first[0])


SUM = Limited.sum
LIMITS: dict[str, tuple[Any, str, Any]] = {
    "forgotten": (Limited, "sum", unlimited),
    "after the sum": (Limited, "sum", limited_after_the_sum),
    "of the average row": (moment_sums, "inverse_norms_in", limited_for_the_average_row),
}


@every
@pytest.mark.parametrize("fault", LIMITS)
def test_a_limit_that_is_not_each_rows_own_is_caught(loss: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*LIMITS[fault])
    assert f"gradient: {MOVED}" in complaints_of_run(loss)


def complaints_of_wide_run(loss: Logistic | Softmax) -> list[str]:
    """Return the complaints of comparing neighbors whose limit is widened: record 7 has one of two opposite rows."""
    case = CASES["adaptive_gd_wide"]
    assert isinstance(case, Case)
    assert case.other_rows is not None
    X, y = np.array(case.other_rows.x), np.array(case.other_rows.y)
    y = np.maximum(y, 0) if loss.outputs > 1 else y
    first_record, other_record = case.pair()
    X[7], y[7] = first_record.x, 1.0
    quote = plan(case.method, replace(case.problem, loss=loss), Privacy(6.0, 1e-6))
    return complaints_of_each(quote, X, y, [((other_record.x, 1.0), None)])


wide = pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=lambda loss: str(loss.name))


@wide
def test_neighbors_with_a_widened_limit_differ_by_no_more_than_their_bounds(
    loss: Logistic | Softmax, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def recorded(work: Limited, data: Data, rows: Slots) -> Vector:
        limits.append(work.limit)
        return SUM(work, data, rows)

    monkeypatch.setattr(Limited, "sum", recorded)
    assert complaints_of_wide_run(loss) == []
    assert limits == 2 * ([loss.slope_bound] * 3 + [2 * loss.slope_bound] * 11)


@wide
def test_a_wide_limit_that_is_forgotten_is_caught(loss: Logistic | Softmax, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Limited, "sum", unlimited_if_wide)
    assert f"gradient: {MOVED}" in complaints_of_wide_run(loss)


@wide
def test_noise_of_the_narrow_limit_for_a_gradient_with_the_wide_limit_is_caught(
    loss: Logistic | Softmax, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, bounds = Meter.answer, list[float]()

    def with_the_first_bound(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        if planned.name == "gradient":
            bounds.append(bound)
            bound = bounds[0]
        return answer(meter, planned, value, bound)

    monkeypatch.setattr(Meter, "answer", with_the_first_bound)
    assert f"gradient: {MOVED}" in complaints_of_wide_run(loss)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_a_wide_limit_that_follows_the_longest_row_of_the_data_is_caught(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complaints_of_run(loss, 8.0) == []
    longest, inverse_norms = [0.0], moment_sums.inverse_norms_in

    def measured(data: Data, own: Frame) -> Vector:
        inverse = inverse_norms(data, own)
        longest[0] = 1 / float(inverse.min())
        return inverse

    monkeypatch.setattr(moment_sums, "inverse_norms_in", measured)
    monkeypatch.setattr(slopes, "longest_row", lambda *_: longest[0])
    assert any("gradient" in part and LEAKED[0] in part for part in complaints_of_run(loss, 8.0))


@classes
def test_a_limit_that_does_not_follow_the_frame_is_caught(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so short that the model stays unsure of rows far out, whose slopes are then cut whatever the target is."""
    assert complaints_of_run(loss, 1e-3) == []
    monkeypatch.setattr(moment_sums, "inverse_norms_in", limited_in_the_first_frame)
    assert f"gradient: {MOVED}" in complaints_of_run(loss, 1e-3)


@pytest.mark.parametrize(
    ("query", "loss"),
    [(query, loss) for loss in CLASSES + NUMBERS for query in ("means", "spread", "variances", "gradient")]
    + [(query, loss) for loss in NUMBERS for query in TARGETS],
)
def test_an_answer_that_is_used_before_it_is_noised_is_caught(
    query: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: request and pay for an answer, and use its exact value instead."""
    monkeypatch.setattr(Meter, "answer", used_before_noise(query))
    assert any(what in each for each in complaints_of_run(loss) for what in LEAKED)


@pytest.mark.parametrize("query", ["gradient", "means", "spread", "variances", *TARGETS])
def test_a_sensitivity_that_is_forgotten_is_caught(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: use a third of the bound of one answer."""
    monkeypatch.setattr(Meter, "answer", with_bound_divided(query, 3))
    assert f"{query}: {MOVED}" in complaints_of_run("squared")


def overheard(monkeypatch: pytest.MonkeyPatch) -> list[Vector]:
    """The exact gradients of the run at hand, as nobody may see them."""
    exact: list[Vector] = []
    answer = Meter.answer

    def hear(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        if planned.name == "gradient":
            if meter.answered("gradient") == 1:
                exact.clear()
            exact.append(value.copy())
        return answer(meter, planned, value, bound)

    monkeypatch.setattr(Meter, "answer", hear)
    return exact


@classes
def test_noise_that_is_re_allocated_by_exact_gradients_is_caught(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = overheard(monkeypatch)
    assert complaints_of_run(loss) == []

    def by_exact(mean: Vector, v: Vector, center: Vector) -> Frame:
        """Mutant: noise goes where exact gradients have been small."""
        return reallocated(np.mean(exact, axis=0).reshape(mean.shape), v, center)

    monkeypatch.setattr(adaptive_gd, "reallocated", by_exact)
    assert any(what in each for each in complaints_of_run(loss) for what in LEAKED)


@classes
def test_an_l1_whose_weight_is_learned_from_exact_gradients_is_caught(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, learn = overheard(monkeypatch), L1Weight.learn
    weights: list[float] = []

    def by_exact(weight: L1Weight, gradient: Vector, direction: Vector) -> None:
        """Mutant: learn from the exact gradient, without its noise."""
        learn(weight, exact[-1], direction)
        weights.append(weight.value)
        assert gradient.shape == direction.shape

    monkeypatch.setattr(L1Weight, "learn", by_exact)
    assert any(each.startswith("the result") for each in complaints_of_run(loss))
    assert len(set(weights)) > STEPS / 2  # not held at an end of its range
