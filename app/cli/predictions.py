"""purse predict."""

import csv
import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from app.cli.common import DEFAULT_URL, Json, Refusal, Url, connect, emit, note
from app.cli.specs import read_spec
from purse import Model
from purse.wire.datasets import DatasetSpec
from purse.wire.files import PLAIN, Dialect

_AT_ONCE = 10_000  # rows


def predict(
    model: Annotated[str, typer.Argument(help="A job's id, or a file that `purse model --out` wrote.")],
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV with the model's columns.")],
    spec: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="JSON: a spec; the file is in its dialect.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write them to this file.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """What a released model predicts for the rows of a CSV file. Costs nothing: the model is released.

    Needs no server where the model is a file. The file has the model's columns and no others but its target and what
    the spec declares; what is missing in a row, or cannot be read, becomes the column's declared default.

    \b
    Examples:
      purse predict job_abc new.csv > predictions.csv
      purse predict model.json new.csv --spec stays.json --out predictions.csv
    """
    released, declared = _model(model, url), None if spec is None else read_spec(spec)[0]
    dialect, left_out = (declared.dialect, _left_out(declared, released)) if declared else (PLAIN, set())
    with _opened(file, dialect) as source:
        batches = _batches(source, dialect, left_out)
        told = [row for rows in batches for row in released.predict(rows, dialect).tolist()]
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
        if not given.startswith("job_"):
            raise Refusal(f"{given} is no file, and no job's id: those begin with job_")
        with connect(url) as client:
            return client.jobs.model(given)
    try:
        return Model.model_validate_json(Path(given).read_bytes(), extra="ignore")
    except ValueError:
        raise Refusal(f"{given} is no model in JSON") from None


def _left_out(spec: DatasetSpec, model: Model) -> set[str]:
    """Columns of the dataset's file that the model was not trained on."""
    declared = {column.of for column in spec.columns} | ({spec.unit.column} if spec.unit else set())
    return declared - {name for column in (*model.features, model.target) for name in (column.name, column.of)}


@contextmanager
def _opened(file: Path, dialect: Dialect) -> Iterator[TextIO]:
    with file.open("rb") as begun:
        is_packed = begun.read(2) == b"\x1f\x8b"
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    try:
        with (gzip.open if is_packed else open)(file, "rt", encoding=encoding, newline="") as source:
            yield source
    except UnicodeError:
        said = f"{file} is not {dialect.encoding}: --spec names a spec, whose dialect says how it is written"
        raise Refusal(said) from None
    except (EOFError, zlib.error):
        raise Refusal(f"{file} begins like gzip and cannot be unpacked: it was cut off or altered") from None


def _batches(source: TextIO, dialect: Dialect, left_out: set[str]) -> Iterator[list[dict[str, Any]]]:
    lines = csv.DictReader(
        source,
        restkey="",
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    while rows := list(islice(lines, _AT_ONCE)):
        if any("" in row or None in row.values() for row in rows):
            raise Refusal(f"a row before line {lines.line_num + 1} has another number of fields than the header")
        yield [{name: value for name, value in row.items() if name not in left_out} for row in rows]


def _write(target: TextIO, heads: list[str] | None, told: list[Any]) -> None:
    """CSV: a column, or one for each class."""
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(heads or ["prediction"])
    writer.writerows(row if heads else [row] for row in told)
