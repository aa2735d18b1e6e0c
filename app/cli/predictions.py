"""purse predict."""

import csv
import gzip
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from app.cli.options import File, OptionalFile
from app.cli.output import Output, Refusal
from app.cli.specs import read_spec
from purse import Client, Model
from purse.prediction import as_csv
from purse.wire.datasets import DatasetSpec
from purse.wire.files import PLAIN, Dialect

_BATCH_ROWS = 10_000


def predict(client: Client, model: str, file: File, spec: OptionalFile = None, out: Path | None = None) -> Output:
    """Apply a released model to a CSV file.

    Predictions cost nothing, because the model is already released. No server is needed if the model is a file. The CSV
    file must have the model's columns, and may have the target and other columns of the spec. Missing and unreadable
    values are replaced by the column's default.

    Parameters
    ----------
    model : A job's id, or a file that `purse model --out` wrote.
    file : CSV with the model's columns.
    spec : JSON file with a spec. The CSV file is in its dialect.
    out : Write the predictions to this file.

    \b
    Examples:
      purse predict job_abc new.csv > predictions.csv
      purse predict model.json new.csv --spec stays.json --out predictions.csv
    """
    released = _model(model, client)
    declared = None if spec is None else read_spec(spec)[0]
    dialect, ignored = (declared.dialect, _ignored(declared, released)) if declared else (PLAIN, set())
    with warnings.catch_warnings(record=True) as caught, _opened(file, dialect) as source:
        warnings.simplefilter("always")
        batches = _batches(source, dialect, ignored)
        predictions = [row for rows in batches for row in released.predict(rows, dialect).tolist()]
    if not predictions:
        raise Refusal(f"{file} has no row under a header. Give a CSV file with a header and at least one row.")
    notes = list(dict.fromkeys(f"warning: {each.message}" for each in caught))
    classes = released.classes if released.link == "softmax" else None
    content = as_csv(classes, predictions)
    if out is None:
        return Output({"classes": classes, "predictions": predictions}, content, notes)
    out.write_bytes(content.encode())
    meaning = f" of P({released.classes[1]})" if released.link == "logistic" and released.classes else ""
    notes.append(f"wrote {out}: {len(predictions):,} rows{meaning}")
    return Output({"written": str(out), "rows": len(predictions)}, notes=notes)


def _model(name: str, client: Client) -> Model:
    if not Path(name).is_file():
        if not name.startswith("job_"):
            raise Refusal(f"{name} is neither a file nor a job's id. Ids of jobs begin with job_.")
        return client.jobs.model(name)
    try:
        return Model.model_validate_json(Path(name).read_bytes(), extra="ignore")
    except ValueError:
        raise Refusal(f"{name} is not a model in JSON. Use a file that `purse model --out` wrote.") from None


def _ignored(spec: DatasetSpec, model: Model) -> set[str]:
    """Return the columns of the dataset's file that the model was not trained on."""
    declared = {column.of for column in spec.columns} | ({spec.unit.name} if spec.unit else set())
    return declared - {name for column in (*model.row_columns, model.target) for name in (column.name, column.of)}


@contextmanager
def _opened(file: Path, dialect: Dialect) -> Iterator[TextIO]:
    with file.open("rb") as start:
        is_packed = start.read(2) == b"\x1f\x8b"
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    try:
        with (gzip.open if is_packed else open)(file, "rt", encoding=encoding, newline="") as source:
            yield source
    except UnicodeError:
        raise Refusal(
            f"{file} is not encoded as {dialect.encoding}. Name a spec with --spec whose dialect has the encoding."
        ) from None
    except (EOFError, zlib.error):
        raise Refusal(f"{file} cannot be unpacked. It starts like gzip, but was cut off or altered.") from None


def _batches(source: TextIO, dialect: Dialect, ignored: set[str]) -> Iterator[list[dict[str, Any]]]:
    lines = csv.DictReader(
        source,
        restkey="",
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    while rows := list(islice(lines, _BATCH_ROWS)):
        if any("" in row or None in row.values() for row in rows):
            raise Refusal(
                f"A row before line {lines.line_num + 1} has more or fewer fields than the header. Correct the row."
            )
        yield [{name: value for name, value in row.items() if name not in ignored} for row in rows]
