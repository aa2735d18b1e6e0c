"""Every answer of a regression table by itself: no record moves it by more than noise is made for, and some do by all.

Then faults planted on the run's own path, each of which a comparison of neighbors must show.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Unit
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation, sensitivity_factor
from solvers import moment_bounds, weighting
from solvers.columns import Columns
from solvers.data_access import inputs, weighted_sums
from solvers.data_access.data import Data, Slots, Work
from solvers.data_access.meter import Meter
from solvers.data_access.weighted import WeightedOracle
from solvers.data_access.weighted_sums import (
    Curvatures,
    Distances,
    LongRows,
    SquaredScores,
    WeightedScores,
    coordinates,
)
from solvers.errors import Unsuitable
from solvers.full_frame import FullFrame
from solvers.packing import packing
from solvers.problem import Problem
from solvers.weighting import AnyWeights, LinearWeights, LogisticWeights, PoissonWeights
from tests.support.coupled import complaints_of_each
from tests.support.mutants import used_before_noise, with_bound_divided
from tests.support.operations import operations
from tests.support.seeded import SeededBits
from tests.support.tables import coded_counts, problem_of, quoted

Vector = NDArray[np.float64]
COLUMNS = Columns((1, 3, 1))
QUERIES = ("second_moments", "residual", "gradient", "curvature", "squared_scores")
MOVED = "moved by more than its bound says"
LEAKED = ("depends on the data", "no function of the answers")
N = 400
LARGE_ROW, OPPOSITE_ROW = np.array([1.0, 1, 0, 0, 1, 1]), np.array([-1.0, 0, 1, 0, -1, 1])
TYPICAL_ROW, SMALL_ROW = np.array([0.3, 0, 1, 0, -0.2, 1]), np.array([0.0, 0, 0, 1, 0, 1])
WEIGHTS: dict[str, list[AnyWeights]] = {
    "logistic": [LogisticWeights(1.3, 0.5, 0.25), LogisticWeights(2.2, 0.9, 0.25), LogisticWeights(1.3, 0.6, 0.04)],
    "linear": [LinearWeights(1.3, 0.4), LinearWeights(1.2, 3.0)],
    "poisson": [PoissonWeights(1.3, 0.5), PoissonWeights(2.2, 0.1), PoissonWeights(1.0, 0.004)],
}

every = pytest.mark.parametrize("family", WEIGHTS)


def frame_of(rng: np.random.Generator, size: int = 4) -> FullFrame:
    has_weight = np.ones(5, dtype=bool)
    has_weight[2] = rng.random() < 0.5
    return FullFrame(rng.normal(size=(size, 5)) * rng.choice((0.5, 3)), rng.normal(size=size), has_weight)


def exact(problem: Problem, X: Vector, y: Vector, ask: Callable[[WeightedOracle], Any]) -> tuple[Vector, float]:
    """Return the value that an oracle adds noise to, and the bound that scales the noise."""
    return exact_on(dataset(problem, X, y), ask)


def dataset(problem: Problem, X: Vector, y: Vector) -> Data:
    """Return the data of these rows, in which rows of zeros are empty slots of persons."""
    present = np.abs(X).sum(axis=1) > 0
    return inputs.of_arrays(X, y, problem, present if problem.unit.is_person else None)


def exact_on(data: Data, ask: Callable[[WeightedOracle], Any]) -> tuple[Vector, float]:
    plan = Plan(tuple(PlannedQuery(name, 1, Gaussian(), 1.0) for name in QUERIES), data.problem.relation)
    answers: list[tuple[Vector, float]] = []

    def perturb(_: Meter, __: PlannedQuery, value: Vector, bound: float) -> Vector:
        answers.append((value.copy(), bound))
        return value

    with patch.object(Meter, "perturb", perturb):
        ask(WeightedOracle(data.problem, data, plan, Noise(SeededBits(1))))
    return answers[0]


def record(rng: np.random.Generator, k: int, is_linear: bool) -> tuple[Vector, Vector]:
    """Return the rows and targets of a record; some are corners, short rows or empty slots."""
    x = np.zeros((k, 6))
    x[:, 0], x[:, 4] = (rng.choice((-1.0, 1.0, 0.0, rng.uniform(-1, 1)), k) for _ in range(2))
    x[np.arange(k), 1 + rng.integers(0, 3, k)] = 1.0
    x[:, 5] = 1.0
    if k > 1:
        x *= (rng.random(k) < rng.choice((0.0, 0.5, 1.0)))[:, None]
    is_repeated = rng.random() < 0.5
    y = rng.choice((-1.0, 1.0, rng.uniform(-1, 1) if is_linear else 1.0), k)
    return (np.tile(x[0], (k, 1)), np.full(k, y[0])) if is_repeated else (x, y)


def chosen(rng: np.random.Generator, k: int) -> tuple[Vector, Vector]:
    """Return alike rows of a record that is about as long as a row limit, along one of two orthogonal directions."""
    x = np.zeros(6)
    direction = rng.integers(0, 2)
    x[4 * direction], x[1 + direction], x[5] = rng.choice((-1.0, 1.0)) * rng.uniform(0.6, 1), 1.0, 1.0
    return np.tile(x, (k, 1)), np.full(k, rng.choice((-1.0, 1.0)))


def plain(weights: AnyWeights) -> dict[str, Callable[[WeightedOracle], Any]]:
    """Return requests about rows as they are, at margins where residuals of either sign are equally large."""
    margin = math.log(0.5) if isinstance(weights, PoissonWeights) else 0.0
    w = margin * np.array([0.0, 1, 1, 1, 0])
    return requests(FullFrame(np.eye(5), np.zeros(5), np.ones(5, dtype=bool)), weights, w, 1.0)


def asks(rng: np.random.Generator, frame: FullFrame, weights: AnyWeights) -> dict[str, Callable[[WeightedOracle], Any]]:
    return requests(frame, weights, rng.normal(size=frame.size) * rng.choice((0.0, 0.3, 3.0)), rng.uniform(0.1, 3))


def requests(
    frame: FullFrame, weights: AnyWeights, w: Vector, limit: float
) -> dict[str, Callable[[WeightedOracle], Any]]:
    return {
        "second_moments": lambda oracle: oracle.second_moments("second_moments", frame, limit),
        "residual": lambda oracle: oracle.residual("residual", w, frame, limit),
        "gradient": lambda oracle: oracle.gradient("gradient", w, frame, weights),
        "curvature": lambda oracle: oracle.curvature("curvature", w, frame, weights),
        "squared_scores": lambda oracle: oracle.squared_scores("squared_scores", w, frame, weights),
    }


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 3)], ids=["row", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("family", WEIGHTS)
def test_no_record_moves_an_answer_by_more_than_its_bound_and_some_nearly_reach_it(
    family: str, relation: Relation, unit: Unit
) -> None:
    """With one record the answer is the record's term. Records have empty slots, long rows and all kinds of margins."""
    rng = np.random.default_rng(7)
    shares: defaultdict[str, float] = defaultdict(float)
    problem = problem_of(COLUMNS, family != "logistic", 1, relation=relation, unit=unit)
    factor = sensitivity_factor(relation)
    for trial in range(12):
        weights = WEIGHTS[family][trial // 2 % len(WEIGHTS[family])]
        records = [chosen(rng, unit.slots) for _ in range(4 if trial % 2 else 24)]
        records += [record(rng, unit.slots, family != "logistic") for _ in range(8)]
        datasets = [dataset(problem, *each) for each in records]
        for query, ask in (asks(rng, frame_of(rng), weights) if trial % 2 else plain(weights)).items():
            answers = [exact_on(data, ask) for data in datasets]
            values, bound = np.array([value for value, _ in answers]), answers[0][1]
            assert {each for _, each in answers} == {bound}
            replacements = values[None] if relation == "replace_one" else np.zeros((1, 1, values.shape[1]))
            moved = float(np.linalg.norm(values[:, None] - replacements, axis=2).max())
            assert moved <= factor * bound, query
            shares[query] = max(shares[query], moved / (factor * bound))
    assert min(shares.values()) > 0.95, shares


@pytest.mark.parametrize("family", WEIGHTS)
def test_scores_of_persons_are_squared_after_they_are_added_up(family: str) -> None:
    """Beside a plain loop over persons, of whom some begin in one piece of rows and end in the next."""
    rng, k, n = np.random.default_rng(3), 7, 5000
    problem = problem_of(COLUMNS, family != "logistic", n, unit=Unit("person", k))
    X, y = record(rng, n * k, family != "logistic")
    X[:, 5] = 1.0
    X[np.arange(n * k), 1 + rng.integers(0, 3, n * k)] = 1.0
    X[:, 1:4] = np.eye(3)[X[:, 1:4].argmax(axis=1)]
    present = rng.random(n * k) < 0.6
    data = inputs.of_arrays(X, y, problem, present)
    frame, weights, w = frame_of(rng), WEIGHTS[family][0], rng.normal(size=4)
    work = WeightedScores(frame, w, weights)
    u, _ = coordinates(data, slice(0, n * k), frame)
    norms = np.maximum(np.linalg.norm(u, axis=1), weighting.LEAST_NORM)
    scores = u * (weights.weights(u @ w, norms) * weights.residuals(u @ w, data.y))[:, None]
    persons = np.array([scores[k * p : k * p + k].sum(axis=0) / k for p in range(n)])
    np.testing.assert_allclose(data.total(SquaredScores(work)), persons.T @ persons, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(data.total(work), scores.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_coordinates_are_linear_in_the_row_whether_they_are_kept_or_not() -> None:
    rng, n = np.random.default_rng(4), 4000
    problem = problem_of(COLUMNS, True, n)
    X, y = record(rng, n, True)
    X[:, 1:] = np.column_stack((np.eye(3)[rng.integers(0, 3, n)], rng.uniform(-1, 1, n), np.ones(n)))
    data, frame = inputs.of_arrays(X, y, problem), frame_of(rng)
    u, has_weight = coordinates(data, slice(0, n), frame)
    np.testing.assert_allclose(u, (X @ frame.raw) * has_weight[:, None], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(has_weight, frame.has_weight[1 + X[:, 1:4].argmax(axis=1)])
    scores = WeightedScores(frame, np.ones(4), WEIGHTS["linear"][0])
    fresh = inputs.of_arrays(X, y, problem)
    np.testing.assert_array_equal(fresh.total(replace(scores, keeps=False)), data.total(scores))
    assert "coordinates" not in fresh.cache


@every
def test_the_records_do_not_change_how_much_is_done(family: str) -> None:
    """The sums take the same operations with no rows, with all rows, and with rows at the center or far out."""
    rng, k, n = np.random.default_rng(8), 3, 200
    problem = problem_of(COLUMNS, family != "logistic", n, unit=Unit("person", k))
    frame, weights, counted = frame_of(rng), WEIGHTS[family][0], []
    scores = WeightedScores(frame, np.ones(4), weights)
    works: list[Work] = [scores, SquaredScores(scores), Curvatures(frame, np.ones(4), weights), LongRows(frame, 2.0)]
    works.append(Distances(frame, np.ones(4), 1.0))
    for row, share in ((SMALL_ROW, 0.0), (SMALL_ROW, 0.0), (SMALL_ROW, 1.0), (LARGE_ROW, 1.0), (LARGE_ROW, 0.5)):
        X, present = np.tile(row, (n * k, 1)), rng.random(n * k) < share
        data = inputs.of_arrays(X, np.where(rng.random(n * k) < share, 1.0, -1.0), problem, present)
        counted.append(operations(lambda data=data: [data.total(work) for work in works]))  # type: ignore[misc]
    _, *counted = counted  # the first pass also makes what is made once
    assert sum(counted[0].values()) > 100
    assert all(other == counted[0] for other in counted)


def test_weights_of_another_type_and_frames_out_of_range_are_refused() -> None:
    """A weight of the caller's own would see targets, and its bound is not proven."""

    class Curious(LinearWeights):
        def residuals(self, margins: Vector, targets: Vector) -> Vector:
            return targets + 0 * margins

    problem, frame = problem_of(COLUMNS, True, 1), frame_of(np.random.default_rng(1))
    x, y = record(np.random.default_rng(1), 1, True)
    wide = FullFrame(1e31 * frame.matrix, frame.offset, frame.has_weight)
    good = LinearWeights(1.0, 1.0)
    for at, weights, w in (
        (frame, Curious(1.0, 1.0), np.zeros(4)),
        (wide, good, np.zeros(4)),
        (frame, good, np.full(4, np.nan)),
        (frame, good, np.zeros(3)),
        (frame, LinearWeights(1.0, 1e300), np.zeros(4)),
    ):
        with pytest.raises(Unsuitable):
            exact(problem, x, y, lambda oracle, a=at, b=weights, c=w: oracle.gradient("gradient", c, a, b))  # type: ignore[misc]


@pytest.mark.parametrize("query", QUERIES)
def test_a_bound_follows_from_the_checked_copy_of_a_frame(query: str) -> None:
    """A method cannot lower a bound, or the number of coordinates, by a frame that states another size."""

    class Small(FullFrame):
        @property
        def size(self) -> int:
            return -(10**17)

    problem, frame = problem_of(COLUMNS, True, 1), frame_of(np.random.default_rng(1))
    x, y = record(np.random.default_rng(1), 1, True)
    stated = Small(frame.matrix, frame.offset, frame.has_weight)
    (value, bound), (exact_value, stated_bound) = (
        exact(problem, x, y, requests(own, LinearWeights(1.0, 1.0), np.ones(4), 1.0)[query]) for own in (frame, stated)
    )
    np.testing.assert_array_equal(exact_value, value)
    assert stated_bound == bound > 0


def complaints(family: str, relation: Relation = "replace_one", unit: Unit = Unit()) -> list[str]:  # noqa: B008
    """Return the violations by neighbors that differ in record 7."""
    n, largest_count = (1600, 10.0) if family == "poisson" else (N, None)
    quote = quoted(COLUMNS, family != "logistic", n, 6.0, largest_count, relation=relation, unit=unit)
    rng, k = np.random.default_rng(2), unit.slots
    X = np.column_stack(
        (
            rng.normal(0, 0.3, n * k).clip(-1, 1),
            np.eye(3)[rng.choice(3, n * k, p=(0.6, 0.3, 0.1))],
            rng.normal(0, 0.3, n * k).clip(-1, 1),
            np.ones(n * k),
        )
    )
    margins = 3 * X[:, 0] - 2 * X[:, 4] + rng.normal(size=n * k)
    y = np.sign(margins) if family == "logistic" else np.clip(margins / 8, -1, 1)
    if family == "poisson":
        y = coded_counts(rng.poisson(np.exp(margins / 4)), 10)
    at = slice(7 * k, 7 * k + k)
    X[at], y[at] = (SMALL_ROW, 1.0) if relation == "replace_one" else (TYPICAL_ROW, 1.0)
    present = np.ones(n * k, bool) if unit.is_person else None
    replacements: list[tuple[Any, Any]] = []
    for row, target in (
        (TYPICAL_ROW, 1.0),
        (TYPICAL_ROW, -1.0),
        (LARGE_ROW, -1.0),
        (OPPOSITE_ROW, 1.0),
        (OPPOSITE_ROW, -1.0),
        (SMALL_ROW, -1.0),
    ):
        replacements.append(((row, target), present))
    if family == "linear":  # a residual that is not clipped
        replacements.append(((TYPICAL_ROW, 0.15), present))
    if unit.is_person:
        absent = np.ones(n * k, bool)
        absent[at] = False
        replacements = (
            [((TYPICAL_ROW, 1.0), absent)] if relation == "zero_out" else [*replacements, ((SMALL_ROW, 1.0), absent)]
        )
    return complaints_of_each(quote, X, y, replacements, present)


@every
@pytest.mark.filterwarnings("error")
def test_only_finite_numbers_leave_a_query_at_extreme_points_and_rows(family: str) -> None:
    """A refusal, a warning or a NaN would reveal that a row has an extreme margin."""
    rows = np.array(
        [LARGE_ROW, OPPOSITE_ROW, SMALL_ROW, np.zeros(6), np.full(6, np.nan), np.full(6, np.inf), 1e300 * LARGE_ROW]
    )
    X, y = np.tile(rows, (2, 1)), np.repeat((-1.0, 1.0), len(rows))
    problem = problem_of(COLUMNS, family != "logistic", len(X))
    for scale in (1e-30, 1.0, 1e30):
        frame = FullFrame(scale * np.eye(5), scale * np.eye(5)[4], np.ones(5, bool))
        for size in (-1e49, -800.0, 800.0, 1e49):
            for weights in WEIGHTS[family]:
                for query, ask in requests(frame, weights, size * np.array([0.5, 0, 0, 0, 1]), 1.0).items():
                    value, bound = exact(problem, X, y, ask)
                    assert np.isfinite(value).all(), query
                    assert np.linalg.norm(value) <= 2 * len(X) * bound, query


@every
def test_neighbors_differ_by_no_more_than_their_bounds_and_by_answers_alone(family: str) -> None:
    assert complaints(family) == []
    for relation in ("replace_one", "zero_out"):
        assert complaints(family, relation, Unit("person", 3)) == []


def one_sided(problem: Problem, moved: float, longest: float) -> Any:
    """Mutant: two matrices are taken to be no farther apart than one is from 0."""
    return OF_MEANS(problem, moved / math.sqrt(2), longest / math.sqrt(2))


def of_unit_rows(u: Vector) -> Vector:
    """Mutant: weights do not follow the length of a row."""
    return np.ones(len(u))


def without_curvature_limit(work: Curvatures, data: Data, rows: Slots) -> Vector:
    """Mutant: the limit of curvatures is forgotten, in the weights and at the end."""
    assert not isinstance(work.weights, LinearWeights)
    if isinstance(work.weights, PoissonWeights):
        return CURVATURES(replace(work, weights=replace(work.weights, mean_limit=0.9)), data, rows)
    return CURVATURES(replace(work, weights=replace(work.weights, curvature_limit=1.0)), data, rows)


def cut_after_the_sum(work: WeightedScores, data: Data, rows: Slots) -> Vector:
    """Mutant: the sum is cut to what bounded scores could add up to, and not each score."""
    assert isinstance(rows, slice)
    u, _ = coordinates(data, rows, work.frame)
    total = u.T @ work.weights.residuals(u @ work.w, data.y[rows])
    return np.asarray(total * min(1.0, work.weights.gradient_bound * len(u) / float(np.linalg.norm(total))))


def of_long_rows(work: LongRows, data: Data, rows: Slots) -> Vector:
    """Mutant: rows are not shortened."""
    return LONG(replace(work, limit=1e12), data, rows)


OF_MEANS = moment_bounds.of_means
CURVATURES, LONG = Curvatures.sum, LongRows.sum


def test_two_matrices_have_distance_sqrt_2_and_the_off_diagonal_counts_twice() -> None:
    """A mutant without the factor sqrt(2) scales noise to less than the distance of two orthogonal rows."""
    problem, frame = problem_of(COLUMNS, True, 1), FullFrame(np.eye(5), np.zeros(5), np.ones(5, bool))

    def term(*row: float) -> tuple[Vector, float]:
        x = np.array([row], dtype=float)
        return exact(problem, x, np.ones(1), lambda oracle: oracle.second_moments("second_moments", frame, 1.0))

    (first, bound), (second, _) = term(1, 1, 0, 0, 1, 1), term(-1, 0, 1, 0, 1, 1)
    upper, factors = packing(5)
    x = np.array([1.0, 1, 0, 0, 1])
    np.testing.assert_allclose(first, (np.outer(x, x) / 3)[upper] * factors)
    assert np.linalg.norm(first) == pytest.approx(1.0)
    assert float(np.linalg.norm(first - second)) == pytest.approx(2 * bound)
    with patch.object(moment_bounds, "of_means", one_sided):
        assert np.linalg.norm(first - second) > 2 * term(1, 1, 0, 0, 1, 1)[1]


@pytest.mark.parametrize(
    ("family", "query", "target", "name", "mutant"),
    [
        ("linear", "gradient", weighted_sums, "row_lengths", of_unit_rows),
        ("logistic", "gradient", weighted_sums, "row_lengths", of_unit_rows),
        ("poisson", "gradient", weighted_sums, "row_lengths", of_unit_rows),
        ("linear", "gradient", WeightedScores, "sum", cut_after_the_sum),
        ("logistic", "gradient", WeightedScores, "sum", cut_after_the_sum),
        ("poisson", "gradient", WeightedScores, "sum", cut_after_the_sum),
        ("linear", "second_moments", LongRows, "sum", of_long_rows),
    ],
)
def test_a_limit_that_is_not_each_records_own_is_caught(
    family: str, query: str, target: Any, name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, mutant)
    assert f"{query}: {MOVED}" in complaints(family)


@pytest.mark.parametrize("weights", [LogisticWeights(1.3, 0.9, 0.04), PoissonWeights(1.3, 0.1)], ids=str)
def test_a_curvature_without_its_limit_is_caught(
    weights: LogisticWeights | PoissonWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(COLUMNS, isinstance(weights, PoissonWeights), 1)
    frame, row = FullFrame(np.eye(5), np.zeros(5), np.ones(5, bool)), np.array([[1.0, 1, 0, 0, 0, 1]])

    def moved() -> float:
        value, bound = exact(problem, row, np.ones(1), lambda o: o.curvature("curvature", np.zeros(5), frame, weights))
        return float(np.linalg.norm(value)) / bound

    assert moved() <= math.sqrt(2)
    monkeypatch.setattr(Curvatures, "sum", without_curvature_limit)
    assert moved() > math.sqrt(2)


def half_weighted(weights: PoissonWeights, margins: Vector, norms: Vector) -> Vector:
    """Mutant: the weight of a score does not follow the largest residual, and curvatures keep their limit."""
    by_row = np.minimum(1.0, weights.row_limit**2 / norms**2)
    return np.asarray(by_row * np.minimum(1.0, weights.curvature_limit / weights.mean(margins)))


def uncut(work: WeightedScores, data: Data, rows: slice) -> Vector:
    """Return the scores without the cut at the end."""
    u, _ = coordinates(data, rows, work.frame)
    factors = work.weights.weights(u @ work.w, np.linalg.norm(u, axis=1))
    return np.asarray(u * (factors * work.weights.residuals(u @ work.w, data.y[rows]))[:, None])


def test_the_weights_of_counts_bound_scores_without_the_cut_and_not_without_the_largest_residual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cut at the end covers rounding. A fault in the weights that it hides would bias the estimates."""
    monkeypatch.setattr(WeightedScores, "each", uncut)
    problem, weights = problem_of(COLUMNS, True, 1), PoissonWeights(1.3, 0.1)
    frame, row = FullFrame(np.eye(5), np.zeros(5), np.ones(5, bool)), np.array([[1.0, 1, 0, 0, 0, 1]])

    def moved(margin: float, y: float) -> float:
        w = np.array([margin, 0, 0, 0, 0])
        value, bound = exact(problem, row, np.array([y]), lambda o: o.gradient("gradient", w, frame, weights))
        return float(np.linalg.norm(value)) / bound

    for margin in (-30.0, -3.0, -0.7, 0.0, 1.0, 5.0):
        assert max(moved(margin, y) for y in (-1.0, 0.0, 1.0)) <= 1 + 1e-12
    assert moved(-30.0, 1.0) > 0.9
    monkeypatch.setattr(PoissonWeights, "weights", half_weighted)
    assert moved(-30.0, 1.0) > 1.5


@pytest.mark.parametrize(
    ("query", "family"),
    [(query, "linear") for query in ("means", "variances", "second_moments", "target_spread", "residual")]
    + [(query, "logistic") for query in ("target_mean", "step_1", "curvature", "squared_scores", "gradient")],
)
def test_an_answer_that_is_used_before_it_is_noised_is_caught(
    query: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Meter, "answer", used_before_noise(query))
    assert any(word in each for each in complaints(family) for word in LEAKED)


@pytest.mark.parametrize("query", ["step_8", "gradient", "curvature", "squared_scores", "second_moments", "residual"])
def test_a_bound_that_is_too_small_is_caught(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the bound of one answer."""
    monkeypatch.setattr(Meter, "answer", with_bound_divided(query, 10))
    assert f"{query}: {MOVED}" in complaints("linear")
