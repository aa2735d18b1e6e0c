"""What is told of statistics: numbers in their units, intervals that hold the truth as often as they say."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.noise import Noise
from app.http.errors import ApiError
from app.results import statistics
from app.results.intervals import Rows, quantile, stds_of
from app.results.widths import widths as interval_widths
from app.sources.design import StatisticDesign
from app.sources.spec import JobSpec
from app.wire import StatisticRequest
from purse.wire.datasets import DatasetSpec
from purse.wire.jobs import IntervalWidth
from purse.wire.statistics import CountsResult, CovarianceResult, MeansResult, QuantilesResult
from solvers.data_access import inputs
from solvers.data_access.rows import Coded
from solvers.solve import run
from tests.support.ages_and_pay import AGE, COLUMNS, PAID
from tests.support.calculations import price
from tests.support.quotes import SETTINGS, dataset
from tests.support.seeded import SeededBits

N = 4000
RNG = np.random.default_rng(8)
SEX = RNG.integers(0, 2, N)
VALUES = {"age": AGE[:N], "paid": PAID[:N] / 2 + 5 * AGE[:N], "sex": SEX}
CODED = {"age": (VALUES["age"] - 40) / 20, "paid": VALUES["paid"] / 500}


def spec_of(method: dict[str, Any], columns: list[str], epsilon: float = 0.5, n: int = N, **declared: Any) -> JobSpec:
    row = dataset(n)
    dataset_spec = {"name": "d", "columns": COLUMNS, "budget": {"epsilon": 100.0, "delta": 1e-4}} | declared
    row = replace(row, spec=DatasetSpec.model_validate_json(json.dumps(dataset_spec)))
    request = {"dataset": "ds_1", "columns": columns, "method": method, "privacy": {"epsilon": epsilon, "delta": 1e-6}}
    return price(row, StatisticRequest.model_validate_json(json.dumps(request)), SETTINGS).spec


def result_of(spec: JobSpec, columns: list[str], seed: int = 1, present: Any = None) -> Any:
    parts = [np.eye(3)[SEX] if name == "sex" else CODED[name][:, None] for name in columns]
    X = np.column_stack((*parts, np.ones(N)))
    data = inputs.of_arrays(X, np.zeros(N), spec.problem, present)
    assert not isinstance(spec.method, str)
    answers, *_ = run(spec.method, spec.problem, data, spec.release_plan, Noise(SeededBits(seed)))
    return statistics.result(spec, answers)


def test_a_cross_table_has_the_requested_columns_in_order_and_in_their_units() -> None:
    spec = spec_of({"name": "counts", "bins": 4}, ["sex", "age"], 90.0)
    released = result_of(spec, ["sex", "age"])
    assert isinstance(released, CountsResult)
    assert [axis.column.name for axis in released.axes] == ["sex", "age"]
    assert (released.axes[0].edges, released.axes[1].edges) == (None, [20, 30, 40, 50, 60])
    exact = [np.histogram(VALUES["age"][s == SEX], 4, (20, 60))[0] for s in (0, 1)]
    table = np.array(released.counts).reshape(3, 4)
    assert table[:2] == pytest.approx(np.array(exact), abs=6 * released.noise_std)
    assert table[2] == pytest.approx(np.zeros(4), abs=6 * released.noise_std)


def test_counts_of_persons_are_of_rows() -> None:
    """The counts equal a table of the file; they are not divided by the rows that a person may have."""
    present = RNG.random(N) < 0.5
    spec = spec_of({"name": "counts"}, ["sex"], 90.0, N // 4, unit={"column": "who", "max_rows": 4})
    table = result_of(spec, ["sex"], present=present)
    exact = [*np.bincount(SEX[present], minlength=2), 0]
    assert table.noise_std == 4 * stds_of(spec.method, spec.problem, spec.release_plan.plan)["cells"]
    assert table.counts == pytest.approx(exact, abs=6 * table.noise_std)
    assert 6 * table.noise_std < min(exact[:2]) / 4  # so that no other unit would pass


class Counted(np.ndarray[Any, Any]):
    """Array that counts the operations on arrays."""

    operations = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs_of_ufunc: Any, **named: Any) -> Any:
        Counted.operations += 1
        bare = [array.view(np.ndarray) if isinstance(array, Counted) else array for array in inputs_of_ufunc]
        named["out"] = tuple(array.view(np.ndarray) for array in named["out"]) if "out" in named else None
        output = getattr(ufunc, method)(*bare, **named)
        return output.view(Counted) if isinstance(output, np.ndarray) else output


def test_correlations_of_many_columns_use_few_operations_on_matrices() -> None:
    """An operation on the whole matrix for each entry took minutes for 512 columns."""
    p = 20
    factor = RNG.normal(size=(p, p))
    spread, wide = factor @ factor.T / p, np.full((p, p), 0.1)
    spread[4], spread[:, 4] = 0.0, 0.0
    Counted.operations = 0
    correlations = statistics.correlations(spread.view(Counted), wide.view(Counted))
    assert 0 < Counted.operations < p
    for i in range(p):
        for j in range(p):
            root = np.sqrt(max(spread[i, i], 0) * max(spread[j, j], 0))
            exact = 1.0 if i == j else np.clip(spread[i, j] / root, -1, 1) if root else 0.0
            assert correlations[i][j].value == pytest.approx(exact)
            assert -1 <= correlations[i][j].low <= correlations[i][j].value <= correlations[i][j].high <= 1


def test_covariances_are_in_the_columns_units() -> None:
    released = result_of(spec_of({"name": "covariance"}, ["paid", "age"], 90.0), ["paid", "age"])
    assert isinstance(released, CovarianceResult)
    exact = np.cov(VALUES["paid"], VALUES["age"], bias=True)
    assert np.abs(np.array(released.covariance) - exact).max() < 6 * np.array(released.noise_std).max()
    r = np.corrcoef(VALUES["paid"], VALUES["age"])[0, 1]
    assert released.correlation[0][1].low <= r <= released.correlation[0][1].high
    assert released.correlation[0][1].value == pytest.approx(r, abs=0.02)
    assert released.correlation[0][1] == released.correlation[1][0]
    assert released.means[1].value == pytest.approx(VALUES["age"].mean(), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_person", [False, True])
def test_intervals_contain_the_truth_as_often_as_stated(is_person: bool) -> None:
    """95 % of 100 releases do, less four standard deviations. Half of the places of persons' rows are empty."""
    runs, columns = 100, ["age", "paid"]
    declared: dict[str, Any] = {"unit": {"column": "who", "max_rows": 2}} if is_person else {}
    n, present = (N // 2, RNG.random(N) < 0.5) if is_person else (N, None)
    own = {name: values if present is None else values[present] for name, values in VALUES.items()}
    methods: list[dict[str, Any]] = [{"name": "means"}, {"name": "quantiles", "bins": 32}, {"name": "covariance"}]
    specs = [spec_of(method, columns, 0.3, n, **declared) for method in methods]
    containing: Counter[str] = Counter()
    for seed in range(runs):
        means, quantiles, covariance = (result_of(spec, columns, seed, present) for spec in specs)
        assert isinstance(means, MeansResult)
        assert isinstance(quantiles, QuantilesResult)
        for number in means.numbers:
            containing[f"mean {number.column}"] += number.mean.low <= own[number.column].mean() <= number.mean.high
        for each in quantiles.columns:
            for q in each.quantiles:
                exact = np.quantile(own[each.column], q.share)
                containing[f"{each.column} {q.share}"] += q.at.low <= exact <= q.at.high
        exact = np.cov(own["age"], own["paid"], bias=True)
        for i, j in ((0, 0), (0, 1), (1, 1)):
            error = abs(covariance.covariance[i][j] - exact[i, j])
            containing[f"covariance {i}{j}"] += error <= 1.96 * covariance.noise_std[i][j]
        r = covariance.correlation[0][1]
        containing["correlation"] += r.low <= np.corrcoef(own["age"], own["paid"])[0, 1] <= r.high
    assert min(containing.values()) >= 0.95 * runs - 4 * (0.95 * 0.05 * runs) ** 0.5, containing


def test_under_overwhelming_noise_the_interval_of_a_correlation_is_from_minus_one_to_one() -> None:
    released = result_of(spec_of({"name": "covariance"}, ["age", "paid"], 0.001), ["age", "paid"])
    assert (released.correlation[0][1].low, released.correlation[0][1].high) == (-1.0, 1.0)
    assert released.correlation[1][1].value == 1.0


@pytest.mark.parametrize(
    ("method", "columns", "message"),
    [
        ("counts", ["age", "age"], "must be distinct"),
        ("counts", ["nobody"], "must be a declared column"),
        ("profile", ["age"], "all columns"),
        ("covariance", ["age", "sex"], "Leave out categories"),
    ],
)
def test_columns_that_do_not_suit_a_statistic_are_refused(method: str, columns: list[str], message: str) -> None:
    with pytest.raises(ApiError) as raised:
        spec_of({"name": method}, columns)
    problem = raised.value
    assert message in " ".join([problem.detail or "", *(violation.what for violation in problem.violations or ())])


def test_a_noisy_row_count_widens_intervals_of_ratios() -> None:
    """95 % of 300 intervals of a skewed column with a very noisy row count hold the truth, less four stds."""
    counts, edges, rng = np.array([900.0, 0, 0, 0, 50, 50]), np.linspace(0, 6, 7), np.random.default_rng(2)
    rows = [Rows(1000 + 60 * float(noise), 60) for noise in rng.normal(size=300)]
    upper = [quantile(0.899, counts + rng.normal(size=6), edges, 1.0, n).at for n in rows]
    means = [n.around(700 / n.n, 0.01) for n in rows]
    assert sum(at.low < 1 <= at.high for at in upper) >= 300 * 0.95 - 4 * (300 * 0.95 * 0.05) ** 0.5
    assert sum(low <= 0.7 <= high for _, low, high in means) >= 300 * 0.95 - 4 * (300 * 0.95 * 0.05) ** 0.5


def test_the_noise_of_the_means_is_subtracted_from_the_variances() -> None:
    spec = spec_of({"name": "covariance"}, ["age", "paid"], n=20)
    released = statistics.result(spec, np.array([0.0, 0.2, 0.5, 0.0, 0.5]))
    assert isinstance(released, CovarianceResult)
    noise = stds_of(spec.method, spec.problem, spec.release_plan.plan)["means"]
    assert [released.covariance[i][i] for i in (0, 1)] == pytest.approx([u**2 * (0.5 - noise**2) for u in (20, 500)])
    assert released.covariance[0][1] == 0.0


def test_a_noisy_number_of_rows_widens_covariances() -> None:
    spec = spec_of({"name": "covariance"}, ["age"], n=20, unit={"column": "who", "max_rows": 2})
    results = [statistics.result(spec, np.array([0.0, value, 0.5])) for value in (0.0, 0.5)]
    none, some = (np.array(one.noise_std) for one in results if isinstance(one, CovarianceResult))
    noise = stds_of(spec.method, spec.problem, spec.release_plan.plan)["means"] / 0.5
    assert some**2 - none**2 == pytest.approx((20**2 * 0.5 * noise) ** 2)


def test_each_requested_column_is_read_where_it_is_stored(tmp_path: Path) -> None:
    columns = [{"name": name, "type": "number", "lower": 0, "upper": 2} for name in ("a", "b", "c")]
    dataset_spec = {"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}}
    table = StatisticDesign.of(DatasetSpec.model_validate_json(json.dumps(dataset_spec)), ["c", "a"])
    stored = Coded(np.zeros((1, 3)), np.zeros((1, 0), dtype=np.uint8), (2, 0, 1))
    assert table.read(stored, (1, 1, 1), tmp_path)[0].offsets == (1, 2)


def test_a_request_of_all_columns_has_the_digest_of_before_there_were_others() -> None:
    body = '{"dataset":"ds_1","method":{"bins":20,"name":"profile"},"privacy":{"epsilon":0.5,"delta":null}}'
    assert StatisticRequest.model_validate_json(body).model_dump_json() == body


@pytest.mark.parametrize("max_rows", [None, 4])
def test_the_quoted_width_of_a_count_is_the_released_one(max_rows: int | None) -> None:
    """Issue 29, friction 22: counts of rows of persons have max_rows times the noise of the query."""
    declared: dict[str, Any] = {} if max_rows is None else {"unit": {"column": "who", "max_rows": max_rows}}
    spec = spec_of({"name": "counts"}, ["sex"], n=N // (max_rows or 1), **declared)
    released = result_of(spec, ["sex"], present=None if max_rows is None else np.ones(N, bool))
    (quoted,) = widths(spec)
    assert (quoted.answer, quoted.column, quoted.basis) == ("count", None, "exact")
    assert quoted.width == pytest.approx(2 * released.within)
    assert quoted.width == pytest.approx(2 * 1.96 * (max_rows or 1) * noise_std(spec, "cells"), rel=1e-4)


def test_the_quoted_widths_of_means_are_the_released_ones() -> None:
    spec = spec_of({"name": "means"}, ["age", "sex"], 0.5)
    released = result_of(spec, ["age", "sex"])
    quoted = {(each.answer, each.column): each for each in widths(spec)}
    assert {each.basis for each in quoted.values()} == {"exact"}
    (mean,), share = released.numbers, released.categories[0].shares[0]
    assert quoted["mean", "age"].width == pytest.approx(mean.mean.high - mean.mean.low)
    assert quoted["share", "sex"].width == pytest.approx(share.high - share.low)


def test_a_mean_hidden_by_noise_is_quoted_with_its_whole_range() -> None:
    spec = spec_of({"name": "means"}, ["age", "paid"], 0.001, n=4)
    assert [each.width for each in widths(spec)] == [40, 500]


def test_quoted_widths_of_quantiles_are_those_of_evenly_spread_values() -> None:
    spec = spec_of({"name": "quantiles", "bins": 100, "shares": [0.5]}, ["age"], 90.0)
    (quoted,) = widths(spec)
    exact = quantile(0.5, np.full(100, N / 100), np.linspace(20, 60, 101), noise_std(spec, "histograms"), Rows(N, 0))
    assert (quoted.answer, quoted.column, quoted.basis) == ("quantile 0.5", "age", "typical")
    assert quoted.width == pytest.approx(exact.at.high - exact.at.low)


def test_the_quoted_width_of_a_variance_is_the_released_one_for_means_in_the_middle() -> None:
    spec = spec_of({"name": "covariance"}, ["age"], 5.0)
    problem, code = spec.problem, np.linspace(-1, 1, N)
    data = inputs.of_arrays(np.column_stack((code, np.ones(N))), np.zeros(N), problem)
    answers, *_ = run(spec.method, problem, data, spec.release_plan, Noise(SeededBits(1)))
    released = statistics.result(spec, answers)
    assert isinstance(released, CovarianceResult)
    mean, variance = widths(spec)
    assert (mean.answer, variance.answer, variance.basis) == ("mean", "variance", "typical")
    assert mean.width == pytest.approx(released.means[0].high - released.means[0].low)
    assert variance.width == pytest.approx(2 * 1.96 * released.noise_std[0][0], rel=0.01)


def noise_std(spec: JobSpec, query: str) -> float:
    return stds_of(spec.method, spec.problem, spec.release_plan.plan)[query]


def widths(spec: JobSpec) -> list[IntervalWidth]:
    return interval_widths(spec) or []
