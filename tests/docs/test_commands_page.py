"""docs/commands.md: every route has its row and a command that is there; how commands end is as it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli import main, running
from app.cli.commands import EVERY, program
from app.cli.table import COMMANDS
from app.http.routing import routes
from app.main import ROUTERS

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
PROGRAM: Any = typer.main.get_command(program(EVERY))


def test_every_route_has_a_row_with_a_command() -> None:
    table = {row[0].strip("`"): row[1] for row in ROWS if len(row) == 2}
    missing = {f"{method} {route.path}" for route in routes(ROUTERS) for method in route.methods or ()} - set(table)
    assert missing == set(), "docs/commands.md needs a row with the command, or another way, for each route"
    for command in table.values():
        words, command_group = command.strip("`").split()[1:], PROGRAM
        for word in words if command.startswith("`purse") else ():
            command_group = command_group.commands[word]
        assert not hasattr(command_group, "commands") or command_group is PROGRAM, command


@pytest.mark.parametrize("words", [command.words for command in COMMANDS])
def test_every_command_is_named(words: str) -> None:
    assert re.search(rf"`(?:purse )?{words.split()[0]}\b", PAGE)


def _interrupted(_url: str) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_exit_codes_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = {}
    for arguments in (["--version"], ["model", "job_a", "--url", "nowhere", "--json"], ["model"], ["datasets"]):
        if arguments == ["datasets"]:
            monkeypatch.setattr(running, "connect", _interrupted)
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        outputs[f"`{exit_info.value.code or 0}`"] = capsys.readouterr()
    assert [row[0] for row in ROWS if len(row) == 3] == list(outputs)
    refused = outputs["`1`"]
    assert set(json.loads(refused.out)) == {"code", "status", "detail", "remaining"}
    assert refused.err.startswith("purse: ")
    assert refused.err.count("\n") == 1
    assert "Usage" in outputs["`2`"].err
