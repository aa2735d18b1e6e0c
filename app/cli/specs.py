"""Declarations in files: a spec, or the list of its columns."""

import re
from pathlib import Path

from pydantic import ValidationError

from app.cli.output import Refusal, read_json
from purse.client.calls import with_column_name
from purse.errors import fault
from purse.unknown_fields import shown
from purse.wire.datasets import DatasetSpec

_MOST_SHOWN = 5
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
        columns = fields.get("columns")
        faults = [f"{_field(e['loc'], columns)}: {fault(e, DatasetSpec)}" for e in error.errors()]
        shown_faults = "; ".join(faults[:_MOST_SHOWN])
        if len(faults) > _MOST_SHOWN:
            shown_faults += f"; and {len(faults) - _MOST_SHOWN} other fields"
        raise Refusal(f"{path} is not a complete declaration. Correct these fields: {shown_faults}") from None
    if spec.data == "elsewhere":
        raise Refusal(f'{path} declares a dataset without a file ("data": "elsewhere"), and this command reads a file.')
    return spec, "budget" in fields


def _field(location: tuple[int | str, ...], columns: object) -> str:
    """Return the name of a field. A field of a column begins with the column's name."""
    path = (str(part) for part in location)
    return with_column_name(".".join(shown(part) for part in path if not _ALTERNATIVE.match(part)), columns)
