"""README.md is true: its commands run, its Python runs, its links lead somewhere, and the demonstration is ours."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import main
from app.demo import script
from purse import Client
from solvers import Release
from tests.support.live import Live, live
from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
(SESSION,) = [text for language, text in BLOCKS if language == "console"]
JOB = re.compile(r"job_[a-z0-9]{20}")
LOSS = re.compile(r"epsilon [\d.]+ at delta \S+")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("readme") / "home") as running:
        yield running


def _commands() -> list[str]:
    """What stands after each `$ ` of the session, with its here-document."""
    return re.findall(r"^\$ (.*<<'END'\n(?:.*\n)*?END|.*)$", SESSION, re.MULTILINE)


@pytest.mark.slow
def test_the_session_runs(
    service: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PURSE_URL", service.url)
    with Client(service.url, service.token) as client:
        token = client.tokens.create("first steward", "steward").token  # as `purse serve` names it
    monkeypatch.setenv("PURSE_TOKEN", token)
    (tmp_path / "app").symlink_to(ROOT / "app")
    job = ""
    ran = []
    for command in _commands():
        if not command.startswith("purse "):
            subprocess.run(["bash", "-c", command], check=True, timeout=PATIENCE, env=os.environ)
            continue
        arguments = shlex.split(JOB.sub(job, command))[1:]
        shown = SESSION.split(f"$ {command}\n")[1].split("\n$ ")[0]
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert ended.value.code == (1 if shown.startswith("purse: ") else 0), (command, said)
        job = next(iter(JOB.findall(said)), job)
        # line by line it begins with the words that the README shows, and what depends on no noise is the same
        assert [line.split()[0] for line in said.splitlines()] == [
            line.split()[0] for line in shown.splitlines() if line
        ]
        assert LOSS.findall(said) == LOSS.findall(shown), command
        ran.append(arguments[0])
    assert ran == ["upload", "quote", "submit", "receipt", "receipt", "budget", "submit"]


@pytest.mark.slow
def test_the_client_example_runs(
    service: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{20 + i % 60},{['female', 'male'][i % 2]},{['<=50K', '>50K'][i % 60 > 30]}" for i in range(3000)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,income", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    assert "http://127.0.0.1:8000" in PYTHON[0]
    assert 'token="..."' in PYTHON[0]
    code = PYTHON[0].replace("http://127.0.0.1:8000", service.url).replace('token="..."', f'token="{service.token}"')
    exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr().out
    found = re.search(r"^sex = male  .*\n(?:.*\n)*\[(\S+)\]\nepsilon=\d", said, re.MULTILINE)
    assert found, said
    assert 0.0 <= float(found[1]) <= 1.0, "a private model may be sure, in any notation"


@pytest.mark.slow
def test_the_solver_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(PYTHON[1], "README.md", "exec"), names)
    release = names["release"]
    assert isinstance(release, Release)
    assert release.epsilon <= 0.5
    assert "Quote(" in capsys.readouterr().out
    assert len(PYTHON) == 2


def test_every_make_target_and_every_link_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE)) <= targets
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (ROOT / link).exists(), link


def test_the_demonstration_that_is_shown_is_the_one_that_runs() -> None:
    shown, audited = [text for language, text in BLOCKS if language == "text"]
    assert audited.startswith("$ purse audit ")
    assert f"budget: epsilon {script.BUDGET.epsilon:g} at delta {script.BUDGET.delta:g}" in shown
    for method in script.METHODS:
        assert f"trains a model with {method}" in shown
    assert shown.count("verified offline") == len(script.METHODS)
    assert re.search(r"refused, 409 budget_exhausted", shown)


def test_what_must_be_said_is_said() -> None:
    for words in (
        "An analyst knows of a dataset by a grant alone",
        "n, the declared schema",
        "when requests came",
        "jobs took",
    ):
        assert words in re.sub(r"\s+", " ", README)
