"""Every threat of the threat model has code that enforces its protection, and tests, and all of them exist."""

import ast
from functools import cache

import pytest

from tests.support.threats import GUARDS, MODEL, PAGE, ROOT, page, threats

NAMED = sorted({tuple(test.split("::", 1)) for guard in GUARDS.values() for test in guard.tests})


@cache
def _tests(file: str) -> frozenset[str]:
    """`test_it`, and `TestThem::test_it`."""
    body = ast.parse((ROOT / "tests" / file).read_text()).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    alone = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return frozenset(
        [*alone, *(f"{c.name}::{f.name}" for c in classes for f in c.body if isinstance(f, ast.FunctionDef))]
    )


@pytest.mark.parametrize(("file", "name"), NAMED, ids=["::".join(named) for named in NAMED])
def test_the_tests_of_each_threat_exist(file: str, name: str) -> None:
    assert name in _tests(file)
    assert name.rpartition("::")[2].startswith("test_")


def test_every_threat_has_code_and_tests() -> None:
    assert list(threats()) == list(GUARDS)
    assert len(GUARDS) > 70
    assert all(guard.tests and guard.places for guard in GUARDS.values())
    assert [place for guard in GUARDS.values() for place in guard.places if not (ROOT / place).exists()] == []


def test_the_page_of_tests_is_up_to_date() -> None:
    """`python -m tests.support.review` writes it."""
    assert PAGE.read_text() == page()


def test_remaining_risks_are_stated() -> None:
    text = MODEL.read_text()
    section = text[text.index("## Remaining risks") :]
    for word in ("root", "memory", "grid of times", "receipt", "Sign-on", "entry numbers", "TLS"):
        assert word in section
