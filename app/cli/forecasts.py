"""purse twin."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Dataset, Json, Refusal, Url, connect, emit, note
from purse.wire.twins import TwinSource

Rows = Annotated[int, typer.Option(help="How many rows.")]
Seed = Annotated[int, typer.Option(help="Public: the same seed gives the same twin.")]
Source = Annotated[
    str | None, typer.Option("--from", help="declaration or profile; the latest profile, if there is one, if left out.")
]


def twin(
    dataset: Dataset,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write it to this file.")],
    rows: Rows = 1000,
    seed: Seed = 0,
    source: Source = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A file of rows to try code on, drawn by what is public of a dataset. Touches no data, charges nothing.

    Columns, ranges, categories and the file's dialect are as declared; columns are drawn one by one, so that nothing
    in it relates one to another.

    \b
    Example:
      purse twin census --rows 10000 --out twin.csv
    """
    with connect(url) as client:
        made = client.datasets.twin(dataset, rows=rows, seed=seed, source=source_of(source))
    out.write_bytes(made)
    emit({"written": str(out), "rows": rows, "seed": seed}, json, lambda: note(f"wrote {out}: {rows} rows, none real"))


def source_of(given: str | None) -> TwinSource | None:
    """The source that an option names."""
    match given:
        case None | "declaration" | "profile":
            return given
    raise Refusal("--from is declaration or profile")
