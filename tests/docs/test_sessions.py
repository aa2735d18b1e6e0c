"""The blocks of the tutorial, the how-to pages, the notebook and the page on Python run in order on one server."""

import json
import re
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.demo import script
from app.sessions.requests import SessionRequest
from app.webhooks.courier import signed
from app.webhooks.store import Message
from app.wire import EvaluationBody, JobRequest, StatisticRequest, TuningRequest
from purse import Client
from purse.wire.datasets import DatasetSpec
from purse.wire.problems import ProblemDetails
from purse.wire.webhooks import WebhookEvent
from solvers import Release
from tests.support import notebook
from tests.support.console import blocks, steps
from tests.support.live import Live, live
from tests.support.session import Session, heads

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENT_TYPES: dict[str, Any] = {
    "datasets.md": DatasetSpec,
    "errors.md": ProblemDetails,
    "files.md": DatasetSpec,
    "http.md": SessionRequest,
    "jobs.md": JobRequest | StatisticRequest | TuningRequest | EvaluationBody,
    "webhooks.md": WebhookEvent,
}
PYTHON = blocks(DOCS / "python.md", "python")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("sessions") / "home") as running:
        yield running


@pytest.fixture
def session(
    service: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Session:
    """A steward's, in an empty folder beside `app/`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").symlink_to(ROOT / "app")
    monkeypatch.setenv("PURSE_URL", service.url)
    monkeypatch.setenv("PURSE_HOME", str(service.home))
    with Client(service.url, service.token) as client:
        monkeypatch.setenv("PURSE_TOKEN", client.tokens.create("first steward", "steward").token)
    return Session(capsys)


@pytest.mark.slow
def test_the_tutorial_and_its_guides(service: Live, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, output in steps(DOCS / "tutorial.md"):
        session.run(command, output)
    assert Path("predictions.csv").read_text().count("\n") == 3
    with Client(service.url, service.token) as client:
        monkeypatch.setenv("PURSE_TOKEN", client.tokens.create("alice", "analyst").token)
        client.datasets.grant("visits", "alice")
    for command, output in steps(DOCS / "how-to/analyst.md"):
        session.run(command, output)
    assert Path("twin.csv").read_text().count("\n") == 201
    for command, output in steps(DOCS / "how-to/regression.md"):
        session.run(command, output)


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["steward", "operator", "tuning"])
def test_the_how_tos(session: Session, reader: str) -> None:
    output = "".join(session.run(command, expected) for command, expected in steps(DOCS / f"how-to/{reader}.md"))
    statements = {
        "steward": "nothing is charged and no job starts",
        "operator": ": ready",
        "tuning": "is the one released",
    }
    assert statements[reader] in output


@pytest.mark.slow
@pytest.mark.usefixtures("session")
def test_the_notebook() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: the notebook is not run")
    cells = json.loads((DOCS / "notebook.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    outputs = 0
    has_plots = find_spec("matplotlib") is not None
    for cell in (each for each in cells if each["cell_type"] == "code"):
        if notebook.image(cell) and not has_plots:
            continue
        stored = heads(notebook.output(cell))
        assert heads(notebook.run(cell, names)) == stored, "run: python -m tests.support.notebook"
        outputs += bool(stored)
    assert outputs >= 6
    assert names["receipt"].facts["epsilon"] <= 0.6


@pytest.mark.slow
def test_the_page_of_webhooks(service: Live, session: Session) -> None:
    for command, output in steps(DOCS / "webhooks.md"):
        session.run(command, output)
    names: dict[str, Any] = {}
    (code,) = blocks(DOCS / "webhooks.md", "python")
    exec(compile(code, "webhooks.md", "exec"), names)
    keys = service.app.state.services.keys
    at = "2026-11-22T17:00:00.000Z"
    message = Message("msg", "", "", 0, 0.0, f"job_{'a' * 20}", f"ds_{'a' * 20}", "done", at)
    with Client(service.url) as client:
        text = names["receive"](*signed(message, keys, time.time()), client.keys())
    assert text == f"job_{'a' * 20} is done"


@pytest.mark.slow
def test_the_client_example(service: Live, session: Session) -> None:
    rows = [f"{20 + i % 60},{['female', 'male'][i % 2]},{['<=50K', '>50K'][i % 60 > 30]}" for i in range(3000)]
    Path("people.csv").write_text("\n".join(["age,sex,income", *rows]) + "\n")
    assert "http://127.0.0.1:8000" in PYTHON[0]
    assert 'token="..."' in PYTHON[0]
    code = PYTHON[0].replace("http://127.0.0.1:8000", service.url).replace('token="..."', f'token="{service.token}"')
    exec(compile(code, "python.md", "exec"), {})
    output = session.capsys.readouterr().out
    match = re.search(r"^sex = male  .*\n(?:.*\n)*\[(\S+)\]\nPrivacyLoss\(epsilon=\d", output, re.MULTILINE)
    assert match, output
    assert 0.0 <= float(match[1]) <= 1.0, "the prediction is a probability, in any notation"


@pytest.mark.slow
def test_the_cookbook(service: Live, session: Session) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: the recipes are not run")
    names: dict[str, Any] = {}
    for code in blocks(DOCS / "cookbook.md", "python"):
        exec(compile(code, "cookbook.md", "exec"), names)
    output = session.capsys.readouterr().out
    with Client(service.url, service.token) as client:
        first, second = (client.datasets.budget(f"visits 2026-{month}") for month in ("01", "02"))
        parts = client.datasets.allotments("follow-up")
    assert first.spent == second.spent
    assert {(part.analyst, part.mode, round(part.share, 6)) for part in parts} == {
        (name, "reserved", 0.1) for name in ("ada", "bob", "cyd")
    }
    survival = [float(found) for found in re.findall(r"^yes \[.* (\S+) *\]$", output, re.MULTILINE)]
    assert len(survival) == 1
    assert 0.0 <= survival[0] <= 1.0
    assert names["model"].score(names["X"], names["y"]) > 0.7


@pytest.mark.slow
def test_the_solver_example(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(PYTHON[1], "python.md", "exec"), names)
    release = names["release"]
    assert isinstance(release, Release)
    assert release.epsilon <= 0.5
    assert "PlannedRun(" in capsys.readouterr().out
    assert len(PYTHON) == 2


def test_the_tutorial_shows_the_demonstration_that_runs() -> None:
    (demonstration,) = blocks(DOCS / "tutorial.md", "text")
    assert f"budget: epsilon {script.BUDGET.epsilon:g} at delta {script.BUDGET.delta:g}" in demonstration
    for method in script.METHODS:
        assert f"trains a model with {method}" in demonstration
    assert demonstration.count("verified offline") == len(script.METHODS)
    assert re.search(r"refused, 409 budget_exhausted", demonstration)


def test_every_session_and_example_of_a_page_is_run_by_a_test() -> None:
    pages = {page.relative_to(DOCS).as_posix(): page for page in DOCS.rglob("*.md")}
    how_tos = {f"how-to/{reader}.md" for reader in ("analyst", "steward", "operator", "tuning", "regression")}
    assert {name for name, page in pages.items() if steps(page)} == {
        "tutorial.md",
        "auditing.md",
        "webhooks.md",
        "how-to/fit.md",  # tests/e2e/test_fit.py
        *how_tos,
    }
    python = {name for name, page in pages.items() if blocks(page, "python")}
    elsewhere = {"how-to/integrations.md", "how-to/regression.md"}  # test_guide.py and test_estimators_page.py
    assert python == {"auditing.md", "cookbook.md", "python.md", "estimators.md", "webhooks.md"} | elsewhere


def test_outputs_of_sessions_fit_100_columns() -> None:
    outputs = "".join(shown for page in DOCS.rglob("*.md") for _, shown in steps(page))
    assert [line for line in outputs.splitlines() if len(line) > 100] == []


def test_every_document_on_a_page_is_valid() -> None:
    documents = [(page.name, text) for page in DOCS.glob("*.md") for text in blocks(page, "json")]
    assert {name for name, _ in documents} == set(DOCUMENT_TYPES)
    for name, text in documents:
        TypeAdapter(DOCUMENT_TYPES[name]).validate_json(text.replace("_...", f"_{'a' * 20}"))
