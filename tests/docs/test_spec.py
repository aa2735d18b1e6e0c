"""Whatever cites the privacy specification cites a number that is there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
CITED = re.compile(r"docs/spec ((?:T?\d[\d.]*'*)(?:(?:, | and )(?:T?\d[\d.]*'*))*)")


@cache
def _stated() -> set[str]:
    """Return sections ("15"), their parts ("2.3", "12.1") and theorems ("T7'")."""
    statements: set[str] = set()
    for page in SPEC.glob("*.md"):
        section = ""
        for line in page.read_text().splitlines():
            if heading := re.match(r"# (\d+)\.", line):
                section = heading[1]
                statements.add(section)
            elif item := re.match(r"(\d+)\. ", line):
                statements.add(f"{section}.{item[1]}")
            statements.update(re.findall(r"\*\*(T\d+'*|\d+\.\d+)[ .*]", line))
    return statements


@cache
def _citing() -> dict[str, set[str]]:
    """Each file outside the specification, with the numbers that it cites."""
    folders = ("accounting", "solvers", "purse", "app", "tests", "benchmarks", "docs")
    files = [f for folder in folders for kind in ("*.py", "*.md") for f in (ROOT / folder).rglob(kind)]
    cited = {
        str(file.relative_to(ROOT)): {
            number.rstrip(".") for found in CITED.findall(file.read_text()) for number in re.split(", | and ", found)
        }
        for file in files
        if SPEC not in file.parents and file != Path(__file__)
    }
    return {file: numbers for file, numbers in cited.items() if numbers}


@pytest.mark.parametrize("file", sorted(_citing()))
def test_every_number_cited_is_stated(file: str) -> None:
    assert _citing()[file] <= _stated()


def test_the_specification_is_cited_and_its_index_names_every_page() -> None:
    assert len(_citing()) > 30
    index = (SPEC / "README.md").read_text()
    assert all(f"({page.name})" in index for page in SPEC.glob("*.md") if page.name != "README.md")
