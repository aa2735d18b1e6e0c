"""Regression tables: coverage, agreement with a solver without noise, edges, and refusals of quotes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from accounting import Privacy, Unit
from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import REPLACE_ONE
from benchmarks import inference_designs as designs
from benchmarks.inference import Draws
from benchmarks.inference import table_of as drawn_table
from benchmarks.inference_populations import Model
from solvers import moment_bounds, plan
from solvers.bounds import UNIT
from solvers.columns import Columns
from solvers.data_access import data as reading
from solvers.data_access import inputs, partitioned, weighted, weighted_sums
from solvers.data_access.data import Data
from solvers.data_access.oracles import DataOracles
from solvers.data_access.rows import copied
from solvers.data_access.weighted_sums import Curvatures, LongRows, WeightedScores
from solvers.domains import L2Ball
from solvers.errors import NeedsDelta, Unsuitable
from solvers.full_frame import FullFrame
from solvers.inference import RegressionTable, coordinates, estimate
from solvers.inference.budget import TableBudget
from solvers.inference.coordinates import Stds, complement, decorrelated
from solvers.inference.estimate import NOISE_HIDES
from solvers.inference.families import FEW_EVENTS, LINEAR, LOGISTIC
from solvers.inference.path import TablePath
from solvers.inference.table import SolvedTable
from solvers.inference.target import Target
from solvers.losses import Huber, Softmax
from solvers.preparation import Declared
from solvers.regularizers import L2
from solvers.statistics import Profile
from solvers.weighting import LinearWeights, LogisticWeights
from tests.support.noiseless import noiseless
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits
from tests.support.tables import correlated, drawn, problem_of, quiet, quoted, slopes, table_of

Vector = NDArray[np.float64]
MIXED = Columns((1, 3, 1, 2))


def mixed(n: int, rng: np.random.Generator, weights: tuple[float, ...] = (0.5, 0.3, 0.2)) -> Vector:
    numbers = correlated(n, 2, rng)
    blocks = np.eye(len(weights))[rng.choice(len(weights), n, p=weights)], np.eye(2)[rng.integers(0, 2, n)]
    return np.column_stack((numbers[:, 0], blocks[0], numbers[:, 1], blocks[1]))


def labels(margins: Vector, rng: np.random.Generator) -> Vector:
    return np.where(rng.random(len(margins)) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)


def test_the_bound_of_a_gradient_covers_the_rounding_of_a_row() -> None:
    """A computed score can be longer than its bound by the rounding of its norm, its cut and its product."""
    problem, size = problem_of(Columns((2,)), True, 4), 2
    X = np.column_stack((np.eye(2)[[0, 1, 0, 1]], np.ones(4)))
    queries = (PlannedQuery("gradient", 1, Gaussian(), 1.0),)
    oracle = DataOracles(inputs.of_arrays(X, np.ones(4), problem), Plan(queries), Noise(SeededBits(1))).weighted()

    frame, weights = FullFrame(np.eye(2), np.zeros(2), np.ones(2, np.bool_)), LinearWeights(1.0, 1.0)
    with noiseless() as answers:
        oracle.gradient("gradient", np.ones(2), frame, weights)
    longest = weights.gradient_bound * (1 + (size + 16) * UNIT)
    assert answers[0].bound == moment_bounds.of_means(problem, longest, longest)


def test_rows_without_a_weight_make_no_overflow_at_the_largest_limits() -> None:
    """A warning about one row would reveal something about it."""
    problem = problem_of(Columns((2,)), True, 4)
    X = np.column_stack((np.eye(2)[[0, 1, 0, 1]], np.ones(4)))
    data = inputs.of_arrays(X, np.ones(4), problem)
    frame, w = FullFrame(np.eye(2), np.zeros(2), np.array([True, False])), np.ones(2)
    linear, logistic = LinearWeights(1e6, 1e6), LogisticWeights(1e6, 1.0, 0.25)
    with np.errstate(all="raise"):
        for work in (LongRows(frame, 1e12), Curvatures(frame, w, linear), WeightedScores(frame, w, logistic)):
            assert np.isfinite(data.total(work)).all()


@pytest.mark.parametrize(("is_linear", "epsilon"), [(False, 1.0), (True, 2.0)], ids=["logistic", "linear"])
def test_intervals_have_their_stated_coverage_and_parts_of_the_error_do_not(is_linear: bool, epsilon: float) -> None:
    """For 300 lines and more, the exact lower bound of a rate of .95 at the level .001 is about .90."""
    n, p, runs = 4000, 5, 60
    quote = quoted(Columns((1,) * p), is_linear, n, epsilon)
    truth = np.append(slopes(p) / 8, -0.1) if is_linear else np.append(slopes(p), -0.3)
    errors, widths, parts, nulls = [], [], [], []
    for seed in range(runs):
        table = table_of(quote, *drawn(n, p, is_linear, np.random.default_rng(seed)), seed)
        for row, true in zip(table.rows, truth, strict=True):
            if row.line is None:
                continue
            errors.append(abs(row.line.estimate - true))
            widths.append((row.line.upper - row.line.lower) / 2)
            parts.append((1.96 * row.line.sampling_error, 1.96 * row.line.noise_error))
            nulls += [row.line.p_value] if true == 0 else []
    covered, count = np.array(errors) <= np.array(widths), len(errors)
    assert count > 0.95 * runs * len(truth)
    assert stats.binom.cdf(covered.sum(), count, 0.95) > 1e-3
    by_part = (np.array(errors)[:, None] <= np.array(parts)).mean(axis=0)
    assert (by_part < 0.92).all()
    false = sum(p_value < 0.05 for p_value in nulls)
    assert len(nulls) >= 0.9 * runs
    assert stats.binom.sf(false - 1, len(nulls), 0.05) > 1e-3


@pytest.mark.parametrize("is_linear", [False, True], ids=["logistic", "linear"])
def test_the_noise_widens_intervals_of_30000_rows_by_at_most_a_quarter(is_linear: bool) -> None:
    n, p = 30_000, 9
    quote = quoted(Columns((1,) * p), is_linear, n, 1.0)
    table = table_of(quote, *drawn(n, p, is_linear, np.random.default_rng(1)))
    assert table.effective_rows is not None
    assert table.effective_rows > n / 1.25**2
    assert TableBudget.of(quote.problem, gauss_mu(1.0, 1e-6), LINEAR if is_linear else LOGISTIC).width_ratio < 1.25


def test_the_limit_of_residuals_grows_with_the_budget_from_two_standard_deviations() -> None:
    limits = [
        TableBudget(n, 10, 1, 0.24, LINEAR).limits().score for n in (3_000, 30_000, 60_000, 130_000, 140_000, 10**6)
    ]
    assert limits == sorted(limits)
    assert limits[:2] == [2.0, 2.0]
    assert limits[3] == pytest.approx(4, rel=0.03)
    assert limits[4] == pytest.approx(4, rel=0.03)
    assert limits[5] > 4


def test_squared_scores_take_more_budget_where_their_noise_is_as_large_as_they_are() -> None:
    """Their noise is proportional to the square of the limit of residuals, and widens intervals."""
    shares = [TableBudget(5000, 10, 1, mu, LINEAR).shares()["squared_scores"] for mu in (0.24, 0.87, 1.48)]
    assert shares[:2] == [0.04, 0.04]
    assert 0.08 < shares[2] <= 0.1


@pytest.mark.parametrize("is_linear", [False, True], ids=["logistic", "linear"])
def test_limits_are_tighter_where_many_slots_of_persons_are_empty(is_linear: bool) -> None:
    """Empty slots carry no information, but each person's term is as long, so milder weights would only add noise."""
    budget, target = TableBudget(30_000, 5, 4, 0.87, LINEAR if is_linear else LOGISTIC), Target(0.0, 0.1, 0.1)
    half, full = (budget.last_weights(target, share).gradient_bound for share in (0.5, 1.0))
    assert half < 0.9 * full


