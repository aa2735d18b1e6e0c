"""The result of a command, as text for people or as a JSON document for programs."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, ConfigDict, TypeAdapter

from accounting.privacy import Unit
from purse import text
from purse.wire.allotments import Allotment
from purse.wire.budgets import BudgetStatus, PrivacyLoss
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.jobs import Quote
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import DatasetProfile
from purse.wire.statistics import ReleasedStatistic

Released = DatasetProfile | ReleasedEvaluation | ReleasedStatistic

_ANY: TypeAdapter[object] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))


class Refusal(Exception):
    """A command cannot do what was requested. The message states the reason and the fix."""


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a command.

    Parameters
    ----------
    document : written to stdout with --json
    text : written to stdout without --json
    notes : lines written to stderr without --json
    exit_code : of the command
    """

    document: object
    text: str = ""
    notes: Sequence[str] = ()
    exit_code: int = 0

    def write(self, as_json: bool) -> None:
        """Write the document, or the text and the notes; then exit if the exit code is not 0."""
        if as_json:
            sys.stdout.write(to_json(self.document))
        else:
            sys.stdout.write(self.text)
            for line in self.notes:
                note(line)
        sys.stdout.flush()
        if self.exit_code:
            raise typer.Exit(self.exit_code)


def to_json(document: object) -> str:
    """Return a document as indented JSON."""
    return json.dumps(_ANY.dump_python(document, mode="json"), indent=2, ensure_ascii=False) + "\n"


def note(line: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(line + "\n")


def loss(value: Allotment | PrivacyLoss | PrivacyStatement | None) -> str:
    """Return an (epsilon, delta) as text, "-" for None."""
    return "-" if value is None else text.loss(value.epsilon, value.delta)


def neighbors(stated: BudgetStatus | Quote, explain: bool) -> tuple[str, str]:
    """Return the line that names the neighbor relation, with its meaning if it is to be explained."""
    if not explain:
        return "neighbors", stated.neighbors
    sentences = f"{stated.neighbors}: {stated.meaning}"
    if (guarantee := stated.elsewhere) is not None:
        sentences += f" Under {guarantee.neighbors}: epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}."
    return "neighbors", sentences


def described(document: BaseModel, *names: str, missing: str = "-") -> str:
    """Return fields of a document as text, under their names. `missing` stands for a field without a value."""
    return text.facts([(name.replace("_", " "), _cell(getattr(document, name), missing)) for name in names])


def _cell(value: object, missing: str) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return missing if value is None else value


def release_output(released: Released, out: Path | None) -> Output:
    """Return a released result as the result of a command: its job, the guarantee, and its tables.

    Parameters
    ----------
    out : file to which the result is also written
    """
    privacy = released.privacy
    rows = f"{privacy.rows or privacy.persons:,} {(privacy.unit or Unit()).name}s"
    if isinstance(released, ReleasedEvaluation):
        rows += f" of the holdout set, for {released.model}"
    heading = (released.kind, f"{released.job}, {rows}")
    facts = text.facts([heading, ("privacy", loss(privacy)), ("neighbors", privacy.neighbors)])
    parts = [facts, *(table.to_text() for table in released.tables())]
    return Output(released, "\n".join(parts), [] if out is None else [write_json(out, released)])


def read_json(path: Path) -> Any:
    """Return the JSON value in a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from error


def write_json(path: Path, document: BaseModel) -> str:
    """Write the document, indented, and return a line that says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(document), "utf-8")
    return f"wrote {path}"
