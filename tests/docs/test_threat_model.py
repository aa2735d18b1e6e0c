"""docs/threat-tests.md has a row for every threat of the threat model, and the code and tests that it names exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "docs/threat-model.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/threat-tests.md").read_text().splitlines()
    if re.match(r"\| [A-Z]\d+ \|", line)
]
PLACES = [re.findall(r"\[([^]]+)\]\(\.\./([^)]+)\)", places) for _, _, places, _ in ROWS]
TESTS = [re.findall(r"`tests/([^:`]+)::([^`]+)`", tests) for _, _, _, tests in ROWS]
NAMED = sorted({test for tests in TESTS for test in tests})


@cache
def _tests(file: str) -> frozenset[str]:
    """Return the names of a file's tests, such as `test_it` and `TestThem::test_it`."""
    body = ast.parse((ROOT / "tests" / file).read_text()).body
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    alone = [node.name for node in body if isinstance(node, functions)]
    return frozenset([*alone, *(f"{c.name}::{f.name}" for c in classes for f in c.body if isinstance(f, functions))])


@pytest.mark.parametrize(("file", "name"), NAMED, ids=["::".join(named) for named in NAMED])
def test_the_tests_of_each_threat_exist(file: str, name: str) -> None:
    assert name in _tests(file)
    assert name.rpartition("::")[2].startswith("test_")


def test_every_threat_has_a_row_with_its_title() -> None:
    stated = re.findall(r"^- \*\*([A-Z]\d+)\. (.+?)\*\*", MODEL, re.MULTILINE | re.DOTALL)
    assert len(stated) > 70
    assert [(number, title) for number, title, _, _ in ROWS] == [
        (number, " ".join(title.split()).rstrip(".")) for number, title in stated
    ]


def test_every_row_names_code_and_tests() -> None:
    assert all(PLACES)
    assert all(TESTS)
    assert [len(places) for places in PLACES] == [places.count(", ") + 1 for _, _, places, _ in ROWS]
    assert [len(tests) for tests in TESTS] == [tests.count(", ") + 1 for _, _, _, tests in ROWS]
    assert [label for places in PLACES for label, place in places if label != place] == []
    assert [place for places in PLACES for _, place in places if not (ROOT / place).exists()] == []


def test_remaining_risks_are_stated() -> None:
    section = MODEL[MODEL.index("## Remaining risks") :]
    for word in ("root", "memory", "grid of times", "receipt", "Sign-on", "entry numbers", "TLS"):
        assert word in section