@pytest.mark.parametrize("is_linear", [False, True], ids=["logistic", "linear"])
def test_without_noise_it_is_the_weighted_fit(is_linear: bool) -> None:
    """A Newton solver with the same weights, in one-hot coding less one level, gives the same contrasts."""
    rng, n = np.random.default_rng(3), 6000
    X = mixed(n, rng)
    margins = X @ np.array([1.5, 0, 0.5, -0.5, -2.0, 0, 0.3]) + 0.2
    y = np.clip(margins / 8 + 0.1 * rng.standard_normal(n), -1, 1) if is_linear else labels(margins, rng)
    quote = quiet(quoted(MIXED, is_linear, n, 4.0))
    table = table_of(quote, X, y)
    axes = table.estimate.coordinates
    u = np.column_stack((X, np.ones(n))) @ axes.frame.raw
    start, norms = table.answers.point, np.linalg.norm(u, axis=1)
    omega, theta = table.estimate.weights.weights(u @ start, norms), start.copy()
    for _ in range(20):
        m = u @ theta
        omega_slopes = omega * table.estimate.weights.slopes(m, y)
        score = u.T @ (omega * table.estimate.weights.residuals(m, y))
        theta = theta - np.linalg.solve((u * omega_slopes[:, None]).T @ u, score)
    exact = axes.frame.raw @ theta
    scores = u * (omega * table.estimate.weights.residuals(u @ theta, y))[:, None]
    bread = np.linalg.inv((u * omega_slopes[:, None]).T @ u) @ axes.frame.raw.T
    sandwich = bread.T @ scores.T @ scores @ bread
    for row in table.rows:
        assert row.line is not None
        error = float(np.sqrt(row.contrast.weights @ sandwich @ row.contrast.weights))
        assert abs(row.line.estimate - row.contrast.weights @ exact) < 0.01 * error
        assert row.line.std_error == pytest.approx(error, rel=0.02)
        assert row.line.noise_error < 0.05 * error
        assert row.line.degrees_of_freedom > 1e6
    contrasts = np.array([row.contrast.weights for row in table.rows])
    np.testing.assert_allclose(table.covariance, table.estimate.covariance(contrasts), rtol=1e-9)


