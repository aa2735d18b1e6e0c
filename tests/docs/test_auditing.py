"""docs/auditing.md is true: its session runs, line by line as shown, and its last commands with no server in reach."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from purse import Client
from tests.support.live import live
from tests.support.service import SPEC, people

PAGE = Path(__file__).parents[2] / "docs" / "auditing.md"
(SESSION,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
JOB, HEAD = re.compile(r"job_[a-z0-9]{20}"), re.compile(r"\d+:[0-9a-f]{64}")
OFFLINE = ("ledger verify", "receipt verify")


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
        head = str(client.jobs.receipt(client.jobs.list()[0].id).head)
        names = {"job": client.jobs.list()[0].id, "head": head}
        steps = re.findall(r"^\$ purse (.*)\n((?:(?!\$ ).*\n)*)", SESSION, re.MULTILINE)
        for command, shown in (step for step in steps if not step[0].startswith(OFFLINE)):
            _run(command, shown, names, capsys)
    monkeypatch.setenv("PURSE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("PURSE_TOKEN")
    offline = [step for step in steps if step[0].startswith(OFFLINE)]
    assert steps[-len(offline) :] == offline
    assert len(offline) == 3
    for command, shown in offline:
        _run(command, shown, names, capsys)


OPERATIONS = PAGE.with_name("operations.md").read_text()
COMMANDS = re.findall(r"^purse (.*)$", OPERATIONS, re.MULTILINE) + re.findall(r"`purse (.*?)(?: \.\.\.)?`", OPERATIONS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_operators_commands_exist_with_these_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command), "--help"])
    assert (ended.value.code, "Usage: purse" in capsys.readouterr().out) == (0, True)


def _run(command: str, shown: str, names: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    given, expected = (HEAD.sub(names["head"], JOB.sub(names["job"], text)) for text in (command, shown))
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(given))
    said = capsys.readouterr()
    assert ended.value.code == 0, (given, said)
    if "--json" not in command:
        assert [line.split()[0] for line in said.out.splitlines()] == [
            line.split()[0] for line in expected.splitlines()
        ]
        assert HEAD.findall(said.out) == HEAD.findall(expected)
