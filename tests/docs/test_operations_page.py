"""The runbook's commands are commands: each line that runs `purse`, here or in a container, is parsed as it would."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.commands import EVERY, program
from app.cli.help import DEFAULTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operations.md").read_text()
BLOCKS = "\n".join(re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
INLINE = "\n".join(re.findall(r"`(purse [^`]*[^`.])`", PAGE))
EXEC_PREFIX = r"docker compose exec server |kubectl exec --namespace privy-purse deployment/server -- "
RUN_PREFIX = r"docker compose run .*--entrypoint (purse) server"
HERE = re.sub(f"^(?:{EXEC_PREFIX}|{RUN_PREFIX})", r"\1", f"{BLOCKS}\n{INLINE}", flags=re.MULTILINE)
LINES = sorted(set(re.findall(r"^(?:[A-Z_]+=\S+ )*(purse .*)$", HERE, re.MULTILINE)))


@pytest.mark.parametrize("line", LINES)
def test_each_line_is_a_command(line: str) -> None:
    """Names, options and number of arguments are valid; of an abbreviated line ("...") names and options are."""
    words = shlex.split(line.replace(" ...", ""))[1:]
    command: Any = typer.main.get_command(program(EVERY))
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if words and "..." not in line:
        command.make_context(line, words)
    command = getattr(command, "commands", {}).get(DEFAULTS.get(command.name), command)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= options


def test_the_table_of_log_lines_has_every_warning_and_error_of_the_service() -> None:
    severe = r"\.(?:warning|error|critical)\(\s*\"([a-z]+(?:_[a-z]+)+)\b"
    of_attempts = r"_log_attempt\([^\"\n]*\"([a-z_]+)[^\n]*logging\.(?:ERROR|WARNING)"
    sources = "\n".join(file.read_text() for file in (ROOT / "app").rglob("*.py"))
    logged = {*re.findall(severe, sources), *re.findall(of_attempts, sources)}
    assert len(logged) > 15
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    assert logged <= set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_the_runbook_has_its_commands() -> None:
    assert len(LINES) > 15
    assert {"purse ledger verify", "purse ledger new-key --is-lost", "purse server backup /backups/2026-11-22"} <= set(
        LINES
    )
    for verb in (
        "serve",
        "server backup",
        "ledger verify",
        "keys rotate",
        "token rotate",
        "dataset freeze",
        "server copy-database",
    ):
        assert any(line.startswith(f"purse {verb}") for line in LINES), verb
