"""Table 1: groups described, with intervals for noise and sampling, and their widths in the quote."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.noise import Noise
from app.http.errors import ApiError
from app.results import statistics, table1
from app.results.table1 import Precision, SampledEstimate
from app.results.widths import widths
from app.sources.spec import JobSpec
from app.wire import StatisticRequest
from purse.client.statistics import condition
from purse.wire.datasets import DatasetSpec
from purse.wire.models import ReleasedMoments
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval
from purse.wire.table1 import Group, Table1Result
from solvers.data_access import inputs
from solvers.solve import run
from tests.support.calculations import price
from tests.support.quotes import SETTINGS, dataset
from tests.support.seeded import SeededBits

N = 6000
COLUMNS: list[dict[str, Any]] = [
    {"name": "ward", "type": "category", "categories": ["a", "b", "1"]},
    {"name": "sex", "type": "category", "categories": ["f", "m"]},
    {"name": "age", "type": "number", "lower": 20, "upper": 60},
    {"name": "paid", "type": "number", "lower": 0, "upper": 400, "origin": 0, "scale": 500},
    {"name": "day", "type": "number", "lower": "2020-01-01", "upper": "2020-12-31", "date": "days"},
]
RNG = np.random.default_rng(8)
WARD = RNG.choice(3, N, p=[0.7, 0.29, 0.01])
SEX = RNG.integers(0, 2, N)
AGE = np.clip(RNG.normal(36 + 4 * WARD, 6), 20, 60)
PAID = np.minimum(RNG.exponential(60, N), 400)
DAY = RNG.uniform(-1, 1, N)
X = np.column_stack((np.eye(4)[WARD], np.eye(3)[SEX], (AGE - 40) / 20, PAID / 500, DAY, np.ones(N)))
STARTS = {"ward": slice(0, 4), "sex": slice(4, 7), "age": slice(7, 8), "paid": slice(8, 9), "day": slice(9, 10)}


def spec_of(epsilon: float = 1.0, n: int = N, unit: Any = None, **fields: Any) -> JobSpec:
    row = dataset(n)
    declared = {"name": "d", "columns": COLUMNS, "budget": {"epsilon": 100.0, "delta": 1e-4}}
    declared |= {} if unit is None else {"unit": unit}
    row = replace(row, spec=DatasetSpec.model_validate_json(json.dumps(declared)))
    privacy = {"epsilon": epsilon, "delta": 1e-6}
    request = {"dataset": "ds_1", "by": ["ward"], "method": {"name": "table1"}, "privacy": privacy} | fields
    return price(row, StatisticRequest.model_validate_json(json.dumps(request)), SETTINGS).spec


def released(spec: JobSpec, seed: int = 1, present: Any = None) -> Table1Result:
    rows = np.column_stack([X[:, STARTS[column.name]] for column in spec.design.features] + [X[:, -1:]])
    data = inputs.of_arrays(rows, np.zeros(N), spec.problem, present)
    answers, _, _ = run(spec.method, spec.problem, data, spec.release_plan, Noise(SeededBits(seed)))
    result = statistics.result(spec, answers)
    assert isinstance(result, Table1Result)
    return result


def by_name(result: Table1Result) -> dict[str, Group]:
    return {group.name: group for group in result.groups}


def test_groups_are_counted_and_described_in_the_files_units() -> None:
    result = by_name(released(spec_of(90.0, columns=["age", "sex", "paid"])))
    assert list(result) == ["a", "b", "1", "(other)"]
    for ward, group in enumerate(list(result.values())[:3]):
        own = np.equal(WARD, ward)
        assert group.count == pytest.approx(own.sum(), abs=6)
        for number, values in zip(group.numbers, (AGE[own], PAID[own]), strict=True):
            scale = np.ptp(values) / own.sum()
            assert number.mean is not None
            assert number.std is not None
            assert number.quantiles is not None
            assert number.mean.value == pytest.approx(values.mean(), abs=6 * scale)
            assert number.std.value == pytest.approx(values.std(), rel=0.2, abs=6 * scale)
            assert number.sum.value == pytest.approx(values.sum(), rel=0.05)
            for point in number.quantiles:
                assert point.at.low <= np.quantile(values, point.share) + 2 <= point.at.high + 4
        (sex,) = group.categories
        assert sex.counts[:2] == pytest.approx(np.bincount(SEX[own]), abs=6)
        assert sex.shares is not None
        assert sex.shares[0].value == pytest.approx((SEX[own] == 0).mean(), abs=0.2)
    assert result["a"].numbers[0].difference is None
    difference = result["b"].numbers[0].difference
    assert difference is not None
    assert difference.value == pytest.approx(AGE[WARD == 1].mean() - AGE[WARD == 0].mean(), abs=0.2)


def test_two_columns_make_a_group_of_each_pair() -> None:
    result = by_name(released(spec_of(90.0, by=["ward", "sex"], columns=["age"])))
    assert list(result)[:4] == ["a, f", "a, m", "a, (other)", "b, f"]
    assert result["b, m"].count == pytest.approx(((WARD == 1) & (SEX == 1)).sum(), abs=6)


@pytest.mark.parametrize(
    ("where", "accepted"),
    [
        ([{"column": "age", "op": ">=", "value": 45}], AGE >= 45),
        (
            [{"column": "age", "op": "<", "value": 45}, {"column": "sex", "op": "==", "value": "f"}],
            (AGE < 45) & (SEX == 0),
        ),
        (
            [{"column": "sex", "op": "!=", "value": "f"}, {"column": "paid", "op": "<=", "value": 10.5}],
            (SEX == 1) & (PAID <= 10.5),
        ),
        ([{"column": "ward", "op": "in", "value": ["b", 1]}], WARD > 0),
        ([{"column": "day", "op": ">", "value": "2020-07-01"}], DAY > 2 * 182 / 365 - 1),
    ],
)
def test_only_rows_that_satisfy_the_conditions_count(where: list[Any], accepted: Any) -> None:
    spec = spec_of(90.0, columns=["age"], where=where)
    assert JobSpec.model_validate_json(spec.to_json()) == spec
    result = released(spec)
    exact = np.bincount(WARD[accepted], minlength=4)
    assert [group.count for group in result.groups] == pytest.approx(exact, abs=6)
    assert [each.model_dump() for each in result.where] == where


AGES = [{"column": "age", "op": op, "value": 30} for op in (">=", "!=")]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"by": None}, "body.by"),
        ({"by": ["age"]}, "body.by"),
        ({"by": ["nothing"]}, "body.by.0"),
        ({"by": ["sex", "sex"]}, "body.by"),
        ({"columns": ["ward"]}, "body.columns"),
        ({"columns": ["nothing"]}, "body.columns.0"),
        ({"method": {"name": "counts"}}, "body.by"),
        ({"method": {"name": "table1", "groups": {"by": 1}}}, "body.method.groups"),
        ({"where": [*AGES, {"column": "nothing", "op": "==", "value": 1}]}, "body.where.2.column"),
        ({"where": [{"column": "age", "op": ">", "value": 61}]}, "body.where.0.value"),
        ({"where": [{"column": "age", "op": ">", "value": "old"}]}, "body.where.0.value"),
        ({"where": [{"column": "age", "op": "in", "value": 30}]}, "body.where.0.value"),
        ({"where": [{"column": "age", "op": "==", "value": [30]}]}, "body.where.0.value"),
        ({"where": [{"column": "sex", "op": "<", "value": "m"}]}, "body.where.0.op"),
        ({"where": [{"column": "sex", "op": "==", "value": "x"}]}, "body.where.0.value"),
    ],
)
def test_a_request_that_does_not_fit_the_declaration_names_its_field(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(ApiError) as raised:
        spec_of(**fields)
    assert [violation.where for violation in raised.value.violations or ()] == [where]


def test_the_released_count_alone_decides_whether_a_group_is_resolved() -> None:
    result = released(spec_of(1.0, columns=["age", "sex"]))
    for group in result.groups:
        assert group.resolved == (group.count >= result.least_rows) == (group.reason is None)
    small_group = by_name(result)["(other)"]
    assert not small_group.resolved
    assert (small_group.numbers[0].mean, small_group.numbers[0].quantiles, small_group.categories[0].shares) == (
        None,
        None,
        None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("cap", [1, 3])
def test_intervals_cover_noise_and_sampling(cap: int) -> None:
    """Intervals cover at least 95 % of 200 samples, less four standard deviations. Seeds are fixed.

    All rows of a person are equal, which is the worst case.
    """
    size, covered = N // cap, dict.fromkeys(("mean", "noise", "difference", "share"), 0)
    unit = None if cap == 1 else {"column": "who", "max_rows": cap}
    spec = spec_of(2.0, n=size, columns=["age", "sex"], unit=unit)
    rng, repeats = np.random.default_rng(5), 200
    for seed in range(repeats):
        people = np.repeat(rng.integers(0, N, size), cap)
        rows = np.column_stack([X[people][:, STARTS[column.name]] for column in spec.design.features] + [X[:, -1:]])
        present = None if cap == 1 else np.ones(N, dtype=bool)
        data = inputs.of_arrays(rows, np.zeros(N), spec.problem, present)
        answers, _, _ = run(spec.method, spec.problem, data, spec.release_plan, Noise(SeededBits(seed)))
        group = by_name(statistics.result(spec, answers))["b"]  # type: ignore[arg-type]
        number, share = group.numbers[0], group.categories[0].shares
        assert number.mean is not None
        assert number.difference is not None
        assert share is not None
        sample, ward = AGE[people], WARD[people]
        truth = AGE[WARD == 1].mean()
        covered["mean"] += number.mean.low <= truth <= number.mean.high
        covered["noise"] += number.mean.noise_low <= sample[ward == 1].mean() <= number.mean.noise_high
        covered["difference"] += number.difference.low <= truth - AGE[WARD == 0].mean() <= number.difference.high
        covered["share"] += share[0].low <= (SEX[WARD == 1] == 0).mean() <= share[0].high
    lower_limit = repeats * 0.95 - 4 * (repeats * 0.95 * 0.05) ** 0.5
    assert min(covered.values()) >= lower_limit, covered


def test_the_noise_of_persons_has_the_factor_of_the_cap() -> None:
    spec = spec_of(90.0, n=N // 3, columns=["age"], unit={"column": "who", "max_rows": 3})
    rows = Precision.of(spec_of(90.0, columns=["age"]))
    persons = Precision.of(spec)
    assert (persons.count, persons.moment, persons.part) == pytest.approx(
        (3 * rows.count, 3 * rows.moment, 3 * rows.part)
    )
    present = RNG.random(N) < 0.5
    assert released(spec, present=present).groups[0].count == pytest.approx(((WARD == 0) & present).sum(), abs=18)


def test_the_quoted_width_of_a_count_is_the_released_one_and_no_mean_is_wider_than_quoted() -> None:
    spec = spec_of(2.0, columns=["age", "sex"])
    quoted = {(each.answer, each.column): each for each in widths(spec) or ()}
    result = released(spec)
    assert quoted["count", None].basis == "exact"
    assert quoted["count", None].width == pytest.approx(2 * result.within)
    for group in filter(lambda group: group.resolved, result.groups):
        mean, shares = group.numbers[0].mean, group.categories[0].shares
        assert mean is not None
        assert shares is not None
        assert mean.high - mean.low <= quoted["mean", "age"].width
        assert max(share.high - share.low for share in shares) <= quoted["share", "sex"].width
    assert (quoted["mean", "age"].basis, quoted["mean in groups of equal size", "age"].basis) == (
        "worst_case",
        "typical",
    )


def test_the_largest_width_is_attained_by_extreme_groups() -> None:
    """No group with at least `least_rows` rows has a wider interval, whatever its sums are."""
    spec = spec_of(1.0, columns=["age", "sex"])
    quoted = {(each.answer, each.column): each.width for each in widths(spec) or ()}
    precision, rng = Precision.of(spec), np.random.default_rng(3)
    for _ in range(2000):
        rows = precision.least_rows * rng.uniform(1, 3)
        total, squares = rng.uniform(-1.2, 1.2) * rows, rng.uniform(-0.2, 1.2) * rows
        mean = precision.mean(total, squares, rows, precision.moment).measured(20, 60, 40, 20)
        share = precision.mean(abs(total), abs(total), rows, precision.part).measured(0, 1)
        assert mean.high - mean.low <= quoted["mean", "age"] * (1 + 1e-9)
        assert share.high - share.low <= quoted["share", "sex"] * (1 + 1e-9)


def test_the_width_of_each_group_follows_from_a_released_profile() -> None:
    spec = spec_of(2.0, columns=["age"])
    ward, age = spec.design.features
    at = Interval(value=38.0, low=37.0, high=39.0)
    moments = ReleasedMoments(center=[0.0], variances=[0.1], noise=[0.1])
    counts = np.bincount(WARD, minlength=4).astype(float).tolist()
    profiles = [
        ColumnProfile(column=ward, counts=counts, counts_noise_std=1.0, moments=moments),
        ColumnProfile(
            column=age,
            counts=[1.0],
            counts_noise_std=1.0,
            edges=[20, 60],
            mean=at,
            moments=moments,
            std=Interval(value=float(AGE.std()), low=6.0, high=7.0),
        ),
    ]
    quoted = {each.answer: each for each in widths(spec, DatasetProfile.model_construct(columns=profiles)) or ()}
    mean = by_name(released(spec))["b"].numbers[0].mean
    assert mean is not None
    assert quoted["mean in b"].basis == "profile"
    assert quoted["mean in b"].width == pytest.approx(mean.high - mean.low, rel=0.15)
    assert quoted["mean in (other)"].width == 40


def test_a_difference_has_the_errors_of_both() -> None:
    difference = SampledEstimate(2.0, 3.0, 1.0) - SampledEstimate(0.5, 4.0, 1.0)
    assert (difference.value, difference.noise, difference.sampling**2) == pytest.approx((1.5, 5.0, 2.0))
    measured = difference.measured(-100, 100)
    assert measured.noise_high - measured.value == pytest.approx(1.96 * 5, rel=1e-3)
    assert measured.high - measured.value == pytest.approx(1.96 * 27**0.5, rel=1e-3)


def test_each_two_groups_are_compared() -> None:
    result = released(spec_of(20.0, columns=["age", "sex"]))
    a, b, c, remaining = result.groups
    assert [a.resolved, b.resolved, c.resolved, remaining.resolved] == [True, True, True, False]
    assert {each.groups for each in result.comparisons} == {(0, 1), (0, 2), (1, 2)}
    by_pair = {(each.groups, each.column, each.category): each.difference for each in result.comparisons}
    assert by_pair[(0, 2), "age", None] == c.numbers[0].difference
    assert [by_pair[(0, 1), "sex", category] for category in ("f", "m", "(other)")] == b.categories[0].differences
    pair = by_pair[(1, 2), "age", None]
    first, second = b.numbers[0].mean, c.numbers[0].mean
    assert first is not None
    assert second is not None
    assert pair.value == pytest.approx(second.value - first.value)
    squares = [(each.high - each.value) ** 2 for each in (first, second)]
    assert pair.high - pair.value == pytest.approx(sum(squares) ** 0.5)
    assert abs(pair.value - (AGE[WARD == 2].mean() - AGE[WARD == 1].mean())) < 2 * (pair.high - pair.value)


def test_many_groups_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(20.0, by=["ward", "sex"], columns=["age"])
    assert (len(released(spec).groups), len(released(spec).comparisons)) == (12, 15)
    monkeypatch.setattr(table1, "MOST_COMPARED_GROUPS", 11)
    assert released(spec).comparisons == []


def test_groups_are_not_compared_if_that_makes_too_many_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(20.0, columns=["age", "sex"])  # 6 pairs of 4 groups, a mean and 3 shares
    monkeypatch.setattr(table1, "MOST_COMPARISONS", 24)
    assert released(spec).comparisons
    monkeypatch.setattr(table1, "MOST_COMPARISONS", 23)
    assert released(spec).comparisons == []


def test_a_table_has_a_column_for_each_group_and_a_row_for_each_value() -> None:
    result = released(spec_of(20.0, columns=["age", "sex", "day"], where=[{"column": "age", "op": ">=", "value": 30}]))
    described, differences, comparisons, *bars = result.lay_out({"day": "days"})
    assert "age >= 30" in str(described.caption)
    assert list(described.headings) == ["", "a", "b", "1", "(other)"]
    labels = [row[0] for row in described.rows]
    assert labels == [
        "rows",
        *("age, mean", "age, std", "age, quantile 0.25", "age, median", "age, quantile 0.75", "age, sum"),
        *("day, mean", "day, std", "day, quantile 0.25", "day, median", "day, quantile 0.75"),
        *("sex = f", "sex = m", "sex = (other)"),
    ]
    assert [row[0] for row in differences.rows] == ["age", "day", "sex = f", "sex = m", "sex = (other)"]
    assert {tuple(row[1:3]) for row in comparisons.rows} == {("b", "1")}
    assert {row[0] for row in comparisons.rows} == {row[0] for row in differences.rows}
    assert [each.caption for each in bars] == ["Mean of age", "Mean of day"]
    assert {("rows", "a"), ("age, mean", "b"), ("sex = f", "a")} <= {row[:2] for row in described.lines.rows}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("age >= 65", ("age", ">=", 65)),
        ("hours per week<5.5", ("hours per week", "<", 5.5)),
        ("ward in a, b", ("ward", "in", ["a", "b"])),
        ('ward == "1"', ("ward", "==", "1")),
        ("sex != not known", ("sex", "!=", "not known")),
        ("ward in NaN, -Infinity, 1e999", ("ward", "in", ["NaN", "-Infinity", "1e999"])),
        (f"ward == {10**400}", ("ward", "==", str(10**400))),
        (f"ward == {'[' * 10**5}", ("ward", "==", "[" * 10**5)),
    ],
    ids=[str(index) for index in range(8)],
)
def test_a_condition_is_read_from_text(text: str, read: tuple[str, str, Any]) -> None:
    assert tuple(condition(text).values()) == read


@pytest.mark.parametrize("text", ["age", "age >=", ">= 65", "age => 65", "age = 65", ""])
def test_a_text_without_a_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="condition"):
        condition(text)
