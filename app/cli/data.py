"""purse upload, purse budget."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import progress
from rich.console import Console

from app.cli.common import (
    DEFAULT_URL,
    Json,
    OldestFirst,
    Sheet,
    Url,
    connect,
    emit,
    facts,
    loss,
    note,
    percent,
    read_json,
    table,
)
from app.cli.reports import cures, show
from app.cli.sharing import show_allotments
from purse.client.calls import dialect_of
from purse.excel import readable
from purse.wire.base import Order
from purse.wire.columns import Column
from purse.wire.datasets import BudgetStatus, Dataset, DatasetState, Registered
from purse.wire.neighbors import lines


def upload(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A CSV (.gz, .zst) or Parquet file, or a workbook.")
    ],
    spec: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="JSON: name, columns, budget, dialect.")],
    resume: Annotated[str | None, typer.Option(help="The upload of an earlier try, as its error named it.")] = None,
    sheet: Sheet = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Register a file as a dataset, under declared bounds and a budget. `purse check` says before what will not parse.

    A large file goes in parts, through lost connections.

    \b
    Example:
      purse upload census.csv --spec census.json
    where census.json is
      {"name": "census",
       "columns": [{"name": "age", "type": "number", "lower": 17, "upper": 90},
                   {"name": "income", "type": "category", "categories": ["<=50K", ">50K"]}],
       "budget": {"epsilon": 3.0, "delta": 1e-6}}
    """
    declared = read_json(spec)
    with (
        connect(url) as client,
        readable(file, dialect_of(declared), sheet) as plain,
        progress.open(
            plain,
            "rb",
            description="uploading",
            transient=True,
            disable=json or not sys.stderr.isatty(),
            console=Console(stderr=True),
        ) as source,
    ):
        dataset = client.datasets.upload(source, spec=declared, resume=resume)
    emit(dataset, json, lambda: _made(dataset))


def datasets(
    dataset: Annotated[str | None, typer.Argument(help="A dataset's id or name; all if left out.")] = None,
    state: Annotated[DatasetState | None, typer.Option(help="Only those in this state.")] = None,
    family: Annotated[str | None, typer.Option(help="Only those of this family.")] = None,
    oldest_first: OldestFirst = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """The datasets that this token may see, the newest first; of one of them its columns, as declared.

    \b
    Examples:
      purse datasets
      purse datasets --state frozen
      purse datasets census
    """
    with connect(url) as client:
        if dataset is None:
            order: Order = "asc" if oldest_first else "desc"
            found = client.datasets.list(state=state, family=family, order=order)
            emit(found, json, lambda: _list(list(found)))
        else:
            one = client.datasets.get(dataset)
            emit(one, json, lambda: _declared(one))


def budget(
    dataset: Annotated[str | None, typer.Argument(help="A dataset's id or name; all datasets if left out.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """What is spent of a dataset's budget and what remains.

    \b
    Examples:
      purse budget
      purse budget census
    """
    with connect(url) as client:
        if dataset is None:
            found = client.datasets.list()
            emit(found, json, lambda: _list(list(found)))
        else:
            status = client.datasets.budget(dataset)
            emit(status, json, lambda: _budget(status))


def _made(dataset: Registered) -> None:
    _show(dataset)
    if any(column.outcomes for column in dataset.report.columns):
        show(dataset.report)
    for line in cures(dataset.report):
        note(line)


def _show(dataset: Dataset) -> None:
    counted = (f"{dataset.unit.name}s", dataset.rows or dataset.persons)
    facts([("dataset", dataset.id), ("name", dataset.name), counted, *_standing(dataset.budget)])
    for warning in dataset.warnings:
        note(f"warning: {warning}")


def _list(datasets: list[Dataset]) -> None:
    rows = [(d.id, d.name, f"{d.rows or d.persons} {d.unit.name}s", d.budget.jobs, *_left(d.budget)) for d in datasets]
    table(("id", "name", "records", "jobs", "share", "remaining"), rows)


def _declared(dataset: Dataset) -> None:
    _show(dataset)
    table(("column", "type", "values", "default"), [_column(column) for column in dataset.columns])


def _column(column: Column) -> tuple[object, ...]:
    default = "-" if column.default is None else column.default
    if column.type == "number":
        return column.name, column.type, f"{column.lower:g} to {column.upper:g}", default
    more = f" and {len(column.categories) - 8} more" if column.categories[8:] else ""
    return column.name, column.type, ", ".join(column.categories[:8]) + more, default


def _left(status: BudgetStatus) -> tuple[str, str]:
    return percent(status.share), loss(status.remaining)


def _budget(status: BudgetStatus) -> None:
    facts(_standing(status))
    if status.analysts:
        rows = [(a.analyst, a.jobs, percent(a.share), loss(a.spent)) for a in status.analysts]
        table(("analyst", "jobs", "share", "spent"), rows)
    allotted = [a.allotment for a in status.analysts if a.allotment is not None]
    if allotted:
        show_allotments(allotted)


def _standing(status: BudgetStatus) -> list[tuple[str, object]]:
    return [
        ("budget", f"epsilon {status.epsilon:.4g} at delta {status.delta:.3g} ({status.filter} filter)"),
        ("protected", status.unit),
        *lines(status.neighbors, status.epsilon, status.delta),
        ("share", f"{percent(status.share)} is spent, {percent(1 - status.share)} remains"),
        ("spent", loss(status.spent)),
        ("remaining", f"{loss(status.remaining)}: the largest further job"),
        ("jobs", status.jobs),
        *promised(status),
    ]


def promised(status: BudgetStatus) -> list[tuple[str, object]]:
    """What is to be known of a budget that was raised, frozen or exceeded."""
    made = [("promised", f"{loss(made)} since {made.since}") for made in status.promises]
    return [
        *(made if len(made) > 1 else []),
        *([("frozen", "nothing is charged and no job starts")] if status.frozen else []),
        *(
            [("exceeded", "what ran elsewhere cost more than was left: the promise is broken")]
            if status.exceeded
            else []
        ),
    ]