def test_contrasts_do_not_depend_on_the_basis_of_a_category(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n = np.random.default_rng(4), 4000
    X = mixed(n, rng)
    y, quote = labels(X @ np.array([1.5, 0, 0.5, -0.5, -2.0, 0, 0.3]), rng), quiet(quoted(MIXED, False, n, 4.0))
    table = table_of(quote, X, y)

    def turned(normal: Vector) -> Vector:
        basis = complement(normal)
        turn, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(basis.shape[1],) * 2))
        return np.asarray(basis @ turn)

    monkeypatch.setattr(coordinates, "complement", turned)
    turned_table = table_of(quote, X, y)
    for a, b in zip(table.rows, turned_table.rows, strict=True):
        assert a.line is not None
        assert b.line is not None
        assert a.line.estimate == pytest.approx(b.line.estimate, rel=1e-3, abs=1e-3 * a.line.std_error)
        assert a.line.std_error == pytest.approx(b.line.std_error, rel=1e-3)


def test_a_basis_is_orthonormal_and_orthogonal_to_its_normal() -> None:
    for size in (1, 2, 5, 40):
        normal = np.random.default_rng(size).uniform(0.1, 3, size)
        basis = complement(normal)
        np.testing.assert_allclose(basis.T @ basis, np.eye(size - 1), atol=1e-12)
        np.testing.assert_allclose(normal @ basis, 0, atol=1e-12)


