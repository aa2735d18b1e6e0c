"""The threat model names a test for every threat, and no test that is not there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", PAGE)))


@cache
def _tests(file: str) -> frozenset[str]:
    """`test_it`, and `TestThem::test_it`."""
    body = ast.parse((ROOT / file).read_text()).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    alone = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return frozenset(
        [*alone, *(f"{c.name}::{f.name}" for c in classes for f in c.body if isinstance(f, ast.FunctionDef))]
    )


@pytest.mark.parametrize(("file", "name"), NAMED, ids=["::".join(named) for named in NAMED])
def test_what_guards_is_there(file: str, name: str) -> None:
    assert name in _tests(file)
    assert name.rpartition("::")[2].startswith("test_")


def test_every_threat_names_what_guards_it() -> None:
    tables = [part.split("| --- | --- | --- |\n")[1].split("\n\n")[0] for part in PAGE.split("| threat |")[1:]]
    threats = [line.split("|") for table in tables for line in table.splitlines()]
    assert len(threats) > 45
    assert all(len(cells) == 5 and "`tests/" in cells[3] for cells in threats)


def test_what_is_left_is_said() -> None:
    left = PAGE[PAGE.index("## What is left") :]
    for word in ("root", "memory", "grid of times", "receipt", "Sign-on", "entry numbers", "TLS"):
        assert word in left
