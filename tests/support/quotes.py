"""Prices of jobs on a dataset that is a declaration and a ledger only."""

import json
from pathlib import Path
from typing import Any

from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.events import Opened
from accounting.records.ledger import advance
from app.datasets.profiles import PublishedProfile
from app.datasets.store import DatasetRow
from app.quotes import pricing
from app.settings import Settings
from app.wire import JobRequest
from purse.wire.datasets import DatasetSpec
from tests.support.calculations import price

COLUMNS = [
    {"name": "age", "type": "number", "lower": 17, "upper": 90},
    {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
    {"name": "color", "type": "category", "categories": ["red", "green", "blue"]},
    {"name": "only", "type": "category", "categories": ["one"]},
    {"name": "income", "type": "category", "categories": ["<=50K", ">50K"]},
]


REQUEST: dict[str, Any] = {"dataset": "ds_1", "target": "income", "privacy": {"epsilon": 0.5}}


SETTINGS = Settings(home=Path("/nowhere"))


def dataset(rows: int = 20_000, epsilon: float = 3.0, delta: float = 1e-6, kind: str = "rdp") -> DatasetRow:
    """A dataset that is a declaration and a ledger, and nothing else."""
    budget = {"epsilon": epsilon, "delta": delta, "filter": kind}
    spec = DatasetSpec.model_validate_json(json.dumps({"name": "d", "columns": COLUMNS, "budget": budget}))
    rule = Filter.open(kind, Privacy(epsilon, delta))  # type: ignore[arg-type]
    state, _ = advance(None, Opened("ds_1", rows, rule), "now")
    return DatasetRow("ds_1", "ds_1", "d", rows, spec, "no such folder", state, "now")


def priced(
    row: DatasetRow | None = None,
    settings: Settings = SETTINGS,
    profile: PublishedProfile | None = None,
    **changes: Any,
) -> pricing.Priced:
    request = JobRequest.model_validate_json(json.dumps(REQUEST | changes))
    return price(row or dataset(), request, settings, profile)
