"""The guide's blocks run as they stand, and so do the cells of the notebook, which are the same."""

import json
from typing import Any

import pytest

from purse import Client
from tests.support import notebook
from tests.support.console import blocks
from tests.support.live import Live

LIBRARIES = ("diffprivlib", "dp_accounting", "jax_privacy", "opacus", "opendp", "pipeline_dp")
OWN_CODE = 3
"""Number of the first blocks, which need none of them."""


@pytest.fixture
def guide(service: Live, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The guide's blocks, for a steward of the server."""
    monkeypatch.setenv("PURSE_URL", service.url)
    monkeypatch.setenv("PURSE_TOKEN", service.token)
    return blocks(notebook.GUIDE, "python")


def test_the_notebook_is_the_guide() -> None:
    cells = json.loads(notebook.LIBRARIES.read_text())["cells"]
    expected = notebook.of_guide(notebook.GUIDE.read_text())
    assert [cell["source"] for cell in cells] == [cell["source"] for cell in expected], notebook.LIBRARIES_COMMAND
    assert sum(bool(notebook.output(cell)) for cell in cells) >= 7


@pytest.mark.slow
def test_the_guide_runs_without_the_libraries_as_far_as_own_code(guide: list[str], client: Client) -> None:
    names: dict[str, Any] = {}
    for code in guide[:OWN_CODE]:
        exec(compile(code.replace('"clinic"', '"ward"'), "integrations.md", "exec"), names)
    assert [session.state for session in client.sessions.list(dataset="ward")] == ["closed"]


@pytest.mark.slow
def test_the_whole_guide_runs(guide: list[str], client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    for name in LIBRARIES:
        pytest.importorskip(name, reason=f"{name} is not installed: run `make integrations`")
    names: dict[str, Any] = {}
    for code in guide:
        exec(compile(code, "integrations.md", "exec"), names)
    sessions = client.sessions.list(dataset="clinic", order="asc")
    assert [session.state for session in sessions] == ["closed"] * 7
    assert (sessions[1].plan[0].recorded, sessions[1].plan[0].count) == (20, 60)
    assert capsys.readouterr().out.splitlines()[-1] == "budget_exhausted"
