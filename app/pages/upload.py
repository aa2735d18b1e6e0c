"""The registration of a dataset: an editor for its declaration, made from the API's schema, and the file beside it.

A dataset whose records are elsewhere has a shorter form without a file.

The response to an upload reports how the file's values were read. It is shown once, to the uploader only.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse

from app.http.errors import ApiError
from app.http.work import in_turn
from app.pages.forms import Field, Forms, document, form_values, member_indices, with_defaults, without
from app.pages.frame import STEWARDS_ONLY, Visit, Visiting, page_router
from app.sources.identifiers import identifying
from purse.wire.columns import BOUNDS
from purse.wire.files import PLAIN, Dialect, FileReport

_SCHEMAS = {"number": "NumberColumnInput", "category": "CategoryColumn"}  # by a column's type
_DECISIONS = ("name", "unit", "budget", "dialect", "holdout")  # fields with controls of their own on the page
_COMMON_FIELDS = ("name", "lower", "upper", "categories")  # of a column; the others are folded
_EXAMPLES = {
    "name": "such as Hospital stays 2025",
    "unit.column": "none: one row is protected",
    "unit.max_rows": "such as 10",
    "budget.epsilon": "such as 1",
    "budget.delta": "such as 0.000001",
    "budget.slack": "chosen by the filter",
    "family": "none: a budget of its own",
    "holdout": "none, such as 0.2",
}
"""Words in empty fields of a declaration."""
_HINTS = {
    "unit.column": "The file's column that names each row's person. The column groups rows and is not stored.",
    "holdout": "Fraction of the records, or of the persons if they are protected, that is kept to measure the "
    "accuracy of models. This holdout set has a budget of its own. It cannot be added later.",
    "unit.persons": "Public number of persons, including persons without a row. A file with more persons is refused. "
    "If left empty, the number in the file is used and becomes public.",
}
_ELSEWHERE_FIELDS = ("name", "rows", "unit", "budget", "neighbors", "family", "sessions")
_ELSEWHERE_UNIT = ("unit.max_rows", "unit.persons")
_ELSEWHERE_HINTS = {
    "rows": "Public number of rows.",
    "unit.max_rows": "Largest number of a person's rows that one answer may use.",
    "unit.persons": "Public number of persons, including persons without a row.",
}
_MAX_COLUMNS = 300  # of the editor; a pasted declaration may have as many as the API accepts


router = page_router("/upload", STEWARDS_ONLY)
elsewhere = page_router("/declare", STEWARDS_ONLY)


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """The form of one column: its path in the declaration, its type, and its usual and further fields."""

    path: str
    type: str
    common: list[Field]
    folded: list[Field]

    @property
    def name(self) -> str:
        """The column's name as far as it is filled in."""
        return self.common[0].value

    @property
    def fields(self) -> list[Field]:
        """All fields."""
        return [*self.common, *self.folded]


@dataclass(frozen=True, slots=True)
class Editor:
    """A declaration, as far as it is filled in.

    Parameters
    ----------
    fields : fields of the dataset
    columns : form of each column
    meanings : descriptions of a column's fields, by the column's type and the field's label
    """

    fields: list[Field]
    columns: list[ColumnForm]
    meanings: dict[str, dict[str, str]]

    @classmethod
    def of(cls, visit: Visit, values: dict[str, str]) -> "Editor":
        """Return the schema's fields, with the values that were filled in."""
        forms = visit.forms
        indices = member_indices(values, "columns")
        if len(indices) > _MAX_COLUMNS:
            raise ApiError("too_large", f"The editor takes at most {_MAX_COLUMNS} columns. Paste the declaration.")
        columns = [_column(forms, values, f"columns.{index}") for index in indices]
        meanings = {kind: {f.label: f.hint for f in forms.fields(name, {}, {})} for kind, name in _SCHEMAS.items()}
        options = {"targets": [name for name in _column_names(values) if name]}
        fields = forms.fields("DatasetSpec", values, options, ("columns", "data", "rows"))
        return cls(with_defaults(fields, _EXAMPLES, _HINTS), columns, meanings)

    @property
    def document(self) -> dict[str, Any]:
        """The declaration."""
        spec = document(self.fields)
        dialect = _dialect(spec)
        columns = [
            {"type": column.type} | _as_written(column.fields, document(column.fields), dialect)
            for column in self.columns
        ]
        return spec | {"columns": columns}

    async def page(self, visit: Visit, template: str, identifiers: Sequence[str] | None = None) -> HTMLResponse:
        """Return the editor, or a part of it, with a warning that names the `identifiers`, unchanged if None."""
        return await visit.page(
            template,
            fields={field.name: _by_label(field) or field for field in self.fields},
            other_fields=[field for field in self.fields if field.name not in _DECISIONS],
            columns=self.columns,
            meanings=self.meanings,
            spec=json.dumps(self.document, indent=2, ensure_ascii=False),
            identifiers=identifiers,
            oob=template == "editor.html",
        )


