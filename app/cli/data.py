"""purse upload, dataset import, dataset declare, datasets, budget."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import progress
from rich.console import Console

from app.cli.options import Explain, File, FileOption, OldestFirst, OptionalArgument, Sheet
from app.cli.output import Output, Refusal, loss, neighbors, read_json
from app.cli.reports import cures, outcomes
from app.cli.sharing import allotment_table
from purse import Client, text
from purse.client.calls import dialect_of
from purse.excel import readable
from purse.wire.budgets import BudgetStatus
from purse.wire.columns import Column
from purse.wire.datasets import SESSION_RULES, Dataset, DatasetState, Registered, listed_order

_SHOWN_CATEGORIES = 8


def upload(client: Client, file: File, spec: FileOption, resume: str | None = None, sheet: Sheet = None) -> Output:
    """Register a file as a dataset.

    The spec declares the columns with their bounds, and the budget. Use `purse check` first to find values that cannot
    be parsed. A large file is sent in parts, which continue after a lost connection.

    Parameters
    ----------
    file : CSV (.gz, .zst) or Parquet file, or workbook.
    spec : JSON file with name, columns, budget and dialect.
    resume : Id of an interrupted upload, as its error message states it.

    \b
    Example:
      purse upload census.csv --spec census.json
    where census.json is
      {"name": "census",
       "columns": [
         {"name": "age", "type": "number", "lower": 17, "upper": 90},
         {"name": "sex", "type": "category", "categories": ["Female", "Male"]}],
       "budget": {"epsilon": 3.0, "delta": 1e-6}}
    """
    declared = _declaration(spec)
    with (
        readable(file, dialect_of(declared), sheet) as plain,
        progress.open(
            plain,
            "rb",
            description="uploading",
            transient=True,
            disable=not sys.stderr.isatty(),
            console=Console(stderr=True),
        ) as source,
    ):
        dataset = client.datasets.upload(source, spec=declared, resume=resume)
    return _registered(dataset)


def import_file(client: Client, path: str, spec: FileOption) -> Output:
    """Register a file from the operator's storage as a dataset.

    The server copies the file from the folder or object storage that its operator has set as PURSE_IMPORT_URL. Nothing
    is sent from this machine. The file there is neither changed nor deleted.

    Parameters
    ----------
    path : Path of the CSV or Parquet file below PURSE_IMPORT_URL.
    spec : JSON file with name, columns, budget and dialect.

    \b
    Example:
      purse dataset import 2026/visits.parquet --spec visits.json
    """
    return _registered(client.datasets.import_file(path, spec=_declaration(spec)))


def _registered(dataset: Registered) -> Output:
    """Return what is printed after a registration: the facts, the report of the values, and warnings."""
    has_outcomes = any(column.outcomes for column in dataset.report.columns)
    table = outcomes(dataset.report) if has_outcomes else ""
    notes = [text.paragraph(line).rstrip() for line in dict.fromkeys((*_warnings(dataset), *cures(dataset.report)))]
    return Output(dataset, _facts(dataset) + table, notes)


def declare(client: Client, spec: FileOption) -> Output:
    """Register a dataset whose records are elsewhere.

    No file is sent. The server accounts for answers that other programs compute from the records, and computes none.
    The spec states the public number of rows, or of persons with all their rows.

    \b
    Example:
      purse dataset declare --spec registry.json
    where registry.json is
      {"name": "registry", "rows": 50000,
       "budget": {"epsilon": 3.0, "delta": 1e-6}}

    Parameters
    ----------
    spec : JSON file with name, budget, and rows or unit.
    """
    dataset = client.datasets.declare(spec=_declaration(spec))
    return Output(dataset, _facts(dataset), _warnings(dataset))


def datasets(
    client: Client,
    dataset: OptionalArgument = None,
    state: DatasetState | None = None,
    family: str | None = None,
    oldest_first: OldestFirst = False,
    explain: Explain = False,
) -> Output:
    """List datasets, or show the columns of one.

    The list contains the datasets that your token may see, the newest first.

    Parameters
    ----------
    dataset : A dataset's id or name. Default: all datasets.
    state : List only datasets in this state.
    family : List only datasets of this family.

    \b
    Examples:
      purse datasets
      purse datasets --state frozen
      purse datasets census --explain
    """
    if dataset is None:
        return _listed(client.datasets.list(state=state, family=family, order="asc" if oldest_first else "desc"))
    described = client.datasets.get(dataset)
    columns = text.table(("column", "type", "values", "default"), map(_column, described.columns))
    report = _facts(described, explain) + (columns if described.columns else "")
    return Output(described, report, _warnings(described))


def budget(client: Client, dataset: OptionalArgument = None, explain: Explain = False) -> Output:
    """Show the spent and the remaining budget.

    Parameters
    ----------
    dataset : A dataset's id or name. Default: all datasets.

    \b
    Examples:
      purse budget
      purse budget census
    """
    if dataset is None:
        return _listed(client.datasets.list())
    status = client.datasets.budget(dataset)
    report = text.facts(_standing(status, explain))
    if status.analysts:
        rows = [(each.analyst, each.jobs, text.percent(each.share), loss(each.spent)) for each in status.analysts]
        report += text.table(("analyst", "jobs", "share", "spent"), rows)
    allotments = [each.allotment for each in status.analysts if each.allotment is not None]
    return Output(status, report + (allotment_table(allotments) if allotments else ""))


def _declaration(spec: Path) -> dict[str, Any]:
    declared = read_json(spec)
    if not isinstance(declared, dict):
        raise Refusal(f"{spec} is not a spec. It must contain a JSON object with name, budget, and columns or rows.")
    return declared


def _facts(dataset: Dataset, explain: bool = False) -> str:
    size = (f"{dataset.unit.name}s", dataset.rows or dataset.persons)
    place = [] if dataset.data == "stored" else [("records", dataset.data)]
    identity = [("dataset", dataset.id), ("name", dataset.name), size, *place]
    return text.facts([*identity, *_standing(dataset.budget, explain), sessions_rule(dataset)])


def sessions_rule(dataset: Dataset) -> tuple[str, str]:
    """Return the line about a dataset's rule for sessions."""
    has_holdout = dataset.holdout is not None or dataset.holdout_of is not None
    return "sessions", "refused, because there is a holdout set" if has_holdout else SESSION_RULES[dataset.sessions]


