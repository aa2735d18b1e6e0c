"""purse sample set, show, delete."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Dataset, Json, Sheet, Url, connect, emit, facts, note
from app.cli.reports import cures
from app.cli.specs import read_spec
from purse.wire.twins import PublicSample

group = typer.Typer(
    no_args_is_help=True, help="Name a public file of rows like a dataset's, for twins and forecasts to draw from."
)


@group.command("set")
def attach(
    dataset: Dataset,
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A public file, written as the data's is, or a workbook."),
    ],
    published: Annotated[str, typer.Option(help="Where it was published; analysts are told.")],
    spec: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Of a workbook: the dataset's spec, for its dialect."),
    ] = None,
    sheet: Sheet = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """From now on twins and forecasts draw from these rows, which you vouch for as public: analysts may have them.

    Never the data itself, nor a part of it: nothing compares the two. It is read by the dataset's own declaration.

    \b
    Examples:
      purse sample set census census-2019.csv --published "National census 2019, public file"
      purse sample set stays stays-2019.xlsx --sheet all --spec stays.json --published "Statistics office, 2019"
    """
    declared = None if spec is None else read_spec(spec)[0]
    with connect(url) as client:
        made = client.datasets.attach_sample(dataset, file, published=published, spec=declared, sheet=sheet)
    emit(made, json, lambda: _show(made))
    for line in () if json else cures(made.report):
        note(line)


@group.command("show")
def show(dataset: Dataset, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """What the steward says of it; `purse twin --from sample` draws its rows.

    \b
    Example:
      purse sample show census
    """
    with connect(url) as client:
        found = client.datasets.sample(dataset)
    emit(found, json, lambda: _show(found))


@group.command("delete")
def delete(dataset: Dataset, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """From now on there is none.

    \b
    Example:
      purse sample delete census
    """
    with connect(url) as client:
        client.datasets.delete_sample(dataset)
    emit({"dataset": dataset, "deleted": True}, json, lambda: note(f"{dataset}: deleted its public sample"))


def _show(sample: PublicSample) -> None:
    by = f"{sample.attached_by} at {sample.attached_at}"
    facts([("rows", sample.rows), ("published", sample.published), ("vouched for by", by)])
