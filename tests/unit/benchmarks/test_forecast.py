"""A forecast by a profile is near what the method does on real data; more in docs/benchmarks/forecast.md."""

from pathlib import Path

import pytest

from app.demo import data
from app.quotes.forecasts import forecast_locally
from app.settings import Settings
from app.sources.twins import Twin
from app.wire import ForecastPrivacy, ForecastRequest
from benchmarks.forecast import case_of, coded, profile_of, truth_of
from purse.wire.budgets import Budget

DISTANCE = 0.03  # in accuracy; with fresh noise, differences have the mean 0.005 and the std 0.007


@pytest.mark.slow
@pytest.mark.usefixtures("seeded_noise")
def test_a_forecast_from_a_profile_is_near_the_truth_if_the_signal_is_right() -> None:
    spec = data.spec(Budget(epsilon=5.0, delta=1e-6)).settled()
    uploaded, holdout = data.split(data.rows())
    rows, test = (coded(some, spec) for some in (uploaded, holdout[::2]))
    signal, optimum, (truth,) = truth_of(case_of(spec, data.TARGET, rows, test), 1, (0.5,))
    privacy = ForecastPrivacy(epsilons=(0.5,))
    body = ForecastRequest(dataset="d", target=data.TARGET, privacy=privacy, signal=signal, runs=3)
    forecast = forecast_locally(
        spec, len(rows.rows), body, Settings(home=Path("/nowhere")), Twin(profile_of(spec, rows), spec.dialect)
    )
    assert forecast.source == "profile"
    assert abs(forecast.at[0].score.median - truth) < DISTANCE
    assert abs(forecast.optimum - optimum) < DISTANCE
