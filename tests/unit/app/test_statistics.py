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
from app.sources.design import Table
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
    said = {"name": "d", "columns": COLUMNS, "budget": {"epsilon": 100.0, "delta": 1e-4}} | declared
    row = replace(row, spec=DatasetSpec.model_validate_json(json.dumps(said)))
    asked = {"dataset": "ds_1", "columns": columns, "method": method, "privacy": {"epsilon": epsilon, "delta": 1e-6}}
    return price(row, StatisticRequest.model_validate_json(json.dumps(asked)), SETTINGS).spec


def told(spec: JobSpec, columns: list[str], seed: int = 1, present: Any = None) -> Any:
    parts = [np.eye(3)[SEX] if name == "sex" else CODED[name][:, None] for name in columns]
    X = np.column_stack((*parts, np.ones(N)))
    data = inputs.of_arrays(X, np.zeros(N), spec.problem, present)
    assert not isinstance(spec.method, str)
    answers, *_ = run(spec.method, spec.problem, data, spec.release_plan, Noise(SeededBits(seed)))
    return statistics.result(spec, answers)


def test_a_cross_table_has_the_columns_asked_for_in_their_order_and_units() -> None:
    spec = spec_of({"name": "counts", "bins": 4}, ["sex", "age"], 90.0)
    found = told(spec, ["sex", "age"])
    assert isinstance(found, CountsResult)
    assert [axis.column.name for axis in found.axes] == ["sex", "age"]
    assert (found.axes[0].edges, found.axes[1].edges) == (None, [20, 30, 40, 50, 60])
    exact = [np.histogram(VALUES["age"][s == SEX], 4, (20, 60))[0] for s in (0, 1)]
    table = np.array(found.counts).reshape(3, 4)
    assert table[:2] == pytest.approx(np.array(exact), abs=6 * found.noise_std)
    assert table[2] == pytest.approx(np.zeros(4), abs=6 * found.noise_std)


def test_counts_of_persons_are_of_rows() -> None:
    """As a table of the file would have it, and no person's rows divided by how many there may be."""
    present = RNG.random(N) < 0.5
    spec = spec_of({"name": "counts"}, ["sex"], 90.0, N // 4, unit={"column": "who", "max_rows": 4})
    found = told(spec, ["sex"], present=present)
    exact = [*np.bincount(SEX[present], minlength=2), 0]
    assert found.noise_std == 4 * stds_of(spec.method, spec.problem, spec.release_plan.plan)["cells"]
    assert found.counts == pytest.approx(exact, abs=6 * found.noise_std)
    assert 6 * found.noise_std < min(exact[:2]) / 4  # so that no other unit would pass


class Counted(np.ndarray[Any, Any]):
    """An array that counts the operations on arrays."""

    made = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **named: Any) -> Any:
        Counted.made += 1
        bare = [one.view(np.ndarray) if isinstance(one, Counted) else one for one in given]
        named["out"] = tuple(one.view(np.ndarray) for one in named["out"]) if "out" in named else None
        found = getattr(ufunc, method)(*bare, **named)
        return found.view(Counted) if isinstance(found, np.ndarray) else found


def test_correlations_of_many_columns_are_made_by_a_few_operations_on_matrices() -> None:
    """One on the whole matrix for each of its entries takes minutes of the server at 512 columns."""
    p = 20
    factor = RNG.normal(size=(p, p))
    spread, wide = factor @ factor.T / p, np.full((p, p), 0.1)
    spread[4], spread[:, 4] = 0.0, 0.0
    Counted.made = 0
    found = statistics._correlations(spread.view(Counted), wide.view(Counted))
    assert 0 < Counted.made < p
    for i in range(p):
        for j in range(p):
            root = np.sqrt(max(spread[i, i], 0) * max(spread[j, j], 0))
            exact = 1.0 if i == j else np.clip(spread[i, j] / root, -1, 1) if root else 0.0
            assert found[i][j].value == pytest.approx(exact)
            assert -1 <= found[i][j].low <= found[i][j].value <= found[i][j].high <= 1