def test_the_noise_of_a_curvature_has_the_covariance_that_is_stated() -> None:
    rng, std, change = np.random.default_rng(1), 0.3, np.array([1.0, -2.0, 0.5])
    noise = np.triu(rng.normal(size=(100_000, 3, 3)), 1) / np.sqrt(2)
    noise = std * (noise + noise.transpose(0, 2, 1) + np.eye(3) * rng.normal(size=(100_000, 1, 3)))
    moved = noise @ change
    np.testing.assert_allclose(np.cov(moved.T), estimate.curvature_noise(std, change), rtol=0.03, atol=0.01)


def no_wrong_numbers(table: SolvedTable, truth: dict[int, float] | None = None) -> None:
    for index, row in enumerate(table.rows):
        assert (row.line is None) == (row.reason is not None)
        if row.line is not None:
            assert np.isfinite((row.line.estimate, row.line.std_error, row.line.lower, row.line.upper)).all()
            if truth is not None and index in truth:
                assert abs(row.line.estimate - truth[index]) < 6 * row.line.std_error
    assert len(table.covariance) == sum(row.line is not None for row in table.rows)


def test_a_step_is_finite_where_every_curvature_is_0() -> None:
    """Noise can make all margins so large that sigmoids are 0 or 1."""
    frame = FullFrame(np.zeros((1, 0)), np.ones(1), np.ones(0, dtype=bool))
    axes = decorrelated(frame, np.ones((1, 1)), 0.01, 1.0)
    moved = TablePath(axes, 1.5).moved(axes.constant(1e4), np.ones(1), LogisticWeights(1.5, 0.5, 0.25))
    assert 1 < (axes.constant(1e4) - moved)[0] < 2


def test_separated_classes_have_no_line() -> None:
    rng = np.random.default_rng(1)
    X = correlated(8000, 3, rng)
    table = table_of(quoted(Columns((1, 1, 1)), False, 8000), X, np.sign(X @ np.array([3.0, -2, 1])))
    assert not any(row.line for row in table.rows)
    no_wrong_numbers(table)


def test_a_column_twice_is_not_resolved_and_others_are() -> None:
    rng = np.random.default_rng(2)
    X = correlated(8000, 3, rng)
    X[:, 2] = X[:, 1]
    table = table_of(quoted(Columns((1, 1, 1)), False, 8000), X, labels(X @ np.array([3.0, -2, 1]), rng))
    assert [row.line is not None for row in table.rows] == [True, False, False, True]
    no_wrong_numbers(table, {0: 3.0, 3: 0.0})


def table_and_eigenvalues(population: Model, n: int, epsilon: float, repetition: int) -> tuple[SolvedTable, Vector]:
    """Return a table, and the raised eigenvalues of its curvature in noise stds."""
    quote = Draws(population, n, REPLACE_ONE).quote(epsilon)
    assert quote is not None
    sample = population.draw(n, np.random.default_rng([repetition, n]))
    table = drawn_table(quote, sample, np.random.default_rng([repetition, n, round(epsilon)]))
    stds = Stds(quote.problem, lambda query: quote.release.plan.query(query).noise_multiplier)
    return table, table.estimate.values / stds.of_matrix("curvature", table.estimate.weights.curvature_bound)


@pytest.mark.parametrize("repetition", [24, 43, 90])
def test_a_coefficient_is_not_resolved_if_noise_alone_raises_its_curvature_above_3_stds(repetition: int) -> None:
    """An indicator is in 3 percent of the rows, and few of these are positive, so its curvature is about 1 std."""
    table, values = table_and_eigenvalues(designs.mixed(3, "logistic"), 5000, 4.0, repetition)
    assert 3 < values.min() < 5
    assert [row.reason for row in table.rows] == [None, NOISE_HIDES, None]


def test_a_small_curvature_is_not_expected_only_because_others_are_large() -> None:
    """A level is in 1 of 1,143 rows, so its curvature is about 1 std, and that of the number is over 300 stds."""

    def rows(count: int, rng: np.random.Generator) -> Vector:
        levels = np.eye(2)[(rng.random(count) < 70 / 80_000).astype(int)]
        return np.hstack((levels, np.clip(rng.standard_normal((count, 1)) / 4, -1, 1)))

    coefficients = np.array([0.0, -0.5, 2.0, 0.0])
    population = Model("rare level", Columns((2, 1)), "logistic", rows, coefficients)
    table, values = table_and_eigenvalues(population, 80_000, 4.0, 19)
    assert 3 < values.min() < 5
    assert [row.reason for row in table.rows] == [NOISE_HIDES, None, None]


