"""Declarations in files: a spec, or the list of its columns."""

import re
from pathlib import Path

from pydantic import ValidationError

from app.cli.output import Refusal, read_json
from purse.errors import fault
from purse.unknown_fields import shown
from purse.wire.datasets import DatasetSpec

_ALTERNATIVE = re.compile(r"constrained-|(?:dict|list)\[")  # how pydantic names an alternative of a field's type


def read_spec(path: Path) -> tuple[DatasetSpec, bool]:
    """Return the spec in a file, and whether the file has a budget. A missing name or budget is filled in.

    Raises
    ------
    Refusal
        if the file is not a spec, or the spec of a dataset without a file.
    """
    document = read_json(path)
    fields = document if isinstance(document, dict) else {"columns": document}
    try:
        spec = DatasetSpec.model_validate({"name": "schema", "budget": {"epsilon": 1.0, "delta": 0.0}, **fields})
    except ValidationError as error:
        faults = "; ".join(f"{_field(e['loc'], fields)}: {fault(e, DatasetSpec)}" for e in error.errors()[:5])
        raise Refusal(f"{path} is not a complete declaration. Correct these fields: {faults}") from None
    if spec.data == "elsewhere":
        raise Refusal(f'{path} declares a dataset without a file ("data": "elsewhere"), and this command reads a file.')
    return spec, "budget" in fields


def _field(location: tuple[int | str, ...], fields: dict[str, object]) -> str:
    """Return the name of a field. A field of a column begins with the column's name."""
    path = [str(part) for part in location if not _ALTERNATIVE.match(str(part))]
    columns = fields.get("columns")
    if (
        location[:1] == ("columns",)
        and len(location) > 2
        and isinstance(columns, list)
        and isinstance(location[1], int)
    ):
        column = columns[location[1]]
        name = column.get("name") if isinstance(column, dict) else None
        if isinstance(name, str):
            return ".".join((repr(name), *map(shown, path[3:])))  # path[2] is the column's type
    return ".".join(map(shown, path))