def _warnings(dataset: Dataset) -> list[str]:
    return [f"warning: {warning}" for warning in dataset.warnings]


def _listed(datasets: Sequence[Dataset]) -> Output:
    """Return a list of datasets as the result of a command. In its table, a holdout set follows its dataset."""
    order = listed_order([(each.id, each.holdout_of) for each in datasets])
    rows = [
        (
            each.id,
            each.name,
            f"{each.rows or each.persons:,} {each.unit.name}s",
            each.budget.jobs,
            text.percent(each.budget.share),
            f"epsilon {each.budget.remaining.epsilon:.4g}",
        )
        for each in (datasets[at] for at in order)
    ]
    return Output(datasets, text.table(("id", "name", "records", "jobs", "spent", "remaining"), rows))


def _column(column: Column) -> tuple[object, ...]:
    default = "-" if column.default is None else column.default
    if column.type == "number":
        return column.name, column.type, f"{column.lower:g} to {column.upper:g}", default
    hidden = len(column.categories) - _SHOWN_CATEGORIES
    values = ", ".join(column.categories[:_SHOWN_CATEGORIES]) + (f" and {hidden:,} more" if hidden > 0 else "")
    return column.name, column.type, values, default


def _standing(status: BudgetStatus, explain: bool) -> list[tuple[str, object]]:
    return [
        ("budget", f"{text.loss(status.epsilon, status.delta)} ({status.filter} filter){_part(status)}"),
        ("protected", status.unit),
        neighbors(status, explain),
        ("share", f"{text.percent(status.share)} is spent, {text.percent(1 - status.share)} remains"),
        ("spent", loss(status.spent)),
        ("remaining", f"{loss(status.remaining)}: the largest further job"),
        ("jobs", status.jobs),
        *changes(status),
    ]


def _part(status: BudgetStatus) -> str:
    """Return the addition to an analyst's budget if parts of the dataset's budget are reserved."""
    whole = status.promises[-1].epsilon if status.promises else status.epsilon
    return f", your part of epsilon {whole:.4g}" if status.epsilon < whole else ""


def changes(status: BudgetStatus) -> list[tuple[str, object]]:
    """Return the lines for a budget that was changed, frozen or exceeded."""
    guarantees = [("guarantee", f"{loss(promise)} since {promise.since}") for promise in status.promises]
    lines: list[tuple[str, object]] = [*(guarantees if len(guarantees) > 1 else [])]
    if status.frozen:
        lines.append(("frozen", "nothing is charged and no job starts"))
    if status.exceeded:
        lines.append(("exceeded", "computations elsewhere cost more than remained, so the guarantee does not hold"))
    return lines
