"""The declaration of a dataset whose records are elsewhere: a form from the API's schema, without a file."""

import json
from dataclasses import replace

from fastapi import Response

from app.http.errors import ApiError
from app.pages.forms import Field, document, with_defaults
from app.pages.frame import STEWARDS_ONLY, Visit, Visiting, page_router
from app.pages.upload import EXAMPLES

_FIELDS = ("name", "rows", "unit", "budget", "neighbors", "family", "sessions")
_UNIT_FIELDS = ("unit.max_rows", "unit.persons")
_HINTS = {
    "rows": "Public number of rows.",
    "unit.max_rows": "Largest number of a person's rows that one answer may use.",
    "unit.persons": "Public number of persons, including persons without a row.",
}

router = page_router("/declare", STEWARDS_ONLY)


@router.get("")
async def empty(visit: Visiting) -> Response:
    """Return an empty form for a dataset whose records are elsewhere."""
    return await _page(visit, {})


@router.post("")
async def declare(visit: Visiting) -> Response:
    """Register the dataset, and show its page."""
    values = await visit.form()
    spec = {"data": "elsewhere"} | document(_fields(visit, values))
    try:
        answer = await visit.api.send("POST", "/v1/datasets", files={"spec": (None, json.dumps(spec))})
    except ApiError as error:
        return await _page(visit, values, error)
    return visit.go(f"/datasets/{answer.json()['id']}")


async def _page(visit: Visit, values: dict[str, str], error: ApiError | None = None) -> Response:
    fields = {field.name: field for field in _fields(visit, values)}
    budget = {part.label: part for part in fields["budget"].parts}
    return await visit.page("declare.html", error=error, fields=fields, budget=budget)


def _fields(visit: Visit, values: dict[str, str]) -> list[Field]:
    """Return the fields of a declaration that are not about a file, in their order on the page."""
    described = with_defaults(visit.forms.fields("DatasetSpec", values, {}), EXAMPLES, _HINTS)
    fields = {field.name: field for field in described}
    parts = tuple(part for part in fields["unit"].parts if part.name in _UNIT_FIELDS)
    fields["unit"] = replace(fields["unit"], parts=tuple(replace(part, required=False) for part in parts))
    return [fields[name] for name in _FIELDS]