@router.get("")
async def empty(visit: Visiting) -> Response:
    """Return the editor with an empty declaration, and the field for the file."""
    return await _written(visit, {"columns.0.name": ""}, "upload.html")


@router.post("/spec")
async def spec(visit: Visiting) -> Response:
    """Return the filled-in declaration as JSON."""
    return await _written(visit, await visit.form(), "spec.html")


@router.post("/editor")
async def editor(visit: Visiting) -> Response:
    """Return the editor after a change, such as an added column or a pasted declaration.

    A change adds or removes a column, makes a column the person column, or takes a file's header or a declaration.
    """
    values = await visit.form()
    step, _, operand = values.pop("step", "").partition(":")
    pasted = values.pop("spec", "")
    if step == "paste":
        editor_or_reason = await in_turn(_pasted, visit, pasted)
        if isinstance(editor_or_reason, Editor):
            return await editor_or_reason.page(visit, "editor.html")
        answer = await visit.page("note.html", note=editor_or_reason)
        answer.headers.update({"HX-Retarget": "#note", "HX-Reswap": "innerHTML"})
        return answer
    if step == "header":
        header, types, former = (values.pop(name, "").split("\n") for name in ("header", "types", "former"))
        values = _with_header(values, dict(zip(header, types, strict=False)), {"", *former} - set(header))
        return await _written(visit, values, "editor.html", list(identifying(header)))
    if step == "remove":
        values = without(values, f"columns.{operand}")
    if step == "person":
        for index in [i for i in member_indices(values, "columns") if values.get(f"columns.{i}.name") == operand]:
            values = without(values, f"columns.{index}")
        values["unit.column"] = operand
    if step == "add":
        values[f"columns.{_next_index(values)}.name"] = ""
    identifiers = list(identifying(_column_names(values))) if values.get("unit.column") else None
    return await _written(visit, values, "editor.html", identifiers)


@router.post("")
async def upload(visit: Visiting) -> Response:
    """Register the dataset, and report once on its values. The body passes to the API as it arrives."""
    registered = (await visit.api.forward("POST", "/v1/datasets")).json()
    report = FileReport.model_validate_json(json.dumps(registered["report"]))
    return await visit.page("uploaded.html", 201, dataset=registered, report=report)


@elsewhere.get("")
async def declaration_form(visit: Visiting) -> Response:
    """Return an empty form for a dataset whose records are elsewhere."""
    return await _declaration(visit, {})


@elsewhere.post("")
async def declare(visit: Visiting) -> Response:
    """Register the dataset, and show its page."""
    values = await visit.form()
    spec = {"data": "elsewhere"} | document(_elsewhere_fields(visit, values))
    try:
        answer = await visit.api.send("POST", "/v1/datasets", files={"spec": (None, json.dumps(spec))})
    except ApiError as error:
        return await _declaration(visit, values, error)
    return visit.go(f"/datasets/{answer.json()['id']}")


async def _declaration(visit: Visit, values: dict[str, str], error: ApiError | None = None) -> Response:
    fields = {field.name: field for field in _elsewhere_fields(visit, values)}
    budget = {part.label: part for part in fields["budget"].parts}
    return await visit.page("declare.html", error=error, fields=fields, budget=budget)


