"""docs/http.md names existing commands for each route; docs/commands.md states how commands end."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli import running
from app.cli.commands import EVERY, program
from tests.support.cli import purse

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text()
ROUTES_PAGE = (DOCS / "http.md").read_text()
PROGRAM: Any = typer.main.get_command(program(EVERY))


def rows(page: str, columns: int) -> list[list[str]]:
    """Return the cells of the rows that begin with code, in tables with so many columns."""
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == columns]


@pytest.mark.parametrize("row", rows(ROUTES_PAGE, 4), ids=lambda row: row[0])
def test_the_commands_of_a_route_exist(row: list[str]) -> None:
    """`test_every_route_has_its_row_and_no_row_is_left_over` requires a row for each route."""
    commands = re.findall(r"`purse ([a-z ]+)`", row[3])
    assert row[3] == (", ".join(f"`purse {command}`" for command in commands) or "none")
    for command in commands:
        group = PROGRAM
        for word in command.split():
            group = group.commands[word]
        assert not hasattr(group, "commands")


def _interrupted(_url: str) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_exit_codes_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = {}
    for arguments in (["--version"], ["model", "job_a", "--url", "nowhere", "--json"], ["model"], ["datasets"]):
        if arguments == ["datasets"]:
            monkeypatch.setattr(running, "connect", _interrupted)
        code, *outputs_of_command = purse(capsys, *arguments)
        outputs[f"`{code}`"] = outputs_of_command
    assert [row[0] for row in rows(PAGE, 3)] == list(outputs)
    out, err = outputs["`1`"]
    assert set(json.loads(out)) == {"code", "status", "detail", "remaining"}
    assert err.startswith("purse: ")
    assert err.count("\n") == 1
    assert "Usage" in outputs["`2`"][1]
