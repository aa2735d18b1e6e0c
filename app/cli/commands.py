"""The command line: its commands, loaded when they run, and the end of each command."""

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module  # noqa: TID251 (modules of this package alone; a test loads every command)
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from app.cli.help import DEFAULTS, CommandGroup, DefaultGroup, ExampleFirst, Overview
from app.cli.table import COMMANDS, SUMMARIES, Command

if TYPE_CHECKING:
    from app.calculation.calculators import CalculatingProcess

EVERY: Final = "*"
_LOCATION = re.compile(r"\b(?:body|query)(?:\.privacy)?(?:\.(?=\w)|: )")  # before a field, which has the option's name
_ADVICE = {
    "unauthenticated": "Set PURSE_TOKEN to it. The steward's command is `purse token create NAME --role analyst`.",
    "not_ready": "The server is starting. Try again in a few seconds.",
    "unexpected_response": "Check PURSE_URL.",
}


def program(first_word: str) -> typer.Typer:
    """Return the command line.

    Parameters
    ----------
    first_word : of the commands to load; `EVERY` loads all of them. Other commands have only their summary.
    """
    purse = typer.Typer(
        name="purse",
        cls=Overview,
        help="Private models and statistics with signed receipts.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    purse.callback()(_options)
    groups = {"": purse}
    for command in COMMANDS:
        above, _, name = command.words.rpartition(" ")
        is_loaded = first_word in (EVERY, command.words.split()[0])
        _group(groups, above).command(
            name, cls=ExampleFirst, help=None if is_loaded else command.summary, short_help=command.summary
        )(_load(command) if is_loaded else _placeholder)
    return purse


def _group(groups: dict[str, typer.Typer], words: str) -> typer.Typer:
    """Return the group of these words; add it if it is new."""
    if words not in groups:
        above, _, name = words.rpartition(" ")
        has_default = words in DEFAULTS
        groups[words] = typer.Typer(
            cls=DefaultGroup if has_default else CommandGroup, help=SUMMARIES[words], no_args_is_help=not has_default
        )
        _group(groups, above).add_typer(groups[words], name=name)
    return groups[words]


def _load(command: Command) -> Callable[..., None]:
    from app.cli.running import as_command

    module, _, name = command.target.partition(".")
    return as_command(getattr(import_module(f"app.cli.{module}"), name))


def _placeholder() -> None:
    """Stand for a command that is not loaded."""


def _print_version(is_requested: bool) -> None:
    if is_requested:
        sys.stdout.write(f"{version('privy-purse')}\n")
        raise typer.Exit


def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


def run(arguments: Sequence[str], calculating: "CalculatingProcess | None" = None) -> NoReturn:
    """Run one command and exit.

    Parameters
    ----------
    arguments : the command line after `purse`
    calculating : the process that calculates prices, for a command that starts a server
    """
    completed = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]
    first_word = next((word for word in arguments or completed if not word.startswith("-")), "")
    try:
        program(first_word)(args=list(arguments), prog_name="purse", obj=calculating)
    except Exception as error:
        fail(error, f"purse {first_word}", "--json" in arguments)
    sys.exit(0)


def fail(error: Exception, command: str, as_json: bool = False) -> NoReturn:
    """Report an error and exit with code 1. Raise an error that is neither a refusal nor a failed connection."""
    from pydantic import ValidationError  # late, as the next: the list of commands needs none of them

    from app.cli.output import Refusal
    from app.cli.reports import cures
    from app.http.errors import ApiError
    from app.persistence.files import StartRefused, described
    from app.sources.errors import SourceError
    from purse import ClientError, ProblemError
    from purse.errors import faults, problem
    from purse.extras import lacking

    if isinstance(error, ModuleNotFoundError):
        error = lacking(command, error)
    if isinstance(error, ApiError):  # by a part of the server that runs in this process
        error = problem(error.status, error.details().model_dump_json().encode())
    if not isinstance(error, ClientError | Refusal | StartRefused | SourceError | OSError | TimeoutError | ValueError):
        raise error
    detail = described(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, ValidationError):
        detail = faults(error)
    sentences = [detail or type(error).__name__, *getattr(error, "__notes__", ())]
    refusal = error if isinstance(error, ProblemError) else None
    if refusal is not None:
        sentences += [_ADVICE[refusal.code]] if refusal.code in _ADVICE else []
    text = _LOCATION.sub("", " ".join(_sentence(each) for each in sentences))
    report = refusal.report if refusal else None
    if as_json:
        document = {
            "code": refusal.code if refusal else "failed",
            "status": refusal.status if refusal else None,
            "detail": text,
            "remaining": refusal.remaining.model_dump() if refusal and refusal.remaining else None,
        }
        document |= {"report": report.model_dump()} if report else {}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stderr.write(f"purse: {' '.join(text.split())}\n")
    for line in cures(report) if report else ():
        sys.stderr.write(f"  {line}\n")
    sys.exit(1)


def _sentence(text: str) -> str:
    """Return a text with a full stop at its end, unless it ends with a mark or a command."""
    return text if text.endswith((".", "?", "!", "`")) else f"{text}."
