"""purse check: what of a file would not parse, said here and sent nowhere; and a draft of its declaration."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import progress
from rich.console import Console

from app.cli.common import Json, Refusal, Sheet, emit, note
from app.cli.reports import cures, show
from app.cli.specs import read_spec
from app.sources.errors import SourceError, Unparsed, refusals
from purse.excel import readable
from purse.wire.datasets import DatasetSpec
from purse.wire.files import FileReport


def check(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV or Parquet file, or a workbook.")],
    spec: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="JSON: a spec, or the list of its columns.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="A column to be predicted: at most 1 % of it may be unparsed.")
    ] = None,
    propose: Annotated[bool, typer.Option("--propose", help="Draft a spec: names, types, and bounds to fill in.")] = (
        False
    ),
    sheet: Sheet = None,
    json: Json = False,
) -> None:
    """What would become of a file's values under a declaration. Reads here; nothing leaves this machine.

    Exits with 1 where a server would refuse the file. What is said holds values of the file: keep it with the file.

    \b
    Examples:
      purse check stays.csv --propose > stays.json      # a draft; fill in the bounds from what you know
      purse check stays.csv --spec stays.json --target cost
      purse check stays.xlsx --sheet 2025 --spec stays.json
    """
    if propose == (spec is not None):
        raise Refusal("name either --spec FILE or --propose")
    if spec is None:
        with readable(file, sheet=sheet) as plain:
            _propose(plain)
        return
    declared, _ = read_spec(spec)
    if target:
        names = [column.name for column in declared.columns]
        for unknown in (name for name in target if name not in names):
            raise Refusal(f"--target {unknown}: no declared column; there are {', '.join(names)}")
        fields = dict(declared) | {"targets": [*declared.targets, *target]}
        declared = DatasetSpec.model_validate(fields)
    with readable(file, declared.dialect, sheet) as plain:
        report = _counted(plain, declared, shows=not json and sys.stderr.isatty())
    refused = [column.name for column in report.refused]
    emit(report.model_dump() | {"refused": refused}, json, lambda: _show(report))
    if refused:
        raise typer.Exit(1)


def _counted(file: Path, spec: DatasetSpec, shows: bool) -> FileReport:
    from app.cli import proposal  # late, as the next: Arrow
    from app.sources.ingest import Reading, encoded
    from app.sources.persons import People

    reading, tally = Reading.of(spec)
    people = None if spec.unit is None else People(spec.unit)
    bar = progress.Progress("checking", progress.SpinnerColumn(), "{task.completed:,} records", transient=True)
    bar.live.console, bar.disable = Console(stderr=True), not shows
    try:
        with bar:
            task = bar.add_task("", total=None)
            for block in encoded(file, reading, people):
                bar.advance(task, len(block))
    except Unparsed as error:
        return error.report
    except SourceError as error:
        raise Refusal(f"{error.detail} {proposal.hint(file, spec.dialect)}".strip()) from None
    return tally.report


def _show(report: FileReport) -> None:
    show(report)
    for line in (*(reason for column in report.refused for reason in refusals(column)), *cures(report)):
        sys.stdout.write(f"{line}\n")


def _propose(file: Path) -> None:
    from app.cli import proposal

    draft = proposal.drafted(file)
    emit(draft.spec, True, lambda: None)
    note(
        "purse: a draft. Fill in lower and upper from what you know of such things, never from this file: bounds are\n"
        "public, and a bound that is somebody's value tells of them. Keep of the categories those that anybody may\n"
        "know to be possible, and add those that are missing. Choose a budget."
    )
    for name in draft.left_out:
        note(f"purse: {name!r} is left out: it is empty, or text of many kinds; does it name the persons of a `unit`?")
