"""The pages say what the code does: every setting, error code, route and method, and a proof for each mechanism."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import solvers.methods.data
from accounting.mechanisms import Mechanism
from app.http.codes import CODES
from app.http.routing import routes
from app.main import ROUTERS
from app.operations.readiness import REASONS
from app.settings import Settings
from app.wire import JobRequest
from solvers.domains import Domain
from solvers.losses import Loss
from solvers.methods import Method
from solvers.preparation import AskedPreparation
from solvers.regularizers import Regularizer
from solvers.statistics import AnyStatistic

DOCS = Path(__file__).parents[2] / "docs"
UNIONS = {
    "loss": get_args(Loss),
    "regularizer": get_args(Regularizer),
    "domain": get_args(Domain),
    "preparation": get_args(AskedPreparation),
}


def _rows(page: str, columns: int) -> list[tuple[str, ...]]:
    """The rows of a page's tables with so many columns, their headings left out."""
    lines = (DOCS / page).read_text().splitlines()
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return [row for row in cells if len(row) == columns and row[0].startswith("`")]


def test_every_error_code_has_its_row_and_no_row_is_left_over() -> None:
    expected = [(f"`{code}`", str(c.status), c.title, c.meaning) for code, c in CODES.items()]
    assert sorted(_rows("errors.md", 4)) == sorted(expected)


def test_every_setting_has_its_row_and_no_row_is_left_over() -> None:
    expected = [
        (
            f"`PURSE_{name.upper()}`",
            "" if field.default is None else f"`{field.default}`",
            field.description,
        )
        for name, field in Settings.model_fields.items()
    ]
    assert _rows("settings.md", 3) == expected


def test_every_route_has_its_row_and_no_row_is_left_over() -> None:
    expected = {f"`{method} {route.path}`" for route in routes(ROUTERS) for method in route.methods or ()}
    assert {row[0] for row in _rows("http.md", 4)} == expected, "docs/http.md needs a row for each route"


def test_every_reason_not_to_be_ready_has_its_row_and_no_row_is_left_over() -> None:
    table = (DOCS / "operations.md").read_text().partition("| reason |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(REASONS)


@pytest.mark.parametrize("part", UNIONS)
def test_every_name_of_a_union_is_in_its_row(part: str) -> None:
    rows = {row[0]: row[1] for row in _rows("jobs.md", 3)}
    named = set(re.findall(r"`(\w+)`", rows[f"`{part}`"]))
    assert named == {_name(member) for member in UNIONS[part]}, f"docs/jobs.md needs each name in the row `{part}`"
    assert part in JobRequest.model_fields


@pytest.mark.parametrize("method", get_args(Method), ids=lambda method: method.__name__)
def test_every_method_has_its_row(method: type) -> None:
    compared = (DOCS / "methods/README.md").read_text().partition("\n## Compare\n")[2].partition("\n## ")[0]
    row = "| [`{0}`]({0}.md) | ".format(_name(method))
    assert row in compared, f"docs/methods/README.md needs a row that begins with {row}"


@pytest.mark.parametrize("statistic", get_args(AnyStatistic), ids=lambda statistic: statistic.__name__)
def test_every_statistic_has_its_row(statistic: type) -> None:
    name = _name(statistic)
    assert name == "profile" or f"\n| `{name}` | " in (DOCS / "jobs.md").read_text(), "docs/jobs.md needs a row for it"


def _name(member: Any) -> str:
    (name,) = (field for field in fields(member) if field.name == "name")
    return str(name.default)


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
