"""What is told of a profile: numbers in their units, quantiles, intervals that hold the truth as often as said."""

import json
import math
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from accounting.noise import Noise
from app.datasets.profiles import PublishedProfile
from app.http.errors import ApiError
from app.jobs import release
from app.jobs.store import JobRow
from app.results import profiles, statistics
from app.results.intervals import WIDE, Rows, quantile, stds_of
from app.results.widths import widths
from app.sources.spec import JobSpec
from app.wire import StatisticRequest
from purse.wire.datasets import DatasetSpec
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import ColumnProfile, DatasetProfile
from solvers.data_access import inputs
from solvers.preparation import ByProfile
from solvers.solve import run
from solvers.statistics import Profile
from tests.support.ages_and_pay import AGE, COLUMNS, PAID, N
from tests.support.calculations import price
from tests.support.quotes import SETTINGS, dataset, priced
from tests.support.seeded import SeededBits


def spec_of(epsilon: float = 0.5, bins: int = 20) -> JobSpec:
    row = dataset(N)
    declared = {"name": "d", "columns": COLUMNS, "budget": {"epsilon": 3.0, "delta": 1e-6}}
    row = replace(row, spec=DatasetSpec.model_validate_json(json.dumps(declared)))
    request = {"dataset": "ds_1", "method": {"name": "profile", "bins": bins}, "privacy": {"epsilon": epsilon}}
    return price(row, StatisticRequest.model_validate_json(json.dumps(request)), SETTINGS).spec


def released(spec: JobSpec, rng: np.random.Generator | None = None) -> list[ColumnProfile]:
    """What is told of AGE, PAID and as many f as m; without noise, or with the noise that was planned."""
    method, problem = spec.method, spec.problem
    assert isinstance(method, Profile)
    coded = [(AGE - 40) / 20, PAID / 500]
    stds = {
        q.name: q.mechanism.std(q.noise_multiplier, *method.bounds(problem)[q.name])
        for q in spec.release_plan.plan.queries
    }
    draw = rng.normal if rng is not None else lambda size: np.zeros(size)
    exact = np.array([coded[0].mean(), coded[1].mean(), 0.5, 0.5, 0.0])
    center = np.clip(exact + stds["means"] * draw(size=5), [-1, 0, 0, 0, 0], 1)
    v = center * (1 - center)
    v[:2] = [((x - m) ** 2).mean() for x, m in zip(coded, center[:2], strict=True)] + stds["variances"] * draw(size=2)
    noise = np.full(5, stds["means"])
    noise[:2] = stds["variances"]
    ranges = ((-1, 1), (0, 1))
    counts = np.concatenate([np.histogram(x, method.bins, ends)[0] for x, ends in zip(coded, ranges, strict=True)])
    counts = counts + stds["histograms"] * draw(size=len(counts))
    return profiles.columns(spec, np.concatenate((center, np.clip(v, 0, 4), noise, counts)))


def test_numbers_are_in_their_own_units() -> None:
    age, paid, sex = released(spec_of())
    assert age.mean is not None and age.std is not None and age.edges is not None  # noqa: PT018
    assert paid.mean is not None and paid.std is not None and paid.edges is not None  # noqa: PT018
    assert age.edges == pytest.approx(np.linspace(20, 60, 21))
    assert paid.edges == pytest.approx(np.linspace(0, 500, 21))  # codes end at the scale
    assert (age.mean.value, age.std.value) == pytest.approx((AGE.mean(), AGE.std()))
    assert (paid.mean.value, paid.std.value) == pytest.approx((PAID.mean(), PAID.std()))
    assert sex.counts == pytest.approx([N / 2, N / 2, 0])
    for column, values, step in ((age, AGE, 2), (paid, PAID, 25)):
        assert column.quantiles is not None
        for each in column.quantiles:
            exact = np.quantile(values, each.share)
            assert exact <= each.at.value <= exact + step
            assert each.at.low <= exact <= each.at.high


