"""Predictions of a released model for the rows of a CSV file that the visitor sends. They cost nothing."""

import csv
import io
from typing import Literal

from fastapi import Response
from fastapi.responses import HTMLResponse

from app.http.errors import ApiError
from app.http.queries import strict_router
from app.http.work import in_turn
from app.pages.frame import PageRoute, Visiting
from app.pages.session import PREFIX
from purse.model import Model
from purse.wire.base import Identifier
from purse.wire.files import Dialect
from purse.wire.problems import Violation

MAX_FILE_BYTES = 2**20  # as of other bodies, because reading a file takes the server's time
_FORMATS = {"comma": Dialect(), "semicolon": Dialect(delimiter=";", decimal=","), "tab": Dialect(delimiter="\t")}
Format = Literal["comma", "semicolon", "tab"]

router = strict_router(
    prefix=f"{PREFIX}/jobs/{{job_id}}/predictions",
    include_in_schema=False,
    route_class=PageRoute,
    default_response_class=HTMLResponse,
)


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
    source = {column.name: column.name if column.name in header else column.of for column in model.features}
    absent = [name for name, of in source.items() if of not in header]
    if absent:
        why = "The file lacks columns of the model. Check the separator and the first line."
        violations = [Violation(where=f"file.{name}", what="is not a column of the file") for name in absent]
        raise ApiError("invalid_request", why, violations=violations)
    positions = {of: header.index(of) for of in source.values()}
    used = [{of: row[position] for of, position in positions.items()} for row in rows]
    predictions = model.predict(used, dialect).tolist()
    classes = model.classes if model.link == "softmax" else None
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(classes or ["prediction"])
    writer.writerows(prediction if classes else [prediction] for prediction in predictions)
    return output.getvalue()