@pytest.mark.parametrize(
    ("population", "n", "epsilon", "repetition"),
    [(designs.correlated(3, "logistic"), 1000, 1.0, 6), (designs.mixed(3, "logistic"), 30_000, 4.0, 2)],
    ids=["others are as small", "second moments confirm it"],
)
def test_a_curvature_below_5_stds_is_resolved_if_it_is_expected(
    population: Model, n: int, epsilon: float, repetition: int
) -> None:
    table, values = table_and_eigenvalues(population, n, epsilon, repetition)
    assert 3 < values.min() < 5
    assert all(row.line for row in table.rows)


def test_a_level_without_records_is_omitted_and_is_not_the_reference() -> None:
    rng, n = np.random.default_rng(3), 8000
    level = rng.integers(1, 4, n)
    X = np.column_stack((correlated(n, 1, rng), np.eye(5)[level]))
    y = labels(2 * X[:, 0] + 0.5 * (level == 2), rng)
    table = table_of(quoted(Columns((1, 5)), False, n), X, y)
    reference = table.rows[1].contrast.reference
    assert reference in (1, 2, 3)
    reasons = {row.contrast.level: row.reason for row in table.rows if row.contrast.kind == "level"}
    assert {own for own, reason in reasons.items() if reason} == {0, 4}
    assert set(table.joint_p_values) == {1}
    no_wrong_numbers(table, {0: 2.0})


def test_labels_that_are_all_alike_have_no_line() -> None:
    rng = np.random.default_rng(4)
    table = table_of(quoted(Columns((1, 1)), False, 4000), correlated(4000, 2, rng), np.ones(4000))
    assert {row.reason for row in table.rows} == {FEW_EVENTS}
    table = table_of(quoted(Columns((1, 1)), True, 4000), correlated(4000, 2, rng), np.ones(4000))
    no_wrong_numbers(table)


@pytest.mark.parametrize("columns", [Columns(()), Columns((2,)), Columns((4, 3)), Columns((1,))], ids=str)
@pytest.mark.parametrize("is_linear", [False, True], ids=["logistic", "linear"])
@pytest.mark.parametrize("unit", [Unit(), Unit("person", 2)], ids=["rows", "persons"])
def test_small_tables_have_their_lines(columns: Columns, is_linear: bool, unit: Unit) -> None:
    """The intercept alone, one kind of columns alone, and persons of whom some have no row."""
    rng, n = np.random.default_rng(5), 6000
    slots = n * unit.slots
    parts = [np.eye(w)[rng.integers(0, w, slots)] if w > 1 else correlated(slots, 1, rng) for w in columns.widths]
    X = np.column_stack([*parts, np.zeros((slots, 0))])
    y = np.clip(rng.normal(0.2, 0.2, slots), -1, 1) if is_linear else labels(np.full(slots, 0.4), rng)
    present = rng.random(slots) < 0.7 if unit.is_person else None
    table = table_of(quoted(columns, is_linear, n, unit=unit), X, y, present=present)
    assert all(row.line for row in table.rows)
    no_wrong_numbers(table, {len(table.rows) - 1: 0.2 if is_linear else 0.4})


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_intervals_of_persons_cover_although_their_rows_depend(relation: str) -> None:
    """Rows of a person share an effect, so intervals for independent rows would be too short."""
    persons, k, p, runs = 4000, 4, 2, 30
    quote = quoted(Columns((1, 1)), True, persons, 2.0, unit=Unit("person", k), relation=relation)
    covered = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 9])
        X = np.repeat(correlated(persons, p, rng), k, axis=0)
        noise = np.repeat(0.2 * rng.standard_normal(persons), k) + 0.05 * rng.standard_normal(persons * k)
        y = np.clip(X @ np.array([0.3, 0.0]) + 0.1 + noise, -1, 1)
        table = table_of(quote, X, y, seed, rng.random(persons * k) < 0.8)
        for row, true in zip(table.rows, (0.3, 0.0, 0.1), strict=True):
            if row.line is not None:
                covered.append(row.line.lower <= true <= row.line.upper)
    assert len(covered) > 0.9 * 3 * runs
    assert stats.binom.cdf(sum(covered), len(covered), 0.95) > 1e-3


