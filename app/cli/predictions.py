"""purse predict."""

import csv
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from app.cli.common import DEFAULT_URL, Json, Refusal, Url, connect, emit, note
from purse import Model

_AT_ONCE = 10_000  # rows


def predict(
    model: Annotated[str, typer.Argument(help="A job's id, or a file that `purse model --out` wrote.")],
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV with the model's columns.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write them to this file.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """What a released model predicts for the rows of a CSV file. Costs nothing: the model is released.

    Needs no server where the model is a file. The file has the model's columns and no others but its target; what is
    missing in a row, or cannot be read, becomes the column's declared default.

    \b
    Examples:
      purse predict job_abc new.csv > predictions.csv
      purse predict model.json new.csv --out predictions.csv
    """
    released = _model(model, url)
    with file.open(encoding="utf-8-sig", newline="") as source:
        told = [row for rows in _batches(source) for row in released.predict(rows).tolist()]
    if not told:
        raise Refusal(f"{file} has no row under a header")
    heads = released.classes if released.link == "softmax" else None
    if out is None:
        emit({"classes": heads, "predictions": told}, json, lambda: _write(sys.stdout, heads, told))
        return
    with out.open("w", encoding="utf-8", newline="") as target:
        _write(target, heads, told)
    emit({"written": str(out), "rows": len(told)}, json, lambda: note(f"wrote {out}: {len(told)} rows"))


def _model(given: str, url: str) -> Model:
    if not Path(given).is_file():
        with connect(url) as client:
            return client.jobs.model(given)
    try:
        return Model.model_validate_json(Path(given).read_bytes(), extra="ignore")
    except ValueError:
        raise Refusal(f"{given} is no model in JSON") from None


def _batches(source: TextIO) -> Iterator[list[dict[str, Any]]]:
    lines = csv.DictReader(source, restkey="")
    while rows := list(islice(lines, _AT_ONCE)):
        if any("" in row or None in row.values() for row in rows):
            raise Refusal(f"a row before line {lines.line_num + 1} has another number of fields than the header")
        yield rows


def _write(target: TextIO, heads: list[str] | None, told: list[Any]) -> None:
    """CSV: a column, or one for each class."""
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(heads or ["prediction"])
    writer.writerows(row if heads else [row] for row in told)