@pytest.mark.slow
def test_intervals_contain_the_truth_as_often_as_stated() -> None:
    """At least 95 % of 120 releases contain the truth, less four standard deviations. Noise matters at this epsilon."""
    spec, rng, runs = spec_of(0.05), np.random.default_rng(5), 120
    containing: dict[str, int] = {}
    for _ in range(runs):
        for column, values in zip(released(spec, rng), (AGE, PAID), strict=False):
            assert column.mean is not None
            assert column.quantiles is not None
            intervals = {"mean": (column.mean, values.mean())}
            intervals |= {f"{q.share}": (q.at, np.quantile(values, q.share)) for q in column.quantiles}
            for name, (interval, truth) in intervals.items():
                key = f"{column.column.name} {name}"
                containing[key] = containing.get(key, 0) + (interval.low <= truth <= interval.high)
                assert interval.low <= interval.value <= interval.high
    assert min(containing.values()) >= 0.95 * runs - 4 * (0.95 * 0.05 * runs) ** 0.5, containing


@pytest.mark.slow
def test_intervals_of_persons_contain_the_truth_as_often_as_stated_despite_a_noisy_row_count() -> None:
    """Half of 3,000 persons' places have a row; counts are of rows."""
    n, k, runs = 3000, 2, 100
    row = dataset(n)
    declared = {"name": "d", "columns": COLUMNS[:2], "budget": {"epsilon": 3.0, "delta": 1e-6}}
    declared["unit"] = {"column": "who", "max_rows": k}
    row = replace(row, spec=DatasetSpec.model_validate_json(json.dumps(declared)))
    request = {"dataset": "ds_1", "method": {"name": "profile", "bins": 20}, "privacy": {"epsilon": 0.2}}
    spec = price(row, StatisticRequest.model_validate_json(json.dumps(request)), SETTINGS).spec
    assert isinstance(spec.method, Profile)
    present, places = np.random.default_rng(11).random(n * k) < 0.5, slice(n * k)
    X = np.column_stack(((AGE[places] - 40) / 20, PAID[places] / 500, np.ones(n * k)))
    data, containing = inputs.of_arrays(X, np.zeros(n * k), spec.problem, present), Counter[str]()
    for seed in range(runs):
        noise = Noise(SeededBits(seed))
        answers, *_ = run(spec.method, spec.problem, data, spec.release_plan, noise)
        for column, values in zip(profiles.columns(spec, answers), (AGE[places], PAID[places]), strict=True):
            assert column.mean is not None
            assert column.quantiles is not None
            own = values[present]
            assert abs(sum(column.counts) - len(own)) < 6 * column.counts_noise_std * math.sqrt(len(column.counts))
            intervals = {"mean": (column.mean, own.mean())} | {
                f"{q.share}": (q.at, np.quantile(own, q.share)) for q in column.quantiles
            }
            for name, (interval, truth) in intervals.items():
                containing[f"{column.column.name} {name}"] += interval.low <= truth <= interval.high
    assert min(containing.values()) >= 0.95 * runs - 4 * (0.95 * 0.05 * runs) ** 0.5, containing


def test_a_profile_of_another_declaration_or_relation_is_refused() -> None:
    spec = spec_of()
    mine = dataset(N)
    statement = PrivacyStatement(
        epsilon=1.0, delta=1e-6, neighbors="replace_one", rows=N, event={}, accountant="a", accountant_version="1"
    )
    own = price(
        mine,
        StatisticRequest.model_validate_json(
            json.dumps({"dataset": "ds_1", "method": {"name": "profile"}, "privacy": {"epsilon": 0.5}})
        ),
        SETTINGS,
    ).spec
    assert isinstance(own.method, Profile)
    size = own.problem.d - 1
    answers = np.concatenate((np.zeros(size), np.ones(size), np.ones(size), np.zeros(32)))
    columns = profiles.columns(own, answers)
    document = DatasetProfile(kind="profile", dataset="ds_1", columns=columns, job="job_1", privacy=statement)

    def used(changed: DatasetProfile) -> ByProfile:
        preparation = priced(
            mine, profile=PublishedProfile(changed, "0" * 64), preparation={"name": "profile"}
        ).spec.preparation
        assert isinstance(preparation, ByProfile)
        return preparation

    assert len(used(document).moments.center) == size - 3  # income's is the target
    assert (used(document).job, used(document).sha256) == ("job_1", "0" * 64)
    other_spec = released(spec)
    wider = columns[0].column.model_copy(update={"upper": 91.0})
    renamed = [columns[0].model_copy(update={"column": wider}), *columns[1:]]
    for changes, expected in (
        ({"dataset": "ds_2"}, "another dataset"),
        ({"privacy": statement.model_copy(update={"rows": N - 1})}, "another dataset"),
        ({"privacy": statement.model_copy(update={"neighbors": "zero_out"})}, "other neighbors"),
        ({"columns": renamed}, "another declaration"),
        ({"columns": other_spec}, "another declaration"),
        ({"columns": columns[1:]}, "another declaration"),
    ):
        with pytest.raises(ApiError) as raised:
            used(document.model_copy(update=changes))
        violations = raised.value.details().violations
        assert violations is not None
        assert expected in violations[0].what


