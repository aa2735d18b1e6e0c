"""purse check: read a file by its declaration on this machine, or draft a declaration."""

import sys
from pathlib import Path

from rich import progress
from rich.console import Console

from app.cli import late
from app.cli.options import File, OptionalFile, Sheet
from app.cli.output import Output, Refusal, to_json
from app.cli.reports import cures, outcomes
from app.cli.specs import read_spec
from app.sources.errors import SourceError, Unparsed, refusals
from purse import text
from purse.excel import readable
from purse.wire.datasets import DatasetSpec
from purse.wire.files import FileReport


def check(
    file: File, spec: OptionalFile = None, target: list[str] | None = None, propose: bool = False, sheet: Sheet = None
) -> Output:
    """Check a local file against its declaration.

    Nothing is sent. The exit code is 1 if a server would refuse the file. The report contains values of the file, so
    protect it like the file.

    Parameters
    ----------
    file : A CSV or Parquet file, or a workbook.
    spec : JSON file with a spec, or the list of its columns.
    target : A column to predict. At most 1 % of it may be unparsed. Repeatable.
    propose : Draft a spec with names and types. You fill in the bounds.

    \b
    Examples:
      purse check stays.csv --propose > stays.json    # a draft to fill in
      purse check stays.csv --spec stays.json --target cost
      purse check stays.xlsx --sheet 2025 --spec stays.json
    """
    if propose == (spec is not None):
        raise Refusal("Give either --spec FILE or --propose.")
    if spec is None:
        with readable(file, sheet=sheet) as plain:
            return _draft(plain)
    declared, _ = read_spec(spec)
    if target:
        names = [column.name for column in declared.columns]
        for unknown in (name for name in target if name not in names):
            raise Refusal(f"--target {unknown} is not a declared column. Declared columns: {', '.join(names)}.")
        declared = DatasetSpec.model_validate(dict(declared) | {"targets": [*declared.targets, *target]})
    with readable(file, declared.dialect, sheet) as plain:
        report = _report(plain, declared)
    refused = [column.name for column in report.refused]
    lines = [reason for column in report.refused for reason in refusals(column)] + list(cures(report))
    printed = outcomes(report) + "".join(map(text.paragraph, lines))
    return Output(report.model_dump() | {"refused": refused}, printed, exit_code=1 if refused else 0)


def _report(file: Path, spec: DatasetSpec) -> FileReport:
    reading, tally = late.ingest.Reading.of(spec)
    people = None if spec.unit is None else late.persons.People(spec.unit)
    bar = progress.Progress("checking", progress.SpinnerColumn(), "{task.completed:,} records", transient=True)
    bar.live.console = Console(stderr=True)
    bar.disable = not sys.stderr.isatty()
    try:
        with bar:
            task = bar.add_task("", total=None)
            for block in late.ingest.encoded(file, reading, people):
                bar.advance(task, len(block))
    except Unparsed as error:
        return error.report
    except SourceError as error:
        raise Refusal(f"{error.detail} {late.proposal.hint(file, spec.dialect)}".strip()) from None
    return tally.report


def _draft(file: Path) -> Output:
    """Return a draft of a file's declaration as the result of the command."""
    draft = late.proposal.drafted(file)
    notes = [
        "purse: This is a draft. Fill in lower and upper from what you know about such values, never from this file: "
        "bounds are public, and a bound from the file reveals a value. Keep only categories that are publicly known to "
        "be possible, and add missing ones. Choose a budget."
    ]
    if nulls := draft.spec.get("dialect", {}).get("nulls"):
        notes.append(
            f"purse: `nulls` lists texts that probably mean a missing value: {', '.join(map(repr, nulls))}. They count "
            "as missing in every column. Remove those that are values."
        )
    if draft.left_out:
        limit = late.proposal.MOST_CATEGORIES
        notes.append(
            f"purse: Left out, because they are empty or have more than {limit} different texts: "
            f"{', '.join(map(repr, draft.left_out))}. If one names the persons, state it as `unit`. If the categories "
            "of one are public, list them."
        )
    return Output(draft.spec, to_json(draft.spec), [text.paragraph(note).rstrip() for note in notes])
