"""The help of commands: an overview in sections, and an example first."""

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from app.cli.table import SECTIONS, SUMMARIES

_BOTH_BOUNDS: Final = re.compile(r"\[([\d.]+)<=x<=([\d.]+)\]")  # as Click writes the bounds of a number
_ONE_BOUND: Final = re.compile(r"\[x>=([\d.]+)\]")
_EXAMPLE: Final = "\b\nExample"  # where a docstring's examples begin
DEFAULTS: Final[Mapping[str, str]] = {"jobs": "list", "sessions": "list", "worker": "run"}
"""The command of a group that runs if the command line names none."""


class Overview(TyperGroup):
    """The whole program. Its help fits on one screen."""

    def format_help(self, _ctx: Any, formatter: Any) -> None:
        """Write the commands by section."""
        formatter.write(f"Usage: purse COMMAND [OPTIONS]\n\n{self.help}\n")
        for section, names in SECTIONS.items():
            formatter.write(f"\n{section}\n")
            for name in names:
                formatter.write(f"  {name:<10}  {SUMMARIES[name]}\n")
        formatter.write(
            "\nSet PURSE_URL to the server and PURSE_TOKEN to your token.\n"
            "Every command has --help, which begins with an example.\n"
            "Options: --help, --version, --install-completion\n"
        )


class CommandGroup(TyperGroup):
    """A group of commands, whose help begins with an example of each."""

    def format_help_text(self, _ctx: Any, formatter: Any) -> None:
        """Write the first example of each command, then the summary."""
        examples = (_examples(command.help or "")[1:2] for command in self.commands.values())
        lines = [line for first in examples for line in first if not line.endswith("\\")]
        _write_help(formatter, ["Examples:", *lines] if lines else [], f"{self.help}.")


class DefaultGroup(CommandGroup):
    """A group with a default command, such as `purse jobs` for `purse jobs list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command if the arguments name no command."""
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else [DEFAULTS[str(self.name)], *args])

    def format_epilog(self, _ctx: Any, formatter: Any) -> None:
        """Name the default command."""
        group = f"purse {self.name}"
        formatter.write(f"\n`{group}` is short for `{group} {DEFAULTS[str(self.name)]}`.\n")


class ExampleFirst(TyperCommand):
    """A command whose help begins with an example, and whose refusals of a value say what to pass instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; the error about a value of a wrong type states the values that are accepted."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            expected = _expected(error.param.type) if error.param else None
            if expected and type(error) is typer.BadParameter:  # not the subclass for a missing value
                error.message = f"must be {expected}."
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options; a bounded number is named like any other, as the help states its bounds."""
        for each in self.params:
            each.type.name = each.type.name.removesuffix(" range")
        begin = len(formatter.buffer)
        super().format_options(ctx, formatter)
        written = "".join(formatter.buffer[begin:])
        formatter.buffer[begin:] = [_ONE_BOUND.sub(r"[\1 or more]", _BOTH_BOUNDS.sub(r"[\1 to \2]", written))]

    def format_help_text(self, _ctx: Any, formatter: Any) -> None:
        """Write the example of the docstring, then the rest of it."""
        text = inspect.cleandoc(self.help or "").partition(_EXAMPLE)[0]
        _write_help(formatter, _examples(self.help or ""), text.strip())


def _expected(kind: Any) -> str | None:
    """Return the values that a type of the command line accepts, or None if the type explains them itself."""
    if kind.name == "choice":
        return f"one of: {', '.join(map(str, kind.choices))}"
    if kind.name == "datetime":
        return "a day such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z"
    number, example = ("a number", 0.5) if kind.name.startswith("float") else ("a whole number", 10)
    if not kind.name.startswith(("float", "int")):
        return None
    bounds = (("at least", getattr(kind, "min", None)), ("at most", getattr(kind, "max", None)))
    limits = [f"{word} {bound}" for word, bound in bounds if bound is not None]
    return f"{number}, {' and '.join(limits) or f'such as {example}'}"


def _examples(docstring: str) -> list[str]:
    """Return the lines of the examples, their heading first; empty if the docstring has none."""
    _, mark, lines = inspect.cleandoc(docstring).partition(_EXAMPLE)
    return f"Example{lines}".rstrip().splitlines() if mark else []


def _write_help(formatter: Any, examples: list[str], text: str) -> None:
    if examples:
        formatter.write("\n" + "".join(f"  {line}".rstrip() + "\n" for line in examples))
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(text)
