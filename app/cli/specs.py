"""A declaration in a file: a spec, or the list of its columns."""

from pathlib import Path

from pydantic import ValidationError

from app.cli.common import Refusal, read_json
from purse.errors import fault
from purse.unknown_fields import shown
from purse.wire.datasets import DatasetSpec


def read_spec(path: Path) -> tuple[DatasetSpec, bool]:
    """The spec, its name and its budget filled in where the file has none; and whether it has a budget."""
    document = read_json(path)
    fields = document if isinstance(document, dict) else {"columns": document}
    try:
        spec = DatasetSpec.model_validate({"name": "schema", "budget": {"epsilon": 1.0, "delta": 0.0}, **fields})
    except ValidationError as error:
        wrong = "; ".join(f"{_place(e['loc'], fields)}: {fault(e, DatasetSpec)}" for e in error.errors()[:5])
        raise Refusal(f"the schema is not complete: {wrong}") from None
    return spec, "budget" in fields


def _place(where: tuple[int | str, ...], fields: dict[str, object]) -> str:
    """Return the place of a field; a field of a column by the column's name."""
    columns = fields.get("columns")
    if where[:1] == ("columns",) and len(where) > 2 and isinstance(columns, list) and isinstance(where[1], int):
        column = columns[where[1]]
        name = column.get("name") if isinstance(column, dict) else None
        if isinstance(name, str):
            return f"{name!r}.{shown(str(where[-1]))}"
    return ".".join(shown(str(part)) for part in where)
