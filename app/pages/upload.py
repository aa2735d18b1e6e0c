"""The steward's upload: a declaration, written in an editor made from its schema or pasted, and the file beside it.

What became of the file's values is told in the answer to whoever sent it, once, as the interface does.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Response
from fastapi.responses import HTMLResponse

from app.http.errors import ApiError
from app.http.queries import strict_router
from app.http.work import in_turn
from app.pages.forms import Field, Forms, document, form_values, member_indices, without
from app.pages.frame import PageRoute, Visit, Visiting, stewards
from app.pages.session import PREFIX
from purse.wire.columns import BOUNDS
from purse.wire.files import PLAIN, Dialect, FileReport

_TYPES = {"number": "NumberColumnInput", "category": "CategoryColumn"}
_FIRST = ("name", "budget")
_MOST_COLUMNS = 300  # in the editor; a declaration that is pasted may have all that the interface takes


router = strict_router(
    prefix=f"{PREFIX}/upload",
    include_in_schema=False,
    route_class=PageRoute,
    default_response_class=HTMLResponse,
    dependencies=[Depends(stewards)],
)


@dataclass(frozen=True, slots=True)
class Editor:
    """A declaration as far as it is filled in.

    Parameters
    ----------
    fields : of the whole
    columns : of each column: its type, and its fields
    meanings : of a column's fields
    """

    fields: list[Field]
    columns: list[tuple[str, list[Field]]]
    meanings: dict[str, dict[str, str]]

    @classmethod
    def of(cls, visit: Visit, said: dict[str, str]) -> "Editor":
        """The schema's fields, with what was filled in."""
        forms = Forms(visit.request.app.openapi()["components"]["schemas"])
        found, columns = member_indices(said, "columns"), []
        if len(found) > _MOST_COLUMNS:
            raise ApiError("too_large", f"The editor takes at most {_MOST_COLUMNS} columns: paste the declaration.")
        for number in found:
            kind = said.get(f"columns.{number}.type") or "number"
            place = f"columns.{number}"
            columns.append((kind, forms.fields(_TYPES.get(kind, _TYPES["number"]), said, {}, prefix=f"{place}.")))
        told = {kind: {f.label: f.hint for f in forms.fields(schema, {}, {})} for kind, schema in _TYPES.items()}
        return cls(forms.fields("DatasetSpec", said, {"targets": _names(said)}, ("columns",)), columns, told)

    @property
    def document(self) -> dict[str, Any]:
        """The declaration."""
        spec = document(self.fields)
        dialect = _dialect(spec)
        columns = [{"type": kind} | _as_written(fields, document(fields), dialect) for kind, fields in self.columns]
        return spec | {"columns": columns}

    async def page(self, visit: Visit, template: str) -> HTMLResponse:
        """Return the editor, or a part of it."""
        return await visit.page(
            template,
            first=[field for field in self.fields if field.name in _FIRST],
            more=[field for field in self.fields if field.name not in _FIRST],
            columns=self.columns,
            meanings=self.meanings,
            spec=json.dumps(self.document, indent=2, ensure_ascii=False),
            oob=template == "editor.html",
        )


def _dialect(spec: dict[str, Any]) -> Dialect:
    """Return the declared dialect; the plain one if it is not valid, which the interface reports."""
    try:
        return Dialect.model_validate(spec.get("dialect", {}))
    except ValueError:
        return PLAIN


def _as_written(fields: Sequence[Field], column: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return a column with each bound as text if its digits mean another number in the dialect: it is then refused."""
    written = {field.label: field.value for field in fields if field.label in BOUNDS}
    readings = {bound: dialect.number(text) for bound, text in written.items()}
    ambiguous = {b for b, number in readings.items() if math.isfinite(number) and number != column.get(b)}
    return column | {bound: written[bound] for bound in ambiguous}


@router.get("")
async def empty(visit: Visiting) -> Response:
    """An empty declaration."""
    return await _written(visit, {"columns.0.name": ""}, "upload.html")


@router.post("/spec")
async def spec(visit: Visiting) -> Response:
    """What is filled in, as JSON."""
    return await _written(visit, await visit.form(), "spec.html")


@router.post("/editor")
async def editor(visit: Visiting) -> Response:
    """The editor after one step: a column more or less, the names in a file's first line, a pasted declaration."""
    said = await visit.form()
    step, _, which = said.pop("step", "").partition(":")
    pasted = said.pop("spec", "")
    if step == "paste":
        made = await in_turn(_pasted, visit, pasted)
        return await (_noted(visit, made) if isinstance(made, str) else made.page(visit, "editor.html"))
    if step == "remove":
        said = without(said, f"columns.{which}")
    wanted = said.pop("header", "").split("\n") if step == "header" else [""] if step == "add" else []
    former = {"", *said.pop("former", "").split("\n")} - set(wanted)
    if step == "header":
        said = {name: value for name, value in said.items() if not _is_bare(name, said, former)}
    known = _names(said)
    begin = max(member_indices(said, "columns"), default=-1) + 1
    fresh = [name.strip() for name in wanted if name.strip() not in ("", *known) or step == "add"]
    said |= {f"columns.{begin + i}.name": name for i, name in enumerate(fresh[:_MOST_COLUMNS])}
    return await _written(visit, said, "editor.html")


@router.post("")
async def upload(visit: Visiting) -> Response:
    """The visitor's own body goes on to the interface, as it arrives."""
    made = (await visit.api.passed("POST", "/v1/datasets")).json()
    report = FileReport.model_validate_json(json.dumps(made["report"]))
    return await visit.page("uploaded.html", 201, dataset=made, report=report)


async def _written(visit: Visit, said: dict[str, str], template: str) -> HTMLResponse:
    """Return the editor, or a part of it, as far as it is filled in."""
    return await (await in_turn(Editor.of, visit, said)).page(visit, template)


def _pasted(visit: Visit, text: str) -> Editor | str:
    """Return the editor with this declaration in it, or why the editor cannot hold it."""
    try:
        found = json.loads(text)
        made = Editor.of(visit, form_values(found)) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        found = made = None
    except ApiError:
        made = None
    if made is not None and made.document == found:
        return made
    return "This is no JSON object." if found is None else "This says more than the editor can: send it as it is."


async def _noted(visit: Visit, why: str) -> HTMLResponse:
    answer = await visit.page("note.html", note=why)
    answer.headers.update({"HX-Retarget": "#note", "HX-Reswap": "innerHTML"})
    return answer


def _names(said: dict[str, str]) -> list[str]:
    """The names of the columns that are there."""
    return [said.get(f"columns.{number}.name", "") for number in member_indices(said, "columns")]


def _is_bare(name: str, said: dict[str, str], former: set[str]) -> bool:
    """Whether this is of a column without a name, or of which only a name is said that a first line had before."""
    column = ".".join(name.split(".")[:2]) + "."
    if not column.startswith("columns.") or said.get(f"{column}name", "") not in former:
        return False
    told = {field.removeprefix(column): value for field, value in said.items() if field.startswith(column) and value}
    return not told.get("name") or (told.keys() <= {"name", "type"} and told.get("type", "number") == "number")
