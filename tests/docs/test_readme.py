"""README.md is true: what it shows is the beginning of the tutorial, which runs, and its links lead somewhere."""

import re
from pathlib import Path

from app.identity.service import TOKEN_FILE
from app.settings import Settings
from tests.support.session import steps

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
JOB = re.compile(r"job_[a-z0-9]{20}|JOB")


def test_its_session_is_the_tutorials_cut_short() -> None:
    whole = {JOB.sub("", command): shown.splitlines() for command, shown in steps(ROOT / "docs/tutorial.md")}
    (_, first), *others = steps(ROOT / "README.md")
    assert first == "", "its token, which the next test looks at"
    for command, shown in others:
        assert set(shown.splitlines()) <= set(whole[JOB.sub("", command)]), command
    assert len(others) > 5


def test_the_first_token_is_where_the_pages_look_for_it() -> None:
    usual = Settings.model_fields["home"].default
    for page, home in (("README.md", usual), ("docs/tutorial.md", usual / "tutorial")):
        said = (ROOT / page).read_text()
        assert f"export PURSE_TOKEN=$(cat {home}/{TOKEN_FILE}) PATH=$PWD/.venv/bin:$PATH\n" in said
    assert f"PURSE_HOME={usual}/tutorial make serve\n" in said


def test_it_is_one_screen_to_the_first_model() -> None:
    assert README.index("$ purse submit ") < README.index("## Where to read on")
    assert README[: README.index("## Where to read on")].count("\n") < 50


def test_every_make_target_and_every_link_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE)) <= targets
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (ROOT / link).exists(), link


def test_what_must_be_said_is_said() -> None:
    assert "](docs/trust.md)" in README
    assert "Whoever runs the server sees the rows" in README
    said = re.sub(r"\s+", " ", (ROOT / "docs/trust.md").read_text())
    for words in (
        "An analyst knows of a dataset by a grant alone",
        "n, the declared schema",
        "when requests came",
        "jobs took",
    ):
        assert words in said
