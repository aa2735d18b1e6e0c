"""The table of limits says what the code does, and no parameter of a route is without one."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.http.codes import CODES
from app.main import create_app
from app.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
ROWS = [tuple(c.strip() for c in line.strip("|").split("|")) for line in PAGE.read_text().splitlines() if "| `" in line]


def _value(where: str) -> int:
    """Return a setting's default, or a constant's value."""
    if where.startswith("PURSE_"):
        return int(Settings.model_fields[where.removeprefix("PURSE_").lower()].default)
    module, _, path = where.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value() if isinstance(value, type) else value, name)
    return int(value)


@pytest.mark.parametrize(("description", "limit", "where", "beyond"), ROWS, ids=[row[2] for row in ROWS])
def test_each_row_states_the_limit_of_the_code(description: str, limit: str, where: str, beyond: str) -> None:
    assert description
    assert limit.startswith(f"`{_value(where.strip('`'))}`")
    assert beyond.strip("`") in CODES


def test_every_setting_that_is_a_limit_has_its_row() -> None:
    bounding = {f"`PURSE_{name.upper()}`" for name in Settings.model_fields if name.endswith("_rate")}
    bounding |= {f"`PURSE_{name.upper()}`" for name, field in Settings.model_fields.items() if _bounds(name, field)}
    assert bounding <= {row[2] for row in ROWS}


def _bounds(name: str, field: Any) -> bool:
    return name.startswith("max_") and field.default is not None


def _leaves(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices is None:
        yield schema
    for choice in choices or ():
        yield from _leaves(choice)


@pytest.mark.slow
def test_every_parameter_is_bounded(tmp_path: Path) -> None:
    paths = create_app(Settings(home=tmp_path)).openapi()["paths"]
    parameters = [p for path in paths.values() for operation in path.values() for p in operation.get("parameters", ())]
    assert len(parameters) > 20
    for parameter in parameters:
        for schema in _leaves(parameter["schema"]):
            bounds = {
                "null": {"type"},
                "boolean": {"type"},
                "string": {"maxLength", "pattern", "enum"},
                "integer": {"maximum", "exclusiveMaximum"},
            }
            assert bounds[schema["type"]] & set(schema), parameter