def test_an_output_that_is_not_a_profile_of_the_table_is_not_released() -> None:
    spec, job = spec_of(bins=4), Mock(spec=JobRow, id="job_1", dataset_id="ds_1")
    good = (*[0.0] * 5, *[1.0] * 5, *[0.5] * 5, *[0.0] * 8)  # centers, variances, their noise, counts

    def document(coefficients: tuple[float, ...]) -> str:
        return release.document(job, release.Result(spec, coefficients, spec.release_plan.plan))

    assert DatasetProfile.model_validate_json(document(good)).job == "job_1"
    for wrong in (good[:-1], (*good, 0.0), ()):
        with pytest.raises(release.Unreleasable, match="another length"):
            document(wrong)
    for wrong in ((*good[:5], -1.0, *good[6:]), (*good[:10], -1.0, *good[11:])):  # a variance, and a noise, below 0
        with pytest.raises(release.Unreleasable, match="no moments"):
            document(wrong)


def test_quoted_widths_of_a_profile_are_the_released_ones_if_exact() -> None:
    spec = spec_of()
    age, paid, sex = released(spec)
    quoted = {(each.answer, each.column): each for each in widths(spec) or ()}
    for column in (age, paid, sex):
        width = quoted["count", column.column.name]
        assert width.basis == "exact"
        assert width.width == pytest.approx(2 * WIDE * column.counts_noise_std)
    for column in (age, paid):
        assert column.mean is not None
        width = quoted["mean", column.column.name]
        assert width.basis == "exact"
        assert width.width == pytest.approx(column.mean.high - column.mean.low)
    typical = {key[0] for key, width in quoted.items() if width.basis == "typical"}
    assert typical == {"std", *(f"quantile {share:g}" for share in (0.05, 0.25, 0.5, 0.75, 0.95))}


def test_the_quoted_width_of_a_standard_deviation_is_that_of_evenly_spread_values() -> None:
    spec = spec_of(5.0)
    (quoted,) = [each for each in widths(spec) or () if (each.answer, each.column) == ("std", "age")]
    stds = stds_of(spec.method, spec.problem, spec.release_plan.plan)
    assert 0 < quoted.width < 2 * WIDE * 20 * stds["variances"] / (2 * math.sqrt(1 / 3))


def test_quoted_widths_of_quantiles_use_a_released_profile_of_the_same_declaration() -> None:
    age = released(spec_of(bins=40))[0]
    row = dataset(N)
    declared = {"name": "d", "columns": COLUMNS, "budget": {"epsilon": 3.0, "delta": 1e-6}}
    row = replace(row, spec=DatasetSpec.model_validate_json(json.dumps(declared)))
    method = {"name": "quantiles", "bins": 40, "shares": [0.05, 0.5]}
    request = {"dataset": "ds_1", "columns": ["age"], "method": method, "privacy": {"epsilon": 0.5}}
    spec = price(row, StatisticRequest.model_validate_json(json.dumps(request)), SETTINGS).spec
    counts = np.maximum(age.counts, 0)
    counts *= N / counts.sum()
    std = stds_of(spec.method, spec.problem, spec.release_plan.plan)["histograms"]
    quoted, even = statistics.widths(spec, {"age": age}), statistics.widths(spec)
    for share, each in zip((0.05, 0.5), quoted, strict=True):
        exact = quantile(share, counts, np.linspace(20, 60, 41), std, Rows(N, 0.0)).at
        assert each.basis == "profile"
        assert each.width == pytest.approx(exact.high - exact.low)
    assert [each.width for each in quoted] != [each.width for each in even]
    widened = age.model_copy(update={"column": age.column.model_copy(update={"upper": 70.0})})
    assert statistics.widths(spec, {"age": widened}) == even, "a profile of another declaration is not used"
