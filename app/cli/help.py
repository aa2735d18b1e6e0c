"""The help of commands: an overview in sections, and an example first."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from app.cli.table import SECTIONS, SUMMARIES

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
            "\nSet PURSE_URL to the server and PURSE_TOKEN to your token. Every command has --help.\n"
            "Options: --help, --version, --install-completion, --show-completion\n"
        )


class Group(TyperGroup):
    """A group of commands, whose help begins with an example of each."""

    def format_help_text(self, _ctx: Any, formatter: Any) -> None:
        """Write the first example of each command, then the summary."""
        examples = (_examples(command.help or "")[1:2] for command in self.commands.values())
        lines = [line for first in examples for line in first if not line.endswith("\\")]
        _write_help(formatter, ["Examples:", *lines] if lines else [], f"{self.help}.")


class DefaultGroup(Group):
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
    """A command whose help begins with an example."""

    def format_help_text(self, _ctx: Any, formatter: Any) -> None:
        """Write the example of the docstring, then the rest of it."""
        text = inspect.cleandoc(self.help or "").partition(_EXAMPLE)[0]
        _write_help(formatter, _examples(self.help or ""), text.strip())


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
