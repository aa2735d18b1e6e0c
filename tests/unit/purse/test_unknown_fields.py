"""An unknown field is named, with the fields that the schema has in its place."""

import json
import re
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from app.quotes.calibrations import CalibrationRequest
from app.wire import AnyRequest, ExternalCharge, TuningRequest
from purse.errors import faults
from purse.unknown_fields import MAX_SHOWN_CHARACTERS, UNKNOWN_FIELD_TYPES, known_fields, shown, unknown, unknown_field
from purse.wire.budgets import Budget
from purse.wire.columns import NumberColumn
from purse.wire.datasets import DatasetSpec, PersonUnit
from purse.wire.files import Dialect

JOB: dict[str, Any] = {"dataset": "ds_1", "target": "income", "privacy": {"epsilon": 1.0}}
COLUMN: dict[str, Any] = {"name": "age", "type": "number", "lower": 0, "upper": 1}
SPEC: dict[str, Any] = {"name": "d", "columns": [COLUMN], "budget": {"epsilon": 1.0, "delta": 1e-6}}
MIRROR = {"name": "noisy_mirror_descent", "potential": {"name": "half_squared_l2", "strang": 1}}


def messages(model: type[BaseModel], document: dict[str, Any]) -> list[str]:
    """Return the message about each unknown field of a document."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(document))
    errors = [error for error in caught.value.errors() if error["type"] in UNKNOWN_FIELD_TYPES]
    return [unknown_field(model, error["loc"], "body") for error in errors]


@pytest.mark.parametrize(
    ("model", "document", "name", "some", "suggested"),
    [
        (AnyRequest, JOB | {"targett": 1}, "targett", {"dataset", "target", "privacy"}, "target"),
        (AnyRequest, JOB | {"privacy": {"epsilon": 1.0, "dleta": 1}}, "dleta", {"epsilon", "delta"}, "delta"),
        (AnyRequest, JOB | {"method": {"name": "dp_gd", "stepss": 1}}, "stepss", {"name", "steps"}, "steps"),
        (AnyRequest, JOB | {"method": {"name": "profile", "binz": 1}}, "binz", {"name", "bins"}, "bins"),
        (AnyRequest, JOB | {"method": MIRROR}, "strang", {"name"}, None),
        (AnyRequest, JOB | {"preparation": {"name": "profile", "jobs": 1}}, "jobs", {"name", "job"}, "job"),
        (TuningRequest, {"candidates": [{}, {"regulariser": 1}]}, "regulariser", {"method"}, "regularizer"),
        (ExternalCharge, {"event": {"type": "GaussianDpEvent", "noise": 1}}, "noise", {"noise_multiplier"}, None),
        (CalibrationRequest, {"mechanism": {"name": "gaussian", "sigma": 1}}, "sigma", {"name"}, None),
        (CalibrationRequest, {"epsilo": "4711"}, "epsilo", set(CalibrationRequest.model_fields), "epsilon"),
        (DatasetSpec, SPEC | {"colums": 1}, "colums", {"columns", "budget"}, "columns"),
        (DatasetSpec, SPEC | {"columns": [COLUMN | {"uper": 2}]}, "uper", set(NumberColumn.model_fields), "upper"),
        (DatasetSpec, SPEC | {"budget": {"epsylon": 1.0}}, "epsylon", set(Budget.model_fields), "epsilon"),
        (DatasetSpec, SPEC | {"unit": {"colum": "x"}}, "colum", set(PersonUnit.model_fields), "column"),
        (DatasetSpec, SPEC | {"dialect": {"delimter": ";"}}, "delimter", set(Dialect.model_fields), "delimiter"),
    ],
)
def test_the_error_about_an_unknown_field_lists_the_known_fields(
    model: type[BaseModel], document: dict[str, Any], name: str, some: set[str], suggested: str | None
) -> None:
    message, *_ = messages(model, document)
    wrong, _, remainder = message.partition(" Known fields: ")
    known_fields, _, suggestion = remainder.partition(".")
    assert f"`{name}`" in wrong
    assert some <= set(known_fields.split(", "))
    assert "4711" not in message
    if suggested is not None:
        assert suggestion == f" Did you mean `{suggested}`?"


def test_a_place_that_is_not_found_lists_nothing() -> None:
    assert known_fields(DatasetSpec, ["columns", 0, "no such kind"]) == []
    assert unknown("x", []) == "Unknown field `x`."
    assert unknown_field(None, ["x"]) == "Unknown field `x`."


@pytest.mark.parametrize(
    "name", ["a" * 10**5, "\x00" * 10**5, "\U0001f600" * 70, "\ue000" * 70, "\udfff" * 20, "`" * 64, ""]
)
def test_a_shown_name_is_short_and_printable(name: str) -> None:
    assert len(shown(name)) <= MAX_SHOWN_CHARACTERS
    assert shown(name).isprintable()
    assert "`" not in shown(name)
    assert len(unknown(name, ["target"])) < 150


def test_faults_name_the_field_and_never_its_value() -> None:
    with pytest.raises(ValidationError) as caught:
        Dialect.model_validate({"delimter": "4711"})
    message = faults(caught.value, model=Dialect)
    assert message.startswith("delimter: Unknown field `delimter`. Known fields: delimiter, ")
    assert "4711" not in message


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (Dialect, {"delimiter": "4711"}),
        (Dialect, {"decimal": "4711"}),
        (Dialect, {"nulls": "4711"}),
        (Dialect, {"nulls": [""]}),
        (DatasetSpec, {"name": "4711\n", "columns": [], "budget": {"epsilon": "4711", "delta": 4711.0}}),
        (DatasetSpec, {"name": "d", "columns": [{"type": "4711"}, {}], "budget": 4711, "holdout": 4711.0}),
    ],
)
def test_messages_are_sentences_of_ours_and_never_repeat_a_value(model: type[BaseModel], document: object) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    message = faults(caught.value, 50, model)
    assert not re.search("4711|[Ss]hould|Input|String|[Ff]ield required", message), message
