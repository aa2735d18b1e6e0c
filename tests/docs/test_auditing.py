"""docs/auditing.md is true: its session runs, line by line as shown, and its last commands with no server in reach."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from purse import Client
from tests.support.console import blocks, steps
from tests.support.live import live
from tests.support.service import SPEC, people
from tests.support.session import Session

PAGE = Path(__file__).parents[2] / "docs" / "auditing.md"
OFFLINE = ("purse ledger verify", "purse receipt verify")


@pytest.mark.slow
def test_the_session_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(people(400))
    with live(tmp_path / "home") as running, Client(running.url, running.token) as client:
        spec: dict[str, Any] = SPEC | {"name": "visits", "budget": {"epsilon": 2.0, "delta": 1e-6}}
        dataset = client.datasets.upload(tmp_path / "people.csv", spec=spec).id
        asked: dict[str, Any] = {"target": "income", "privacy": {"epsilon": 0.5}, "method": {"name": "dp_gd"}}
        client.jobs.submit(dataset=dataset, **asked).result()
        monkeypatch.setenv("PURSE_URL", running.url)
        monkeypatch.setenv("PURSE_TOKEN", client.tokens.create("an auditor", "auditor").token)
        session, shown = Session(capsys), steps(PAGE)
        for step in (step for step in shown if not step[0].startswith(OFFLINE)):
            session.run(*step)
    monkeypatch.setenv("PURSE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("PURSE_TOKEN")
    offline = [step for step in shown if step[0].startswith(OFFLINE)]
    assert shown[-len(offline) :] == offline
    assert len(offline) == 3
    for step in offline:
        session.run(*step)


OPERATIONS = PAGE.with_name("operations.md").read_text()
PLAIN = [block for page in PAGE.parent.glob("*.md") for name in ("", "text") for block in blocks(page, name)]
COMMANDS = [line for block in PLAIN for line in re.findall(r"^purse (.*?)(?: +#.*| > .*)?$", block, re.MULTILINE)]
COMMANDS += re.findall(r"`purse (.*?)(?: \.\.\.)?`", OPERATIONS)


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_commands_that_are_not_run_exist_with_these_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command), "--help"])
    assert (ended.value.code, "Usage: purse" in capsys.readouterr().out) == (0, True)
