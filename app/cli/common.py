"""What every command shares: its options, its client, and how it speaks to people and to machines."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, TypeAdapter

from purse import Client, text
from purse.wire.allotments import Allotment
from purse.wire.datasets import PrivacyLoss, Promise
from purse.wire.problems import Remaining

_ANYTHING: TypeAdapter[object] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))

DEFAULT_URL = "http://127.0.0.1:8000"

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]
Url = Annotated[str, typer.Option("--url", envvar="PURSE_URL", help="The server; its token is in PURSE_TOKEN.")]
Home = Annotated[
    Path | None, typer.Option("--home", envvar="PURSE_HOME", help="Where state lives; ./purse-data if unset.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Stay until it is finished.")]
Key = Annotated[
    str | None, typer.Option("--idempotency-key", help="The same key never charges twice; made up if left out.")
]
Quoted = Annotated[bool, typer.Option("--quote", help="What it would cost; charges nothing.")]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss epsilon, 0.001 to 100.")]
Delta = Annotated[float | None, typer.Option("--delta", "-d", help="Privacy slack delta; the dataset's if left out.")]
Dataset = Annotated[str, typer.Argument(help="A dataset's id or name.")]
Job = Annotated[str, typer.Argument(help="A job's id.")]
Sheet = Annotated[str | None, typer.Option(help="Of a workbook that has several sheets, the one that is meant.")]
OldestFirst = Annotated[bool, typer.Option("--oldest-first", help="In the order in which they came.")]


class Refusal(Exception):
    """A command cannot do what it was asked; the message says what to do."""


def connect(url: str) -> Client:
    """A client of the server that PURSE_URL and PURSE_TOKEN name."""
    return Client(url, os.environ.get("PURSE_TOKEN") or None)


def emit(document: object, as_json: bool, say: Callable[[], object]) -> None:
    """The document for a machine, or what `say` says for people."""
    if as_json:
        sys.stdout.write(json.dumps(_ANYTHING.dump_python(document, mode="json"), indent=2, ensure_ascii=False) + "\n")
    else:
        say()


def note(text: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(text + "\n")


def table(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Rows under headings, on stdout."""
    sys.stdout.write(text.table(headings, rows))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line, on stdout."""
    sys.stdout.write(text.facts(pairs))


def percent(share: float) -> str:
    """A part of a budget, for people."""
    return f"{100 * share:.3g} %"


def loss(value: Allotment | PrivacyLoss | Promise | Remaining | None) -> str:
    """An (epsilon, delta) in words."""
    return "-" if value is None else f"epsilon {value.epsilon:.4g} at delta {value.delta:.3g}"


def read_json(path: Path) -> Any:
    """The JSON value in a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON") from error


def write_json(path: Path, document: BaseModel) -> Path:
    """Writes the document, indented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return path
