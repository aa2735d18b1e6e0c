"""README.md: its commands and outputs are the tutorial's, which a test runs, and its links exist."""

import re
import subprocess
from pathlib import Path

from app.identity.service import TOKEN_FILE
from app.settings import Settings
from tests.support.console import blocks, steps

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
JOB = re.compile(r"job_[a-z0-9]{20}|\$JOB")


def commands(block: str) -> list[str]:
    """Return the commands of a block that a reader pastes whole, each with its here-document."""
    return re.findall(r"^(.*<<'END'\n(?:.*\n)*?END|.+)$", block, re.MULTILINE)


def test_commands_and_outputs_of_the_readme_are_those_of_the_tutorial() -> None:
    tutorial = {JOB.sub("", command): output for command, output in steps(ROOT / "docs/tutorial.md")}
    output_lines = {line for output in tutorial.values() for line in output.splitlines()}
    pasted = [command for block in blocks(ROOT / "README.md", "sh") for command in commands(block)]
    own = [c for c in pasted if not c.startswith(("make ", "export PURSE_TOKEN", "JOB="))]
    assert len(own) > 5
    assert {JOB.sub("", command) for command in own} <= set(tutorial)
    assert {line for block in blocks(ROOT / "README.md", "text") for line in block.splitlines()} <= output_lines


def test_its_commands_paste_without_prompts_or_outputs() -> None:
    assert steps(ROOT / "README.md") == []
    assert not re.search(r"^\$ ", README, re.MULTILINE)


def test_the_newest_job_is_found_in_the_list_of_jobs() -> None:
    (filter_command,) = re.findall(r"^JOB=\$\(purse jobs list \| (awk .*)\)$", README, re.MULTILINE)
    (job_list,) = (output for command, output in steps(ROOT / "docs/how-to/analyst.md") if command == "purse jobs list")
    result = subprocess.run(
        ["bash", "-c", filter_command], input=job_list, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.split() == [job_list.splitlines()[1].split()[0]]


def test_the_pages_read_the_first_token_from_its_file() -> None:
    usual = Settings.model_fields["home"].default
    for page, home in (("README.md", usual), ("docs/tutorial.md", usual / "tutorial")):
        text = (ROOT / page).read_text()
        assert f"export PURSE_TOKEN=$(cat {home}/{TOKEN_FILE}) PATH=$PWD/.venv/bin:$PATH\n" in text
    assert f"PURSE_HOME={usual}/tutorial make serve\n" in text


def test_the_first_model_comes_before_the_list_of_pages() -> None:
    submitted = README.index("\npurse submit ")
    assert submitted < README.index("## Documentation")
    assert README[:submitted].count("\n") < 60


def test_the_landing_page_and_the_trust_page_state_what_is_visible_and_to_whom() -> None:
    assert "](docs/trust.md)" in README
    assert "operator" in README
    trust = re.sub(r"\s+", " ", (ROOT / "docs/trust.md").read_text())
    for words in ("without a grant", "the declared schema", "times of requests", "duration of jobs"):
        assert words in trust
