"""The pages say what the code does: every setting, error code, route and method, and a proof for each mechanism."""

import re
from pathlib import Path
from typing import get_args

import pytest

import solvers.methods.data
from accounting.mechanisms import Mechanism
from app.http.routing import routes
from app.main import ROUTERS
from app.operations.readiness import REASONS
from solvers.methods import Method
from tests.support import doc_tables
from tests.support.members import name_of

DOCS = Path(__file__).parents[2] / "docs"


def _rows(page: str, columns: int) -> list[tuple[str, ...]]:
    """The rows of a page's tables with so many columns, their headings left out."""
    lines = (DOCS / page).read_text().splitlines()
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return [row for row in cells if len(row) == columns and row[0].startswith("`")]


def test_every_route_has_its_row_and_no_row_is_left_over() -> None:
    expected = {f"`{method} {route.path}`" for route in routes(ROUTERS) for method in route.methods or ()}
    assert {row[0] for row in _rows("http.md", 4)} == expected, "docs/http.md needs a row for each route"


def test_every_reason_not_to_be_ready_has_its_row_and_no_row_is_left_over() -> None:
    table = (DOCS / "operations.md").read_text().partition("| reason |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(REASONS)


@pytest.mark.parametrize("name", doc_tables.TABLES)
def test_tables_follow_from_the_code(name: str) -> None:
    assert (DOCS / name).read_text() == doc_tables.page(name), "run: python -m tests.support.doc_tables"


@pytest.mark.parametrize("method", get_args(Method), ids=lambda method: method.__name__)
def test_every_method_has_its_row(method: type) -> None:
    compared = (DOCS / "methods/README.md").read_text().partition("\n## Compare\n")[2].partition("\n## ")[0]
    row = "| [`{0}`]({0}.md) | ".format(name_of(method))
    assert row in compared, f"docs/methods/README.md needs a row that begins with {row}"


def _proved() -> list[str]:
    """Files that hold a mechanism, a method, or a step shared by methods that see data: each needs a proof so named."""
    shared = Path(str(solvers.methods.data.__file__)).parent.glob("*.py")
    modules = [member.__module__.rsplit(".", 1)[-1] for member in (*get_args(Mechanism), *get_args(Method))]
    return sorted({*(file.stem for file in shared), *modules} - {"__init__"})


@pytest.mark.parametrize("name", _proved())
def test_every_mechanism_and_method_has_its_proof(name: str) -> None:
    page = DOCS / "proofs" / f"{name}.md"
    assert page.is_file(), f"docs/proofs/{name}.md states and proves the guarantee"
    assert len(page.read_text()) > 500