def _elsewhere_fields(visit: Visit, values: dict[str, str]) -> list[Field]:
    """Return the fields of a declaration that are not about a file, in their order on the page."""
    described = with_defaults(visit.forms.fields("DatasetSpec", values, {}), _EXAMPLES, _ELSEWHERE_HINTS)
    fields = {field.name: field for field in described}
    parts = tuple(part for part in fields["unit"].parts if part.name in _ELSEWHERE_UNIT)
    fields["unit"] = replace(fields["unit"], parts=tuple(replace(part, required=False) for part in parts))
    return [fields[name] for name in _ELSEWHERE_FIELDS]


async def _written(
    visit: Visit, values: dict[str, str], template: str, identifiers: Sequence[str] | None = None
) -> HTMLResponse:
    """Return the editor, or a part of it, as far as it is filled in."""
    return await (await in_turn(Editor.of, visit, values)).page(visit, template, identifiers)


def _column(forms: Forms, values: dict[str, str], path: str) -> ColumnForm:
    kind = values.get(f"{path}.type", "")
    kind = kind if kind in _SCHEMAS else "number"
    fields = forms.fields(_SCHEMAS[kind], values, {}, prefix=f"{path}.")
    common = sorted((f for f in fields if f.label in _COMMON_FIELDS), key=lambda f: _COMMON_FIELDS.index(f.label))
    common += [field for field in fields if field.label == "date" and field.value]
    return ColumnForm(path, kind, common, [field for field in fields if field not in common])


def _dialect(spec: dict[str, Any]) -> Dialect:
    """Return the declared dialect; the plain one if it is not valid, which the API reports."""
    try:
        return Dialect.model_validate(spec.get("dialect", {}))
    except ValueError:
        return PLAIN


def _as_written(fields: Sequence[Field], column: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return a column in which a bound stays text if the dialect reads another number, so that the API rejects it."""
    written = {field.label: field.value for field in fields if field.label in BOUNDS}
    readings = {bound: dialect.number(text) for bound, text in written.items()}
    ambiguous = {b for b, number in readings.items() if math.isfinite(number) and number != column.get(b)}
    return column | {bound: written[bound] for bound in ambiguous}


def _pasted(visit: Visit, text: str) -> Editor | str:
    """Return the editor with a pasted declaration, or the reason why the editor cannot show it."""
    try:
        declaration = json.loads(text)
    except (ValueError, RecursionError):
        return "The declaration is not valid JSON."
    if not isinstance(declaration, dict):
        return "The declaration must be a JSON object."
    try:
        preview = Editor.of(visit, form_values(declaration))
    except (ApiError, ValueError, RecursionError):
        preview = None
    if preview is None or preview.document != declaration:
        return "The editor cannot show all of this declaration. It is sent as it is."
    return preview


def _by_label(group: Field) -> dict[str, Field]:
    """Return the fields of a group by their labels; no field of an optional group is marked as required."""
    return {part.label: replace(part, required=part.required and group.required) for part in group.parts}


def _column_names(values: dict[str, str]) -> list[str]:
    return [values.get(f"columns.{index}.name", "") for index in member_indices(values, "columns")]


def _next_index(values: dict[str, str]) -> int:
    return max(member_indices(values, "columns"), default=-1) + 1


def _with_header(values: dict[str, str], types: dict[str, str], former: set[str]) -> dict[str, str]:
    """Return the values with a column for each name of a file's header.

    Parameters
    ----------
    types : guessed type of each column, by the names in the header
    former : names of an earlier header; their columns are dropped unless more than a name and a type is filled in
    """
    values = {name: value for name, value in values.items() if not _is_untouched(name, values, former)}
    names = _column_names(values)
    fresh = [name for name in types if name.strip() not in ("", *names)]
    begin = _next_index(values)
    for index, name in enumerate(fresh[:_MAX_COLUMNS], begin):
        is_date = types[name] == "date"
        values |= {f"columns.{index}.name": name.strip(), f"columns.{index}.type": "number" if is_date else types[name]}
        values |= {f"columns.{index}.date": "days"} if is_date else {}
    return values


def _is_untouched(name: str, values: dict[str, str], former: set[str]) -> bool:
    """Return whether a field belongs to a column without a name, or to one that is only named as before."""
    column = ".".join(name.split(".")[:2]) + "."
    if not column.startswith("columns.") or values.get(f"{column}name", "") not in former:
        return False
    filled = {field.removeprefix(column) for field, value in values.items() if field.startswith(column) and value}
    return "name" not in filled or filled <= {"name", "type", "date"}
