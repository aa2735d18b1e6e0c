"""Imports, pyproject.toml, the lock files and decision 0006 list the same dependencies."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from purse.extras import ARITHMETIC

ROOT = Path(__file__).parents[2]
OURS = ("accounting", "solvers", "purse", "app")
LOCKS = {
    "service": "requirements.lock",
    "build": "requirements-build.lock",
    "test": "requirements-test.lock",
    "dev": "requirements-dev.lock",
    "bench": "requirements-bench.lock",
    "peers": "requirements-peers.lock",
    "integrations": "requirements-integrations.lock",
}

# What SQLAlchemy loads by the name in a database's address.
BY_NAME = {"psycopg"}
TRACING = ROOT / "app/operations/tracing.py"
EXPORTS = (ROOT / "purse/exports.py", ROOT / "purse/onnx_graphs.py")
EXCEL = ROOT / "purse/excel.py"
FORMULAS = ROOT / "purse/formulas.py"
ESTIMATORS = ROOT / "purse/estimators"
PLOTS = ROOT / "purse/plots.py"
TABLES = (ROOT / "purse/tables.py", ROOT / "purse/results.py")
INTEGRATIONS = ROOT / "purse/integrations"
# Extras by the module that needs them, and what it imports.
ADAPTERS = {
    "diffprivlib": ("diffprivlib", {"diffprivlib"}),
    "dp_accounting": ("dp-accounting", {"dp_accounting"}),
    "opacus": ("opacus", {"opacus"}),
    "opendp": ("opendp", {"opendp"}),
    "pipelinedp": ("pipelinedp", {"pipeline_dp"}),
}
SERVICE = ("solvers", "server")


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _declared() -> dict[str, set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {name: {_name(line) for line in lines} for name, lines in project["dependency-groups"].items()}
    light = {"light": {_name(line) for line in project["project"]["dependencies"]}}
    extras = project["project"]["optional-dependencies"]
    named = {name: {_name(line) for line in lines} - {"privy-purse"} for name, lines in extras.items()}
    return {"service": light["light"].union(*(named[name] for name in SERVICE))} | light | named | groups


def _imported(file: Path) -> set[str]:
    """Modules of others, with all their dots."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
    return {name for name in names if name.split(".")[0] not in {*OURS, *sys.stdlib_module_names}}


@pytest.mark.slow
def test_imports_and_declared_dependencies_are_the_same() -> None:
    distributions = packages_distributions()
    extras = {TRACING, *EXPORTS, EXCEL, FORMULAS, PLOTS, *TABLES, *ESTIMATORS.iterdir(), *INTEGRATIONS.iterdir()}
    files = (file for room in OURS for file in (ROOT / room).rglob("*.py") if file not in extras)
    modules = {name.split(".")[0] for file in files for name in _imported(file)}
    assert {_name(distributions[module][0]) for module in modules} | BY_NAME == _declared()["service"]


def test_the_tracing_extra_lists_the_packages_that_its_module_imports() -> None:
    """`opentelemetry` is a namespace of many distributions; the SDK depends on the interface."""
    interface = ("opentelemetry.context", "opentelemetry.trace")
    modules = {name for name in _imported(TRACING) if not name.startswith(interface)}
    needed = {"opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http"}
    needed["opentelemetry.sdk"] = "opentelemetry-sdk"
    packages = {needed[part] for name in modules for part in needed if name.startswith(f"{part}.")}
    assert packages == _declared()["tracing"] <= _declared()["test"]
    assert all(any(name.startswith(part) for part in needed) for name in modules)


def test_libraries_of_exports_are_imported_by_their_modules_alone_and_are_an_extra_each() -> None:
    modules = {name.split(".")[0] for file in EXPORTS for name in _imported(file)} - {"numpy"}
    declared = _declared()
    assert modules == {"sklearn", "onnx"}
    assert (declared["sklearn"], declared["onnx"]) == ({"scikit-learn"}, {"onnx"})
    assert declared["sklearn"] | declared["onnx"] <= declared["test"]


def test_workbooks_are_read_by_one_module_and_their_reader_is_an_extra() -> None:
    assert _imported(EXCEL) == {"python_calamine"}
    assert _declared()["excel"] == {"python-calamine"} <= _declared()["test"]


def test_formulas_are_parsed_by_one_module_and_their_parser_is_an_extra() -> None:
    assert {name.split(".")[0] for name in _imported(FORMULAS)} == {"formulaic"}
    assert _declared()["formula"] == {"formulaic"} <= _declared()["test"]


def test_plots_are_made_by_one_module_and_frames_of_pandas_by_two() -> None:
    assert {name.split(".")[0] for name in _imported(PLOTS)} == {"matplotlib"}
    assert _declared()["plot"] == {"matplotlib"} <= _declared()["bench"]
    assert set().union(*map(_imported, TABLES)) == {"pandas"} <= _declared()["test"]


def test_estimators_import_scikit_learn_and_nothing_else_that_is_new() -> None:
    modules = {name.split(".")[0] for file in ESTIMATORS.glob("*.py") for name in _imported(file)}
    assert modules == {"numpy", "pydantic", "sklearn"}


def test_each_adapter_imports_one_library_which_is_an_extra_and_is_tested() -> None:
    files = {file.stem: file for file in INTEGRATIONS.glob("*.py")}
    declared = _declared()
    assert files.keys() - ADAPTERS.keys() == {"__init__", "recording"}
    for name, file in files.items():
        extra, modules = ADAPTERS.get(name, ("light", set()))
        imported = {each.split(".")[0] for each in _imported(file)} - {"numpy"}
        assert imported == modules
        assert modules <= {each.replace("-", "_") for each in declared[extra]}
        assert name not in ADAPTERS or declared[extra] <= declared["integrations"] | declared["solvers"]


def test_the_list_of_packages_of_the_solvers_extra_is_complete() -> None:
    assert {name.replace("_", "-") for name in ARITHMETIC} == _declared()["solvers"]


@pytest.mark.parametrize("group", LOCKS)
def test_lock_pins_every_dependency_with_its_hashes(group: str) -> None:
    lock = (ROOT / LOCKS[group]).read_text()
    blocks = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    pinned = {_name(block) for block in blocks if re.match(r"\S+==\S+ ", block) and "--hash=sha256:" in block}
    assert len(pinned) == len(blocks)
    assert _declared()[group] <= pinned


@pytest.mark.parametrize("lock", LOCKS.values())
def test_lock_names_no_address_and_no_path_of_a_machine(lock: str) -> None:
    assert not re.search(r"://|index-url|find-links|(?<![\w.])/\w", (ROOT / lock).read_text())


def test_every_dependency_is_explained_at_its_locked_version() -> None:
    page = (ROOT / "docs/decisions/0006-dependencies.md").read_text()
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d\S*) \|", page, flags=re.MULTILINE)
    locks = "\n".join((ROOT / lock).read_text() for lock in LOCKS.values())
    assert {name for name, _ in rows} == set().union(*_declared().values())
    assert [row for row in rows if f"\n{row[0]}=={row[1]} " not in locks] == []
