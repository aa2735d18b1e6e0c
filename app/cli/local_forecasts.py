"""Forecasts that are computed in this process, by the parts of a server."""

import json
from pathlib import Path
from typing import Any

from app.cli.specs import read_spec
from app.http.body import parse_json
from app.quotes.forecasts import forecast_locally, read_sample
from app.settings import Settings
from app.wire import ForecastRequest
from purse.wire.forecasts import AccuracyForecast


def compute(spec: Path, records: int, sample: Path | None, request: dict[str, Any]) -> AccuracyForecast:
    """Return a forecast by the declaration in a file. The sample is not sent anywhere."""
    declared, has_budget = read_spec(spec)
    if not has_budget:
        budget = declared.budget.model_copy(update={"delta": min(1e-6, 1 / (10 * records))})
        declared = declared.model_copy(update={"budget": budget})
    body = parse_json(ForecastRequest, json.dumps({"dataset": "here", **request}))
    rows = None if sample is None else read_sample(sample, declared)
    return forecast_locally(declared, records, body, Settings(), rows)
