"""Forecasts: the noise of n on fewer rows, a relation as strong as it says, and the inverse question."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.errors import OutOfRange
from accounting.privacy import Privacy
from app.calculation import forecasts
from app.calculation.planted import Planted
from app.http.errors import ApiError
from app.quotes.forecasts import forecast_locally, read_sample
from app.settings import Settings
from app.sources import twins
from app.sources.design import Design
from app.sources.twins import Sample, Twin
from app.wire import ForecastRequest
from purse.wire.datasets import DatasetSpec
from purse.wire.forecasts import AccuracyForecast, ExpectedScore, Spread, reaching
from solvers import Problem, methods, plan
from solvers.losses import Logistic
from solvers.regularizers import L2

SPEC: dict[str, Any] = {
    "name": "d",
    "columns": [
        {"name": "age", "type": "number", "lower": 0, "upper": 100},
        {"name": "site", "type": "category", "categories": ["a", "b", "c"]},
        {"name": "income", "type": "number", "lower": 0, "upper": 50_000},
        {"name": "well", "type": "category", "categories": ["no", "yes"]},
    ],
    "budget": {"epsilon": 5.0, "delta": 1e-6},
}
QUICK: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 10}, "runs": 3, "privacy": {"epsilons": [1.0]}}
SETTINGS = Settings(home=Path("/nowhere"))


def _spec(**fields: Any) -> DatasetSpec:
    return DatasetSpec.model_validate_json(json.dumps(SPEC | fields)).settled()


def _request(target: str, **fields: Any) -> ForecastRequest:
    return ForecastRequest.model_validate_json(json.dumps({"dataset": "d", "target": target} | QUICK | fields))


def _here(target: str, records: int = 2000, sample: Any = None, spec: Any = None, **fields: Any) -> AccuracyForecast:
    return forecast_locally(spec or _spec(), records, _request(target, **fields), SETTINGS, sample)


@pytest.mark.parametrize("method", [methods.DpGd(steps=50), methods.AdaptiveGd(steps=50)])
def test_noise_on_fewer_rows_has_the_std_of_noise_on_all(method: Any) -> None:
    """std = multiplier * bound. Bounds are proportional to 1/n, except for rounding, which adds less than 0.1 %."""
    spec = _spec()
    design = Design.of(spec, _request("well").job)
    problem = Problem(Logistic(), n=50_000, d=design.d, row_norm=design.row_norm, columns=design.columns)
    quote = plan(method, problem, Privacy(1.0, 1e-6))
    small = forecasts.scaled(quote, 5_000)
    met = small.preparation.prepared(small.problem)
    bounds = small.method.bounds(met) | small.preparation.bounds(small.problem)
    queries = small.release.plan.queries
    stds = [q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in queries]
    np.testing.assert_allclose(stds, quote.noise_stds, rtol=1e-3)
    assert small.problem.n == 5_000


def test_a_method_whose_noise_depends_on_n_runs_on_n_rows_or_is_refused() -> None:
    design = Design.of(_spec(), _request("well").job)
    problem = Problem(Logistic(), L2(0.1), n=10**7, d=design.d, row_norm=design.row_norm, columns=design.columns)
    full, tied = (plan(m, problem, Privacy(1.0, 1e-6)) for m in (methods.DpGd(), methods.OutputPerturbation()))
    assert 1000 <= forecasts.fitting([full], 10)[1] < 10**7
    with pytest.raises(OutOfRange, match="cannot be scaled"):
        forecasts.fitting([tied], 10)
    planned = plan(methods.OutputPerturbation(), replace(problem, n=500), Privacy(1.0, 1e-6))
    assert forecasts.fitting([planned], 10) == (10, 500)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "signal"), [("well", 0.2), ("site", 0.7), ("income", 0.5)])
def test_the_planted_relation_has_the_stated_strength(target: str, signal: float) -> None:
    """The best prediction from the true scores is checked on 20,000 rows: within five stds and 0.02 for the pilot."""
    spec, rows = _spec(), range(20_000)
    design, twin = Design.of(spec, _request(target).job), Twin(twins.declared(spec.columns))
    planted, codes = Planted.of(twin, design, 5, signal), twin.codes(5, rows)
    y, scores = planted.targets(codes, rows), planted.scores(codes)
    if target == "income":
        score, expected = np.corrcoef(scores[:, 0], y)[0, 1] ** 2, signal
        np.testing.assert_array_equal(np.sort(y), np.sort(codes[:, 2]))
    else:
        answer = np.argmax(planted.strength * scores + np.array(planted.offsets), axis=1)
        constant = 1 / len(planted.offsets)
        score, expected = (
            (answer == (y if target == "site" else (y + 1) / 2)).mean(),
            constant + signal * (1 - constant),
        )
        assert np.abs(np.unique(y, return_counts=True)[1] / len(y) - constant).max() < 0.03
    assert abs(score - expected) < 0.02 + 5 * 0.5 / np.sqrt(len(rows))


@pytest.mark.parametrize(
    ("medians", "target_score", "epsilon"),
    [
        ([0.5, 0.6, 0.7], 0.65, 2.0**0.5),
        ([0.5, 0.6, 0.7], 0.4, 0.5),
        ([0.5, 0.6, 0.7], 0.71, None),
        ([0.5, 0.7, 0.6], 0.575, 2.0**-0.5),  # monotone: 0.5, 0.65, 0.65
    ],
)
def test_the_epsilon_for_a_target_score(medians: list[float], target_score: float, epsilon: float | None) -> None:
    spreads = [Spread(median=median, low=median, high=median) for median in medians]
    at = [
        ExpectedScore(epsilon=epsilon, method="dp_gd", score=spread)
        for epsilon, spread in zip((0.5, 1.0, 2.0), spreads, strict=True)
    ]
    assert reaching(target_score, at) == (None if epsilon is None else pytest.approx(epsilon))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "additions"),
    [
        ("well", {"preparation": {"name": "declared"}, "domain": {"name": "l2_ball", "radius": 5.0}}),
        ("site", {"method": {"name": "dp_gd", "steps": 10}}),
        (
            "site",
            {"positive": "b", "loss": {"name": "hinge"}, "method": {"name": "localization"}},
        ),
        ("income", {"features": ["age"]}),
        ("well", {"features": []}),
    ],
)
def test_a_forecast_exists_for_every_kind_of_job(target: str, additions: dict[str, Any]) -> None:
    forecast = _here(target, **additions)
    assert forecast.at[0].score.median <= forecast.optimum + 0.05
    if additions.get("features") == []:
        assert abs(forecast.optimum - forecast.constant) < 0.05, "without features the best prediction is a constant"
    else:
        assert forecast.optimum > forecast.constant + 0.05


@pytest.mark.slow
def test_a_forecast_may_protect_persons() -> None:
    unit = {"column": "who", "max_rows": 3}
    forecast = _here("well", 800, spec=_spec(unit=unit))
    assert forecast.twin_records == 800
    assert "person" in forecast.rests_on[-1]
    assert forecast.optimum > forecast.constant + 0.2


def test_a_sample_whose_target_never_changes_has_no_r2() -> None:
    rows = np.column_stack((np.linspace(-1, 1, 50), np.arange(50) % 3, np.full(50, 0.3), np.zeros(50)))
    with pytest.raises(ApiError, match="out_of_range") as refused:
        _here("income", 1000, Sample.of(rows))
    assert "r2 is undefined" in str(refused.value.detail)
    assert _here("well", 1000, Sample.of(rows)).constant == 1.0


@pytest.mark.parametrize(("count", "is_small"), [(100, True), (500, False)])
def test_a_forecast_states_that_rows_of_a_small_sample_repeat(count: int, is_small: bool) -> None:
    rows = np.random.default_rng(1).integers(0, 2, (count, len(_spec().columns))).astype(float)
    forecast = _here("well", 400, Sample.of(rows))
    statements = [statement for statement in forecast.rests_on if "rows repeat" in statement]
    assert [f"{count * 4 // 5} rows to train on" in statement for statement in statements] == [True] * is_small


def test_a_sample_is_scored_on_rows_that_were_not_trained_on(tmp_path: Path) -> None:
    file, spec = tmp_path / "sample.csv", _spec()
    lines = [f"{age},a,{500 * age},{'yes' if age > 50 else 'no'}" for age in range(100)]
    file.write_text("age,site,income,well\n" + "\n".join(lines) + "\n")
    sample = read_sample(file, spec)
    train, test = sample.parted
    assert (len(train.rows), len(test.rows)) == (80, 20)
    assert not {*train.rows[:, 0]} & {*test.rows[:, 0]}
    forecast = _here("well", 1000, sample, spec)
    assert (forecast.source, forecast.signal) == ("sample", None)
    assert forecast.optimum > 0.9
    with pytest.raises(ValueError, match="5 rows"):
        _ = Sample.of(sample.rows[:4]).parted


def test_fewer_runs_are_made_by_default_if_more_would_exceed_the_work_limit() -> None:
    """Issue 29, friction 28: a forecast for thousands of categories was refused with its own defaults."""
    design = Design.of(_spec(), _request("well").job)
    problem = Problem(Logistic(), n=10**6, d=design.d, row_norm=design.row_norm, columns=design.columns)
    short, long = ([plan(methods.DpGd(steps=steps), problem, Privacy(1.0, 1e-6))] for steps in (10, 30_000))
    assert forecasts.fitting(short, None) == forecasts.fitting(short, 10)
    runs, records = forecasts.fitting(long, None)
    assert (runs, records) == (3, forecasts.fitting(long, 3)[1])
    with pytest.raises(OutOfRange):
        forecasts.fitting(long, 10)
