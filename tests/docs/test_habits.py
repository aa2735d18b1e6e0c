"""Files, targets and tests that the pages for contributors name exist."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import growth, size

ROOT = Path(__file__).parents[2]
# Classes that are forms of one thing, such as a record and its JSON, or the same adapter of several libraries.
FORMS = {"Allotment", "Evaluation", "Job", "Model", "ObjectivePerturbation", "PlannedEvent", "Quote"}
FORMS |= {"SessionAccountant", "Statistic", "Twin", "UsedProfile"}
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "docs/releasing.md", "README.md")


def test_every_place_with_an_owner_exists() -> None:
    lines = (ROOT / ".github/CODEOWNERS").read_text().splitlines()
    places = [line.split()[0] for line in lines if line.startswith("/")]
    assert len(places) > 8
    assert [place for place in places if not (ROOT / place.strip("/")).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_named_exists(page: str) -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b(?=`|\s+#|$)", (ROOT / page).read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert [link for link in links if "://" not in link and not (folder / link).exists()] == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text()
    assert [
        page.name for page in folder.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index
    ] == []


@pytest.mark.parametrize("package", ["accounting", "solvers", "purse", "app"])
def test_types_are_shipped(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.fixture(scope="module")
def product() -> list[size.Module]:
    """The modules of the product, each parsed once for all tests here."""
    return size.modules(*size.PRODUCT)


def test_no_file_parameter_list_name_or_import_of_the_product_breaks_its_limit(product: list[size.Module]) -> None:
    assert len(product) > 500
    assert [place for places in size.excesses(product).values() for place in places] == []


def test_classes_of_one_name_are_forms_of_one_thing(product: list[size.Module]) -> None:
    assert set(size.classes_of_one_name(product)) == FORMS


def test_no_name_of_the_tests_is_a_bare_particle() -> None:
    modules = size.modules("tests")
    assert len(modules) > 400
    assert [place for module in modules for place in module.particle_names()] == []


def test_every_feature_in_the_table_of_code_lines_has_code(product: list[size.Module]) -> None:
    assert {growth.feature(module.name) for module in product} == {*growth.FEATURES, growth.REMAINDER}


def test_files_parameter_lists_names_and_imports_beyond_the_limits_are_listed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(size, "ROOT", tmp_path)
    file = tmp_path / "app" / "sample.py"
    file.parent.mkdir()
    file.write_text("def f(a, b, c, d, e, f, g, h):\n    found = a\n" + "\n" * 350)
    wide = "def f(self, a, b, c, d, e, f, other):\n    return [found for found in a]\n"
    file.with_name("within.py").write_text(wide + "x, y = f(), -f()\nx, y = f(), x\nplace_of = in_place\n")
    late = (
        "def library():\n    import dask  # late: few jobs need it\n    import csv\ndef needless():\n    import csv\n"
    )
    file.with_name("late.py").write_text(late)
    excesses = size.excesses(size.modules("app"))
    assert list(excesses.values()) == [
        ["app/sample.py has 352 lines"],
        ["app/sample.py:1 f has 8 parameters"],
        ["app/sample.py:2 found"],
        ["app/within.py:1 f(other)"],
        [],
        ["app/within.py:5 place_of"],
        ["app/within.py:3 (x, y)"],
        ["app/late.py:5 needless"],
    ]


def test_a_circle_of_imports_is_listed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(size, "ROOT", tmp_path)
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "first.py").write_text("def late():\n    from app.second import x\n")
    (folder / "second.py").write_text("from app import third\nx = third\n")
    (folder / "third.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.first import late\n"
    )
    assert size.import_circle(size.modules("app")) == []
    (folder / "third.py").write_text("from app.first import late\n")
    assert set(size.import_circle(size.modules("app"))) == {"app.first", "app.second", "app.third"}


def test_the_privacy_team_owns_the_files_that_guarantees_depend_on() -> None:
    lines = (ROOT / ".github/CODEOWNERS").read_text().splitlines()
    owners = [line.split() for line in lines if line and not line.startswith("#")]
    named = set(
        re.findall(r"[`\[]((?:accounting|solvers|purse|app)/[\w/]+\.py)", (ROOT / "docs/reviewing.md").read_text())
    )
    last = {
        file: [owner for place, owner in owners if place == "*" or f"/{file}".startswith(place)][-1] for file in named
    }
    assert len(named) > 60
    assert {file: owner for file, owner in last.items() if owner != "@privy-purse/privacy"} == {}


def test_decisions_are_listed_in_order() -> None:
    numbers = re.findall(r"^\| \[(\d+)\]", (ROOT / "docs/decisions/README.md").read_text(), re.MULTILINE)
    assert numbers == sorted(set(numbers))


def test_every_target_is_phony_and_a_release_runs_the_heavy_ones() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = dict(re.findall(r"^([a-z]+):.*?## (.*)", makefile, re.MULTILINE))
    phony = re.findall(r"^\.PHONY: (.*)", makefile, re.MULTILINE)
    assert sorted(" ".join(phony).split()) == sorted(targets)
    heavy = {f"make {target}" for target, told in targets.items() if told.startswith("heavy")}
    assert len(heavy) > 8
    assert heavy <= set(re.findall(r"`(make [a-z]+)`", (ROOT / "docs/releasing.md").read_text()))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md"])
def test_the_description_of_make_check_is_that_of_the_makefile(page: str) -> None:
    (description,) = re.findall(r"^check:.*## (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^make check +# (.*)", (ROOT / page).read_text(), re.MULTILINE) == [description]


@pytest.mark.parametrize("floor", ["accounting", "solvers", "purse", "app", "tests"])
def test_every_package_is_in_the_architecture_page_and_has_a_docstring(floor: str) -> None:
    (row,) = re.findall(rf"^\| \[{floor}/\].*", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    rooms = [path.name for path in (ROOT / floor).iterdir() if next(path.glob("*.py"), None)]
    assert set(rooms) <= set(re.findall(r"`(\w+)`", row))
    inside = [] if floor == "tests" else list((ROOT / floor).rglob("__init__.py"))
    assert [str(file) for file in inside if not file.read_text().startswith('"""')] == []
