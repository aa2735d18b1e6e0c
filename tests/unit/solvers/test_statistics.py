"""Statistics: their answers, their bounds, and mutants with a forgotten sensitivity."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.calibration import certify
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import OutOfPlan
from accounting.privacy import Relation, Unit
from solvers import Problem, count_bounds, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.count_sums import Cells, Products
from solvers.data_access.data import Data
from solvers.data_access.group_sums import GroupCounts, GroupMoments
from solvers.data_access.rows import Coded
from solvers.errors import NeedsDelta, Unsuitable
from solvers.groups import CodeCondition, Groups
from solvers.losses import Squared
from solvers.oracles import Counting
from solvers.problem import Vector
from solvers.statistics import AnyStatistic, Counts, Covariance, Means, Quantiles, Table1
from tests.support.coupled import complaints, complaints_of_each
from tests.support.runs import run_quote

N = 600
MIXED = Columns((1, 300, 1), ((-1.0, 1.0), (0.0, 1.0)))  # a code of two bytes
LINE = Columns((1, 1, 1), ((-1.0, 1.0), (0.0, 1.0), (-0.5, 1.0)))
GROUPED = Columns((3, 2, 1, 300, 1, 1), ((-1.0, 1.0), (0.0, 1.0), (-0.5, 1.0)))
WHERE = (CodeCondition(2, ((-0.5, 0.0),), is_negated=True), CodeCondition(3, ((7.0, 7.0), (9.0, 9.0)), is_negated=True))
TABLE1 = Table1(Groups(by=2, described=3, where=WHERE), bins=4)
MIXED_GROUPS = Columns((300, 1))
PRIVACY, SURE = Privacy(1.0, 1e-6), Privacy(100.0, 1e-2)
ALL: list[tuple[AnyStatistic, Columns]] = [
    (Counts(bins=4), MIXED),
    (Means(), MIXED),
    (Quantiles(bins=8), LINE),
    (Covariance(), LINE),
    (TABLE1, GROUPED),
]
NAMES = [str(statistic.name) for statistic, _ in ALL]


def problem_of(columns: Columns, n: int = N, **changes: Any) -> Problem:
    return Problem(Squared(), n=n, d=columns.d, row_norm=columns.row_norm, columns=columns, **changes)


def rows_of(columns: Columns, n: int = N) -> Vector:
    rng, parts, ranges = np.random.default_rng(3), [], iter(columns.ranges)
    for width in columns.widths:
        low, high = next(ranges) if width == 1 else (0.0, 0.0)
        block = rng.uniform(low, high, (n, 1)) if width == 1 else np.eye(width)[rng.integers(0, width, n)]
        parts.append(block)
    return np.column_stack((*parts, np.ones(n)))


def answers_of(statistic: AnyStatistic, X: Vector, problem: Problem, privacy: Privacy = SURE) -> Vector:
    quote = plan(statistic, problem, privacy)
    data = inputs.of_arrays(X, np.zeros(problem.slots), problem)
    answers, transcript, _ = run_quote(quote, data, 2)
    assert quote.release.plan.covers(transcript)
    assert transcript.covers(quote.release.plan)
    assert answers.shape == (statistic.size(problem),)
    return answers


@pytest.mark.parametrize(("statistic", "columns"), ALL, ids=NAMES)
class TestEach:
    def test_its_plan_spends_the_whole_privacy_budget(self, statistic: AnyStatistic, columns: Columns) -> None:
        release = plan(statistic, problem_of(columns), PRIVACY).release
        assert certify(release.plan, 1e-6)[0] <= 1.0
        assert release.plan.gdp() == pytest.approx(gauss_mu(1.0, 1e-6), rel=1e-6)

    def test_no_answer_moves_by_more_than_its_bound(self, statistic: AnyStatistic, columns: Columns) -> None:
        problem, X = problem_of(columns), rows_of(columns)
        X[7], far_row = 0.0, np.zeros(columns.d)
        X[7, columns.starts], far_row[columns.starts], X[7, -1], far_row[-1] = 1.0, 1.0, 1.0, 1.0
        numbers = [s for s, w in zip(columns.starts, columns.widths, strict=True) if w == 1]
        far_row[numbers] = columns.low
        block = [s for s, w in zip(columns.starts, columns.widths, strict=True) if w > 1]
        for start in block:
            far_row[start], far_row[start + 1] = 0.0, 1.0
        assert complaints(plan(statistic, problem, PRIVACY), X, np.zeros(N), (far_row, 0.0)) == []

    def test_it_needs_delta_and_declared_columns(self, statistic: AnyStatistic, columns: Columns) -> None:
        with pytest.raises(NeedsDelta, match="need delta"):
            plan(statistic, problem_of(columns), Privacy(1.0))
        with pytest.raises(Unsuitable, match="declared columns"):
            plan(statistic, replace(problem_of(columns), columns=None), PRIVACY)
        with pytest.raises(Unsuitable, match="no columns"):
            plan(statistic, problem_of(Columns(())), PRIVACY)


def test_counts_are_those_of_a_cross_table() -> None:
    X = rows_of(MIXED)
    answers = answers_of(Counts(bins=4), X, problem_of(MIXED)).reshape(4, 300, 4)
    exact = np.zeros((4, 300, 4))
    parts = [
        np.minimum((X[:, 0] + 1) * 2, 3).astype(int),
        X[:, 1:301].argmax(axis=1),
        np.minimum(X[:, 301] * 4, 3).astype(int),
    ]
    np.add.at(exact, tuple(parts), 1)
    assert answers == pytest.approx(exact, abs=8)
    data = inputs.of_arrays(X, np.zeros(N), problem_of(MIXED))
    assert (data.total(Cells(4)).reshape(exact.shape) == exact).all()


def test_means_and_covariances_are_those_of_the_columns() -> None:
    X = rows_of(LINE, 5000)
    X[:, 2] = np.abs(X[:, 0]) / 2 + X[:, 1] / 2
    problem = problem_of(LINE, 5000)
    assert answers_of(Means(), X, problem) == pytest.approx(X[:, :3].mean(axis=0), abs=0.005)
    answers = answers_of(Covariance(), X, problem)
    S = np.cov(X[:, :3].T, bias=True)
    upper = np.triu_indices(3)
    exact = S[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    assert answers[:3] == pytest.approx(X[:, :3].mean(axis=0), abs=0.005)
    assert answers[3:] == pytest.approx(exact, abs=0.01)


def test_groups_are_counted_and_described_as_a_loop_over_rows_does() -> None:
    X = rows_of(GROUPED)
    sums, squares = np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    counts, parts = np.zeros((3, 2)), [np.zeros((3, 2, size)) for size in (4, 300, 4)]
    for sex, ward, x, drug, y in zip(
        X[:, :3].argmax(1), X[:, 3:5].argmax(1), X[:, 5], X[:, 6:306].argmax(1), X[:, 306], strict=True
    ):
        if not -0.5 <= x <= 0 and drug not in (7, 9):
            u = np.array([x, 2 * y - 1])
            counts[sex, ward] += 1
            sums[:, sex, ward] += u
            squares[:, sex, ward] += u**2
            for part, at in zip(parts, (min(int(2 * x + 2), 3), drug, min(int(4 * y), 3)), strict=True):
                part[sex, ward, at] += 1
    data = inputs.of_arrays(X, np.zeros(N), problem_of(GROUPED))
    assert data.total(GroupCounts(TABLE1.groups, 0)).tolist() == counts.ravel().tolist()
    assert data.total(GroupCounts(TABLE1.groups, 4)).tolist() == np.concatenate([p.ravel() for p in parts]).tolist()
    moments = data.total(GroupMoments(TABLE1.groups))
    assert moments == pytest.approx(np.concatenate((sums, squares)).reshape(4, 6), abs=1e-9)
    answers = answers_of(TABLE1, X, problem_of(GROUPED))
    for actual, exact in zip(TABLE1.unpack(problem_of(GROUPED), answers)[:3], (counts, sums, squares), strict=True):
        assert actual.ravel() == pytest.approx(exact.ravel(), abs=8)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_the_distance_of_two_records_moments_attains_its_bound(p: int) -> None:
    """The pairs are in one group, in two groups, or one fails the conditions. Corners attain the bound."""
    rng = np.random.default_rng(1)
    u, v = (
        np.where(rng.random((20_000, p)) < 0.3, np.sign(rng.normal(size=(20_000, p))), rng.uniform(-1, 1, p))
        for _ in "uv"
    )
    u[0], v[0] = 1.0, -1.0
    first, second = (np.hstack((each, each**2)) for each in (u, v))
    within, across = (
        np.linalg.norm(first - second, axis=1),
        np.hypot(np.linalg.norm(first, axis=1), np.linalg.norm(second, axis=1)),
    )
    for distance in (within, across):
        assert distance.max() == pytest.approx(2 * count_bounds.group_moments(p))
    assert np.linalg.norm(first, axis=1).max() == pytest.approx(count_bounds.group_moments(p, "zero_out"))


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_persons_rows_in_many_groups_move_no_answer_by_more_than_its_bound(relation: Relation) -> None:
    k = 3
    problem = problem_of(GROUPED, unit=Unit("person", k), relation=relation)
    X, present = rows_of(GROUPED, N * k), np.random.default_rng(4).random(N * k) < 0.5
    mine, numbers = slice(7 * k, 8 * k), [5, 306, 307]
    base = np.zeros((k, GROUPED.d))
    base[:, [0, 3, 6, -1]], base[:, numbers] = 1.0, GROUPED.high
    spread, low = base.copy(), base.copy()
    spread[:, :3], spread[:, 6:9] = np.eye(3), np.eye(3)
    low[:, numbers] = GROUPED.low
    low[:, :3] = [0.0, 1.0, 0.0]
    X[mine], present[mine] = base, True
    absent = present.copy()
    absent[mine] = False
    neighbors = [(low, present), (spread, present), (low, absent)] if relation == "replace_one" else [(base, absent)]
    quote = plan(TABLE1, problem, PRIVACY)
    assert complaints_of_each(quote, X, np.zeros(N * k), [((row, 0.0), here) for row, here in neighbors], present) == []


@pytest.mark.parametrize(
    ("groups", "bins", "reason"),
    [
        (Groups(by=3, described=1), 4, "is a number"),
        (Groups(by=2, described=0), 4, "no column is described"),
        (Groups(by=2, described=9), 4, "must count features"),
        (Groups(by=-1), 4, "must count features"),
        (Groups(where=(CodeCondition(6, ()),)), 4, "names no feature"),
        (Groups(by=1), 257, "bins"),
    ],
)
def test_groups_that_do_not_fit_the_columns_are_refused(groups: Groups, bins: int, reason: str) -> None:
    with pytest.raises(Unsuitable, match=reason):
        plan(Table1(groups, bins), problem_of(GROUPED), PRIVACY)


def test_too_many_groups_are_refused() -> None:
    with pytest.raises(Unsuitable, match="128 groups"):
        plan(Table1(Groups(by=1)), problem_of(MIXED_GROUPS), PRIVACY)
    with pytest.raises(Unsuitable, match="2048 pairs"):
        plan(Table1(Groups(by=1)), problem_of(Columns((100, *[1] * 21))), PRIVACY)


@pytest.mark.parametrize("code", [0.25, 0.1, -1 / 3])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_stored_code_at_the_end_of_a_condition_is_inside(code: float, kind: Any) -> None:
    columns = Columns((1,))
    problem = problem_of(columns, 3)
    stored = Coded(np.array([[code], [code - 1e-3], [code + 1e-3]], dtype=kind), np.zeros((3, 0), dtype=np.uint8), (0,))
    data = Data.coded(stored, np.zeros(3), problem)
    for ranges, is_negated, expected in (
        (((code, 2.0),), False, 2.0),
        (((-2.0, code),), True, 1.0),
        (((code, code),), False, 1.0),
        (((code, code),), True, 2.0),
    ):
        assert data.total(GroupCounts(Groups(where=(CodeCondition(0, ranges, is_negated),)), 0)) == [expected]


@pytest.mark.parametrize("low", [0.0, -5e-324])
def test_moments_in_a_range_whose_half_underflows_are_finite(low: float) -> None:
    problem = problem_of(Columns((1,), ((low, low + 5e-324),)), 2)
    for second in (low, low + 5e-324):
        stored = Coded(np.array([[low + 5e-324], [second]]), np.zeros((2, 0), dtype=np.uint8), (0,))
        assert np.abs(Data.coded(stored, np.zeros(2), problem).total(GroupMoments(Groups()))).max() <= 2


def test_requests_that_cannot_be_met_are_refused() -> None:
    for statistic in (Quantiles(), Covariance()):
        with pytest.raises(Unsuitable, match="categories"):
            plan(statistic, problem_of(MIXED), PRIVACY)
    with pytest.raises(Unsuitable, match="cells"):
        plan(Counts(bins=1024), problem_of(MIXED), PRIVACY)
    for bins in (0, 1025, True):
        with pytest.raises(Unsuitable, match="bins"):
            plan(Counts(bins=bins), problem_of(LINE), PRIVACY)
    for shares in ((), (0.0,), (1.0,), (math.nan,)):
        with pytest.raises(Unsuitable, match="shares"):
            plan(Quantiles(shares=shares), problem_of(LINE), PRIVACY)
    many = Columns((1,) * 513)
    with pytest.raises(Unsuitable, match="512"):
        plan(Covariance(), problem_of(many), PRIVACY)


@pytest.mark.parametrize(
    ("statistic", "name", "mutant"),
    [
        (ALL[0], "cells", lambda *_: 0.5),
        (ALL[2], "cells", lambda *_: math.sqrt(2) / 2),
        (ALL[3], "products", lambda *_: 0.05),
        (ALL[4], "cells", lambda *_: 0.5),
        (ALL[4], "group_moments", lambda *_: 1.0),
    ],
    ids=[
        "a cell is left or entered",
        "one column alone is counted",
        "products of a narrower column",
        "a group is left or entered",
        "one column alone is added up",
    ],
)
def test_a_forgotten_sensitivity_is_caught(
    statistic: tuple[AnyStatistic, Columns], name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, columns = statistic
    X = rows_of(columns)
    far_row = X[7].copy()
    numbers = [s for s, w in zip(columns.starts, columns.widths, strict=True) if w == 1]
    X[7, numbers], far_row[numbers] = columns.high, columns.low
    quote = plan(method, problem_of(columns), PRIVACY)
    assert complaints(quote, X, np.zeros(N), (far_row, 0.0)) == []
    with monkeypatch.context() as patch:
        patch.setattr(count_bounds, name, mutant)
        assert complaints(quote, X, np.zeros(N), (far_row, 0.0)) != []


def test_products_of_two_records_differ_by_their_bound() -> None:
    """Corners of a box, and orthogonal ones of one column each, attain the bound."""
    rng = np.random.default_rng(1)
    for p in (1, 2, 5):
        columns = Columns((1,) * p)
        center = rng.uniform(-0.5, 0.5, p) if p > 1 else np.zeros(1)
        bound = 2 * count_bounds.products(columns, center)
        x, y = (np.sign(rng.normal(size=(4000, p))) - center for _ in range(2))
        x[0] *= 0.0
        moved = np.linalg.norm(x[:, :, None] * x[:, None] - y[:, :, None] * y[:, None], axis=(1, 2))
        assert moved.max() <= bound * (1 + 1e-12)
    assert count_bounds.products(Columns((1,)), np.zeros(1)) == 0.5
    whole = count_bounds.products(Columns((1, 1)), np.zeros(2))
    ends = np.array([[1.0, 1.0], [1.0, -1.0]])
    assert np.linalg.norm(np.outer(*ends[[0, 0]]) - np.outer(*ends[[1, 1]])) == pytest.approx(2 * whole)


@pytest.mark.parametrize(("statistic", "columns"), ALL, ids=NAMES)
def test_persons_rows_weigh_less_and_their_number_is_noisy(statistic: AnyStatistic, columns: Columns) -> None:
    """Half of the slots are empty and the noise is small. Means are over rows, and a row counts 1/k."""
    n, k = 2000, 2
    problem = problem_of(columns, n, unit=Unit("person", k))
    X, here = rows_of(columns, n * k), np.random.default_rng(4).random(n * k) < 0.5
    quote = plan(statistic, problem, SURE)
    data = inputs.of_arrays(X, np.zeros(n * k), problem, here)
    answers, *_ = run_quote(quote, data, 3)
    rows = replace(problem, n=int(here.sum()), unit=Unit())
    alone = answers_of(statistic, X[here], rows)
    if isinstance(statistic, Counts | Quantiles | Table1):
        size = statistic.size(rows)
        assert answers[:size] == pytest.approx(alone[:size] / k, abs=12)
    else:
        assert answers[:-1] == pytest.approx(alone, abs=0.03)
    if not isinstance(statistic, Counts | Table1):
        assert answers[-1] == pytest.approx(here.mean(), abs=0.02)


def test_a_record_beyond_its_declaration_is_one_fixed_row_in_every_count() -> None:
    problem = problem_of(Columns((1, 3), ((0.0, 0.5),)), 3)
    stored = Coded(np.array([[0.3], [0.75], [0.5]]), np.array([[200], [1], [2]], dtype=np.uint8), (0, 0))
    data = Data.coded(stored, np.zeros(3), problem)
    assert data.total(Cells(2)).reshape(2, 3).tolist() == [[2, 0, 0], [0, 0, 1]]
    assert data.total(Products(np.zeros(4))) == pytest.approx([0.5**2])


@pytest.mark.parametrize(
    "ask",
    [
        lambda oracle: oracle.cells("means", 1),
        lambda oracle: oracle.moments.means("products"),
        lambda oracle: oracle.products("products", np.full(3, math.nan)),
    ],
    ids=["a moment of the counting oracle", "products of the standardised oracle", "about no center"],
)
def test_queries_of_another_oracle_are_refused(ask: Any) -> None:
    class Asks(Covariance):
        def run(self, oracle: Counting, problem: Problem) -> Vector:  # noqa: ARG002
            return np.asarray(ask(oracle))

    with pytest.raises((OutOfPlan, Unsuitable)):
        answers_of(Asks(), rows_of(LINE), problem_of(LINE))


def test_products_are_about_means_within_their_ranges() -> None:
    """Noisy means stay within the ranges, because the plan's bound of the products is the largest over the ranges."""
    means = answers_of(Covariance(), rows_of(LINE, 2), problem_of(LINE, 2), Privacy(0.01, 1e-6))[:3]
    assert (LINE.low <= means).all()
    assert (means <= LINE.high).all()
