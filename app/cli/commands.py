"""The command line: its commands, loaded when they run."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from app.cli import late
from app.cli.help import DEFAULTS, CommandGroup, DefaultGroup, ExampleFirst, Overview
from app.cli.table import COMMANDS, SUMMARIES, Command

if TYPE_CHECKING:
    from app.calculation.calculators import CalculatingProcess

EVERY: Final = "*"


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
    module, _, name = command.target.partition(".")
    return late.running.as_command(getattr(late.load(f"app.cli.{module}"), name))


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
        late.failures.fail(error, f"purse {first_word}", "--json" in arguments)
    sys.exit(0)