@pytest.mark.parametrize("is_linear", [False, True], ids=["logistic", "linear"])
def test_the_answers_of_partitions_are_those_of_one_machine(is_linear: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    n, group = 3000, 1024
    for module in (reading, partitioned):
        monkeypatch.setattr(module, "GROUP", group)
    rng = np.random.default_rng(6)
    X = mixed(n, rng)
    y = np.clip(rng.normal(0, 0.3, n), -1, 1) if is_linear else labels(2 * X[:, 0], rng)
    quote = quoted(MIXED, is_linear, n, 6.0)
    problem = quote.problem
    whole = inputs.of_arrays(np.column_stack((X, np.ones(n))), y, problem)
    parts = []
    for start in range(0, n, group):
        own = np.arange(start, min(start + group, n))
        records = copied(whole.records, own)
        parts.append(Data(records, whole.y[own], whole.scale[own], replace(problem, n=len(own))))
    apart = partitioned.Partitioned(problem, partitioned.LocalPartitions(parts))
    first, second = (run_quote(quote, d, 1)[0] for d in (whole, apart))
    np.testing.assert_array_equal(first, second)
    assert all("coordinates" in part.cache for part in parts)
    monkeypatch.setattr(weighted, "MOST_CACHED_COORDINATES", 6 * n - 1)  # the limit is for all partitions together
    for part in parts:
        part.cache.clear()
    third = run_quote(quote, apart, 1)[0]
    np.testing.assert_array_equal(first, third)
    assert not any("coordinates" in part.cache for part in parts)


def test_a_row_has_the_same_coordinates_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition computes a row in another block than one machine does, perhaps alone."""
    n, columns = 33, Columns((1,) * 18)
    rng = np.random.default_rng(2)
    X = np.column_stack((rng.uniform(-1, 1, (n, 18)), np.ones(n)))
    problem = problem_of(columns, True, n)
    data = inputs.of_arrays(X, rng.uniform(-1, 1, n), problem)
    for _ in range(20):
        frame = FullFrame(rng.normal(size=(19, 18)), np.zeros(19), np.ones(18, bool))
        work = WeightedScores(frame, rng.normal(size=19), LinearWeights(0.5, 0.4))
        sums = []
        for blocks in ([slice(0, n)], [slice(0, n - 1), slice(n - 1, n)]):
            monkeypatch.setattr(weighted_sums, "slices", lambda *_, blocks=blocks: blocks)
            data.cache.clear()
            sums.append(data.total(work))
        np.testing.assert_array_equal(sums[0], sums[1])


@pytest.mark.parametrize("changed", ["matrix", "offset", "has_weight"])
def test_coordinates_of_another_frame_are_computed_again(changed: str) -> None:
    n, columns = 20, Columns((3, 1))
    rng = np.random.default_rng(3)
    X = np.column_stack((np.eye(3)[rng.integers(0, 3, n)], rng.uniform(-1, 1, n), np.ones(n)))
    problem = problem_of(columns, True, n)
    y = rng.uniform(-1, 1, n)
    frame = FullFrame(rng.normal(size=(4, 4)), rng.normal(size=4), np.ones(4, bool))
    frames = {
        "matrix": replace(frame, matrix=frame.matrix + 1),
        "offset": replace(frame, offset=frame.offset + 1),
        "has_weight": replace(frame, has_weight=np.arange(4) > 0),
    }
    works = [WeightedScores(each, np.ones(4), LinearWeights(0.5, 0.4)) for each in (frame, frames[changed])]
    data, fresh = (inputs.of_arrays(X, y, problem) for _ in range(2))
    first, second = (data.total(work) for work in works)
    np.testing.assert_array_equal(second, fresh.total(works[1]))
    assert (first != second).any()


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"regularizer": L2(0.1)}, "penalty"),
        ({"domain": L2Ball(1.0)}, "bounded domain"),
        ({"slope_limit": 0.5}, "limits scores"),
        ({"loss": Softmax(3)}, "loss"),
        ({"loss": Huber(1.0)}, "loss"),
        ({"row_norm": 0.5}, "row_norm"),
        ({"n": 300}, "rows are needed"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_problem_that_does_not_suit_is_refused_with_its_reason(facts: dict[str, object], match: str) -> None:
    problem = replace(problem_of(Columns((1,) * 9), False, 40_000), **facts)  # type: ignore[arg-type]
    with pytest.raises(Unsuitable, match=match):
        plan(RegressionTable(), problem, Privacy(1.0, 1e-6))


def test_a_table_needs_delta_few_parameters_and_known_references() -> None:
    problem = problem_of(MIXED, False, 40_000)
    with pytest.raises(NeedsDelta):
        plan(RegressionTable(), problem, Privacy(1.0))
    with pytest.raises(Unsuitable, match="at most 200"):
        plan(RegressionTable(), problem_of(Columns((300,)), False, 10**9), Privacy(1.0, 1e-6))
    for references in ((0,), (3, 0), (0, 0, 0)):
        with pytest.raises(Unsuitable, match="references"):
            plan(RegressionTable(references=references), problem, Privacy(1.0, 1e-6))
    with pytest.raises(Unsuitable, match="level"):
        plan(RegressionTable(level=0.2), problem, Privacy(1.0, 1e-6))


@pytest.mark.parametrize("wish", [{"preparation": Declared()}, {"slope_limit": 0.5}], ids=str)
@pytest.mark.parametrize("method", [RegressionTable(), Profile()], ids=lambda method: type(method).__name__)
def test_a_preparation_or_a_slope_limit_without_effect_is_refused(
    method: RegressionTable | Profile, wish: dict[str, Any]
) -> None:
    with pytest.raises(Unsuitable, match=next(iter(wish))):
        plan(method, problem_of(Columns((1,) * 9), False, 40_000), Privacy(1.0, 1e-6), **wish)


def test_a_refusal_names_the_rows_that_suffice() -> None:
    small = problem_of(Columns((1,) * 9), False, 1000)
    privacy = Privacy(1.0, 1e-6)
    with pytest.raises(Unsuitable) as refused:
        plan(RegressionTable(), small, privacy)
    needed = int(str(refused.value).split(" rows are needed")[0].split(", ")[-1].replace(",", ""))
    plan(RegressionTable(), replace(small, n=needed), privacy)
    with pytest.raises(Unsuitable, match="rows are needed"):
        plan(RegressionTable(), replace(small, n=needed - 2), privacy)


@pytest.mark.parametrize("is_linear", [False, True], ids=["logistic", "linear"])
def test_a_plan_spends_all_and_its_forecast_improves_with_rows(is_linear: bool) -> None:
    ratios = []
    for n in (3_000, 10_000, 100_000, 1_000_000):
        budget = TableBudget(n, 10, 1, 0.3, LINEAR if is_linear else LOGISTIC)
        for has_columns, has_numbers in ((False, False), (True, False), (True, True)):
            shares = budget.shares(has_columns, has_numbers)
            assert sum(shares.values()) == pytest.approx(1.0)
            assert min(shares.values()) > 0
            assert shares["gradient"] > 0.05
        ratios.append(budget.width_ratio)
        assert 0.4 <= budget.resolved_share <= 1
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.2
