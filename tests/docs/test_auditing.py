"""docs/auditing.md: its session runs as shown, its last commands and its program without a server."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Relation
from purse import Client
from tests.support import receipts
from tests.support.cli import purse
from tests.support.console import blocks, steps
from tests.support.live import live
from tests.support.service import SPEC, people
from tests.support.session import Session

PAGE = Path(__file__).parents[2] / "docs" / "auditing.md"
(PROGRAM,), (EXPECTED_OUTPUT, ATTACK) = blocks(PAGE, "python"), blocks(PAGE, "text")
OFFLINE = ("purse ledger verify", "purse receipt verify")


@pytest.mark.slow
def test_the_session_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(people(400))
    with live(tmp_path / "home") as running, Client(running.url, running.token) as client:
        spec: dict[str, Any] = SPEC | {"name": "visits", "budget": {"epsilon": 2.0, "delta": 1e-6}}
        dataset = client.datasets.upload(tmp_path / "people.csv", spec=spec).id
        settings: dict[str, Any] = {"target": "income", "privacy": {"epsilon": 0.5}, "method": {"name": "dp_gd"}}
        client.jobs.submit(dataset=dataset, **settings).result()
        monkeypatch.setenv("PURSE_URL", running.url)
        monkeypatch.setenv("PURSE_TOKEN", client.tokens.create("an auditor", "auditor").token)
        session, page_steps = Session(capsys), steps(PAGE)
        for step in (step for step in page_steps if not step[0].startswith(OFFLINE)):
            session.run(*step)
    monkeypatch.setenv("PURSE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("PURSE_TOKEN")
    offline = [step for step in page_steps if step[0].startswith(OFFLINE)]
    assert page_steps[-len(offline) :] == offline
    assert len(offline) == 2
    for step in offline:
        session.run(*step)
    exec(compile(PROGRAM, "auditing.md", "exec"), {})
    printed = [float(number) for number in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    assert printed == pytest.approx([float(number) for number in re.findall(r"\d\.\d+", EXPECTED_OUTPUT)], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_dp_accounting_alone_recomputes_epsilon(relation: Relation) -> None:
    queries = (Query("means", 1, Gaussian(), 0.1), Query("gradient", 250, Gaussian(), 0.9))
    release = calibrate(queries, Privacy(0.5, 1e-6), relation)
    names: dict[str, Any] = {}
    exec(compile(PROGRAM.partition("\nreceipt = ")[0], "auditing.md", "exec"), names)
    receipt = receipts.make() | {
        "neighbors": relation,
        "queries": [
            {"count": query.count, "mechanism": query.mechanism.name, "noise_multiplier": query.noise_multiplier}
            for query in release.plan.queries
        ],
    }
    assert names["recomputed_epsilon"](receipt) == pytest.approx(release.epsilon, rel=1e-3)


def test_the_attack_that_is_shown_is_the_commands() -> None:
    assert ATTACK.startswith("$ purse audit ")


OPERATIONS = PAGE.with_name("operations.md").read_text()
PLAIN = [block for page in PAGE.parent.glob("*.md") for name in ("", "text") for block in blocks(page, name)]
COMMANDS = [line for block in PLAIN for line in re.findall(r"^purse (.*?)(?: +#.*| > .*)?$", block, re.MULTILINE)]
COMMANDS += re.findall(r"`purse (.*?)(?: \.\.\.)?`", OPERATIONS)


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_commands_that_are_not_run_exist_with_these_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = purse(capsys, *shlex.split(command), "--help")
    assert (code, "Usage: purse" in out) == (0, True)
