"""Predictions of a released model, for one row of a form or for the rows of a CSV file. They cost nothing."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from app.http.errors import ApiError
from app.http.work import in_turn
from app.pages import words
from app.pages.frame import Visiting, page_router
from purse.model import Model
from purse.prediction import as_csv
from purse.tables import dated
from purse.wire.base import Identifier
from purse.wire.columns import OTHER_LEVEL, CategoryColumn, Column
from purse.wire.files import PLAIN, Dialect
from purse.wire.problems import Violation

MAX_FORM_FIELDS = 60
MAX_FILE_BYTES = 2**20  # as of other bodies, because reading a file takes the server's time
_FORMATS = {"comma": Dialect(), "semicolon": Dialect(delimiter=";", decimal=","), "tab": Dialect(delimiter="\t")}

router = page_router("/jobs/{job_id}/predictions")


@dataclass(frozen=True, slots=True)
class PredictionField:
    """The field of one column in the form for a prediction; `options` are a category column's categories."""

    name: str
    hint: str
    options: tuple[str, ...] = ()


def features(model: Model) -> tuple[PredictionField, ...]:
    """Return the fields of the form for one prediction; none if there are more than MAX_FORM_FIELDS."""
    if len(model.row_columns) > MAX_FORM_FIELDS:
        return ()
    return tuple(map(_feature, model.row_columns))


@router.post("/row")
async def predict_row(visit: Visiting, job_id: Identifier) -> Response:
    """Return the model's prediction for one row, whose values come from the page's form."""
    values = await visit.form()
    release = await visit.api.send("GET", f"/v1/jobs/{job_id}/model")
    return await visit.page("prediction.html", **await in_turn(_prediction, release.content, values))


@router.post("")
async def predict(visit: Visiting, job_id: Identifier) -> Response:
    """Return a CSV file with the model's prediction for each row of the file that was sent."""
    values, file = await visit.file_form(MAX_FILE_BYTES)
    if len(file) > MAX_FILE_BYTES:
        raise ApiError("too_large", f"The file may have at most {MAX_FILE_BYTES // 2**20} MiB: use `purse predict`.")
    release = await visit.api.send("GET", f"/v1/jobs/{job_id}/model")
    text = await in_turn(_predictions, release.content, file, _FORMATS.get(values.get("format", ""), Dialect()))
    headers = {"Content-Disposition": f'attachment; filename="{job_id}.predictions.csv"'}
    return Response(text, media_type="text/csv", headers=headers)


def _feature(column: Column) -> PredictionField:
    if isinstance(column, CategoryColumn):
        return PredictionField(column.name, "", tuple(column.levels))
    default = (column.lower + column.upper) / 2 if column.default is None else column.default
    written = dated(default, column.date) or words.number(default)
    return PredictionField(column.name, f"{written} ({words.bounds(column.model_dump())})")


def _prediction(release: bytes, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the prediction for one row as names and values, or the fields that cannot be read."""
    model = Model.model_validate_json(release)
    texts = [values.get(f"row.{index}", "").strip() for index in range(len(model.row_columns))]
    pairs = list(zip(model.row_columns, texts, strict=True))
    unreadable = [index for index, (column, text) in enumerate(pairs) if text and not _is_readable(column, text)]
    if unreadable:
        return {"wrong": {index: model.row_columns[index].name for index in unreadable}}
    row = {column.name: text for column, text in pairs}
    [prediction] = model.predict([row]).tolist()
    unsupported = model.unsupported_categories
    weak = [column.name for column, text in pairs if _category(column, text) in unsupported.get(column.name, ())]
    return {"wrong": {}, "predicted": _named(model, prediction), "unsupported": weak}


def _is_readable(column: Column, text: str) -> bool:
    return isinstance(column, CategoryColumn) or column.date is not None or math.isfinite(PLAIN.number(text))


def _category(column: Column, text: str) -> str:
    return text if isinstance(column, CategoryColumn) and text in column.categories else OTHER_LEVEL


def _named(model: Model, prediction: Any) -> dict[str, str]:
    """Return a prediction as text, under the name of what it states."""
    classes, target = [*(model.classes or ())], model.target
    match model.link:
        case "softmax":
            return {f"P({name})": words.number(p, 3) for name, p in zip(classes, prediction, strict=True)}
        case "logistic":
            return {f"P({classes[1]})": words.number(prediction, 3)}
        case "sign":
            return {target.name: str(prediction)}
    date = None if isinstance(target, CategoryColumn) else target.date
    return {target.name: dated(prediction, date) or words.number(prediction)}


def _predictions(release: bytes, file: bytes, dialect: Dialect) -> str:
    """Return the predictions as CSV; columns of the file that the model does not use are ignored."""
    model = Model.model_validate_json(release)
    try:
        lines = list(csv.reader(io.StringIO(file.decode("utf-8-sig"), newline=""), delimiter=dialect.delimiter))
    except (UnicodeDecodeError, csv.Error):
        raise ApiError("unreadable_file", "The file must be CSV in UTF-8.") from None
    header, rows = (lines[0], [line for line in lines[1:] if line]) if lines else ([], [])
    if not rows or any(len(row) != len(header) for row in rows):
        raise ApiError("unreadable_file", "The file must have a header line, and rows with as many fields as it.")
    source = {column.name: column.name if column.name in header else column.of for column in model.row_columns}
    absent = [name for name, of in source.items() if of not in header]
    if absent:
        why = "The file lacks columns of the model. Check the separator and the first line."
        violations = [Violation(where=f"file.{name}", what="is not a column of the file") for name in absent]
        raise ApiError("invalid_request", why, violations=violations)
    positions = {of: header.index(of) for of in source.values()}
    used = [{of: row[position] for of, position in positions.items()} for row in rows]
    classes = model.classes if model.link == "softmax" else None
    return as_csv(classes, model.predict(used, dialect).tolist())