def test_covariances_are_in_the_columns_units() -> None:
    found = told(spec_of({"name": "covariance"}, ["paid", "age"], 90.0), ["paid", "age"])
    assert isinstance(found, CovarianceResult)
    exact = np.cov(VALUES["paid"], VALUES["age"], bias=True)
    assert np.abs(np.array(found.covariance) - exact).max() < 6 * np.array(found.noise_std).max()
    r = np.corrcoef(VALUES["paid"], VALUES["age"])[0, 1]
    assert found.correlation[0][1].low <= r <= found.correlation[0][1].high
    assert found.correlation[0][1].value == pytest.approx(r, abs=0.02)
    assert found.correlation[0][1] == found.correlation[1][0]
    assert found.means[1].value == pytest.approx(VALUES["age"].mean(), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_person", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(is_person: bool) -> None:
    """95 of 100, of 100 releases, less four standard deviations; of persons' rows, half of whose places are empty."""
    runs, columns = 100, ["age", "paid"]
    declared: dict[str, Any] = {"unit": {"column": "who", "max_rows": 2}} if is_person else {}
    n, present = (N // 2, RNG.random(N) < 0.5) if is_person else (N, None)
    own = {name: values if present is None else values[present] for name, values in VALUES.items()}
    asked: list[dict[str, Any]] = [{"name": "means"}, {"name": "quantiles", "bins": 32}, {"name": "covariance"}]
    specs = [spec_of(method, columns, 0.3, n, **declared) for method in asked]
    held: Counter[str] = Counter()
    for seed in range(runs):
        means, quantiles, covariance = (told(spec, columns, seed, present) for spec in specs)
        assert isinstance(means, MeansResult)
        assert isinstance(quantiles, QuantilesResult)
        for one in means.numbers:
            held[f"mean {one.column}"] += one.mean.low <= own[one.column].mean() <= one.mean.high
        for each in quantiles.columns:
            for q in each.quantiles:
                exact = np.quantile(own[each.column], q.share)
                held[f"{each.column} {q.share}"] += q.at.low <= exact <= q.at.high
        exact = np.cov(own["age"], own["paid"], bias=True)
        for i, j in ((0, 0), (0, 1), (1, 1)):
            far = abs(covariance.covariance[i][j] - exact[i, j])
            held[f"covariance {i}{j}"] += far <= 1.96 * covariance.noise_std[i][j]
        r = covariance.correlation[0][1]
        held["correlation"] += r.low <= np.corrcoef(own["age"], own["paid"])[0, 1] <= r.high
    assert min(held.values()) >= 0.95 * runs - 4 * (0.95 * 0.05 * runs) ** 0.5, held


def test_noise_that_hides_all_leaves_a_correlation_open() -> None:
    found = told(spec_of({"name": "covariance"}, ["age", "paid"], 0.001), ["age", "paid"])
    assert (found.correlation[0][1].low, found.correlation[0][1].high) == (-1.0, 1.0)
    assert found.correlation[1][1].value == 1.0


@pytest.mark.parametrize(
    ("method", "columns", "said"),
    [
        ("counts", ["age", "age"], "must be distinct"),
        ("counts", ["nobody"], "must be declared"),
        ("profile", ["age"], "all columns"),
        ("covariance", ["age", "sex"], "Leave out the columns that are categories"),
    ],
)
def test_columns_that_it_cannot_be_of_are_refused(method: str, columns: list[str], said: str) -> None:
    with pytest.raises(ApiError) as raised:
        spec_of({"name": method}, columns)
    problem = raised.value
    assert said in " ".join([problem.detail or "", *(violation.what for violation in problem.violations or ())])


def test_the_noise_of_the_rows_number_widens_what_is_divided_by_it() -> None:
    """Of 300 releases 95 of 100, less four standard deviations: a lopsided column, a number of rows with much noise."""
    counts, edges, rng = np.array([900.0, 0, 0, 0, 50, 50]), np.linspace(0, 6, 7), np.random.default_rng(2)
    rows = [Rows(1000 + 60 * float(noise), 60) for noise in rng.normal(size=300)]
    upper = [quantile(0.899, counts + rng.normal(size=6), edges, 1.0, n).at for n in rows]
    means = [n.around(700 / n.n, 0.01) for n in rows]
    assert sum(at.low < 1 <= at.high for at in upper) >= 300 * 0.95 - 4 * (300 * 0.95 * 0.05) ** 0.5
    assert sum(low <= 0.7 <= high for _, low, high in means) >= 300 * 0.95 - 4 * (300 * 0.95 * 0.05) ** 0.5


def test_the_noise_of_the_means_is_no_variance() -> None:
    spec = spec_of({"name": "covariance"}, ["age", "paid"], n=20)
    found = statistics.result(spec, np.array([0.0, 0.2, 0.5, 0.0, 0.5]))
    assert isinstance(found, CovarianceResult)
    noise = stds_of(spec.method, spec.problem, spec.release_plan.plan)["means"]
    assert [found.covariance[i][i] for i in (0, 1)] == pytest.approx([u**2 * (0.5 - noise**2) for u in (20, 500)])
    assert found.covariance[0][1] == 0.0


def test_a_noisy_number_of_rows_widens_covariances() -> None:
    spec = spec_of({"name": "covariance"}, ["age"], n=20, unit={"column": "who", "max_rows": 2})
    found = [statistics.result(spec, np.array([0.0, value, 0.5])) for value in (0.0, 0.5)]
    none, some = (np.array(one.noise_std) for one in found if isinstance(one, CovarianceResult))
    noise = stds_of(spec.method, spec.problem, spec.release_plan.plan)["means"] / 0.5
    assert some**2 - none**2 == pytest.approx((20**2 * 0.5 * noise) ** 2)


def test_each_requested_column_is_read_where_it_is_stored(tmp_path: Path) -> None:
    columns = [{"name": name, "type": "number", "lower": 0, "upper": 2} for name in ("a", "b", "c")]
    said = {"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}}
    table = Table.of(DatasetSpec.model_validate_json(json.dumps(said)), ["c", "a"])
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
    found = told(spec, ["sex"], present=None if max_rows is None else np.ones(N, bool))
    (quoted,) = widths(spec)
    assert (quoted.answer, quoted.column, quoted.basis) == ("count", None, "exact")
    assert quoted.width == pytest.approx(2 * found.within)
    assert quoted.width == pytest.approx(2 * 1.96 * (max_rows or 1) * noise_std(spec, "cells"), rel=1e-4)


def test_the_quoted_widths_of_means_are_the_released_ones() -> None:
    spec = spec_of({"name": "means"}, ["age", "sex"], 0.5)
    found = told(spec, ["age", "sex"])
    quoted = {(each.answer, each.column): each for each in widths(spec)}
    assert {each.basis for each in quoted.values()} == {"exact"}
    (mean,), share = found.numbers, found.categories[0].shares[0]
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
    found = statistics.result(spec, answers)
    assert isinstance(found, CovarianceResult)
    mean, variance = widths(spec)
    assert (mean.answer, variance.answer, variance.basis) == ("mean", "variance", "typical")
    assert mean.width == pytest.approx(found.means[0].high - found.means[0].low)
    assert variance.width == pytest.approx(2 * 1.96 * found.noise_std[0][0], rel=0.01)


def noise_std(spec: JobSpec, query: str) -> float:
    return stds_of(spec.method, spec.problem, spec.release_plan.plan)[query]


def widths(spec: JobSpec) -> list[IntervalWidth]:
    return interval_widths(spec) or []
