"""Find the files that each privacy guarantee depends on, and update the tables of docs/reviewing.md.

A module's docstring states what to check in it, in a paragraph that begins with `Review:`. Otherwise the row does.
People write these rows, and the modules outside the lists, into the tables.
A method depends on its run, its oracle and the mechanisms of its queries. A file depends on the modules from which it
imports names; a name that a package re-exports is followed to the file that defines it.
`python -m tests.support.review` updates the page and the generated part of docs/methods.
"""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from accounting.mechanisms import Mechanism, ObjectivePerturbation, RowObjectivePerturbation
from accounting.privacy import Privacy
from solvers.columns import Columns
from solvers.domains import LinfBall
from solvers.errors import Unsuitable
from solvers.inference import RegressionTableRun
from solvers.losses import Absolute, Logistic, Squared
from solvers.methods import DpGd, Method, Run
from solvers.methods.run import (
    AllocatedRun,
    CountingRun,
    DataRun,
    FullBatchRun,
    SampledRun,
    StandardisedRun,
    WeightedRun,
)
from solvers.problem import Problem
from solvers.regularizers import L2
from solvers.statistics import AnyCounting
from tests.support import methods
from tests.support.size import Module

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reviewing.md"
_ROW = re.compile(r"^\| \[(\S+)\.py\]\(\S+\) \| (\d+) \| (.+) \|$", re.MULTILINE)
_CHECK = re.compile(r"^Review: (.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_BY_HAND = "Tunings and published forms"  # from this heading on, the files are chosen by hand
FLOORS = ("accounting", "solvers")
MOST_FRAME_LINES, MOST_SLICE_LINES = 755, 2400
MOST_SECTION_LINES = {
    "Answers compose to epsilon": 2390,
    "The ledger never exceeds the budget": 3160,
    "A file's neighbors stay neighbors": 2960,
}
ORACLES: dict[type[Any], str] = {
    FullBatchRun: "solvers.data_access.full_batch",
    SampledRun: "solvers.data_access.sampled",
    DataRun: "solvers.data_access.access",
    AllocatedRun: "solvers.data_access.allocated",
    StandardisedRun: "solvers.data_access.standardised",
    CountingRun: "solvers.data_access.counting",
    WeightedRun: "solvers.data_access.weighted",
}
INPUTS, ENTRIES = "solvers.data_access.inputs", "solvers.data_access.sparse"
# Opened only for a run that requests them: `solvers.data_access.oracles`.
HANDED = {
    "walks": "solvers.data_access.walk",
    "hides": "solvers.data_access.last_iterate",
    "tabulates": "solvers.data_access.lattice_sums",
}
FRAME = (
    "accounting.privacy",
    "accounting.numbers",
    "accounting.plan",
    "accounting.noise.source",
    "accounting.noise.lattice",
    "accounting.mechanisms.mechanism",
    "solvers.problem",
    "solvers.bounds",
    "solvers.data_access.meter",
    "solvers.data_access.data",
)


@cache
def stated() -> dict[str, str]:
    """Return what the page's tables state of each module."""
    return {path.replace("/", "."): check for path, _, check in _ROW.findall(PAGE.read_text())}


@cache
def check_of(module: str) -> str | None:
    """Return what to check in a module, by its docstring or by its row of the page; None if neither states it."""
    own = _CHECK.search(ast.get_docstring(_tree(module)) or "")
    return " ".join(own[1].split()) if own else stated().get(module)


def listed(section: str) -> set[str]:
    """Return the modules in the tables of a section of the page."""
    return set(_modules(PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]))


def _modules(tables: str) -> list[str]:
    """Return the modules of some tables in order."""
    return [path.replace("/", ".") for path, _, _ in _ROW.findall(tables)]


@cache
def aside() -> dict[str, str]:
    """Return the modules that the tables leave out, and why a guarantee does not depend on them."""
    return dict(re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))


def _reading_order(text: str) -> list[str]:
    """Return the modules of some tables in one order, which is that of each table."""
    order: TopologicalSorter[str] = TopologicalSorter()
    for table in text.split("\n\n"):
        modules = _modules(table)
        for module in modules:
            order.add(module)
        for first, second in pairwise(modules):
            order.add(second, first)
    return list(order.static_order())


@cache
def _file(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    assert file is not None, module
    return ast.parse(file.read_text())


@cache
def defined_in(module: str, name: str) -> str:
    """The module that `from module import name` leads to."""
    if _file(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and name in {a.asname or a.name for a in node.names}:
            return defined_in(node.module, name)
    return module


@cache
def rests_on(module: str) -> set[str]:
    """Return the project's modules that a module imports from, or uses a name of, as in `kernels.walk`."""
    modules: set[str] = set()
    packages: dict[str, str] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in FLOORS:
            leads = {alias.asname or alias.name: defined_in(node.module, alias.name) for alias in node.names}
            modules |= set(leads.values())
            packages |= {name: to for name, to in leads.items() if (ROOT / to.replace(".", "/")).is_dir()}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            modules.add(defined_in(packages[node.value.id], node.attr))
    return modules


def slice_of(roots: set[str]) -> set[str]:
    """Return these modules and those on which they depend, without packages, other mechanisms and `aside`."""
    modules: set[str] = set()
    todo = list(roots)
    while todo:
        module = todo.pop()
        file = _file(module)
        assert file is not None, module
        is_skipped = file.name == "__init__.py" or module.startswith(tuple(aside()))
        is_other_mechanism = module.startswith("accounting.mechanisms.") and module not in roots
        if module not in modules and not is_skipped and not is_other_mechanism:
            modules.add(module)
            todo.extend(rests_on(module))
    return modules


@cache
def _lines(module: str) -> int:
    return Module(ROOT / f"{module.replace('.', '/')}.py").code_lines


def lines(modules: set[str]) -> int:
    """Return how many lines of code the modules have, without blank lines, comments and docstrings."""
    return sum(map(_lines, modules))


_PROBLEMS = [
    Problem(loss, L2(0.05), domain, n=4000, d=d, row_norm=2.0, columns=columns)
    for loss in (Logistic(), Squared(), Absolute())
    for domain in (LinfBall(1.0), Problem(Logistic(), n=1, d=1, row_norm=1.0).domain)
    for d, columns in ((1, None), (3, Columns((1, 1))))
]


@cache
def _runs(method: type) -> list[tuple[Run, Problem]]:
    """Return the method's runs on all problems that it accepts, with and without delta."""
    variants: list[Any] = [method()]
    if method is DpGd:
        variants += [DpGd(release="last"), DpGd(release="random")]
    resolved = []
    for variant in variants:
        for problem in _PROBLEMS:
            for privacy in (Privacy(1.0, 1e-6), Privacy(1.0)):
                try:
                    resolved.append((variant.resolve(problem, privacy), problem))
                except Unsuitable:
                    continue
    assert resolved, method
    return resolved


def _mechanisms(method: type) -> set[str]:
    """Return the modules of the mechanisms of its queries, and of mechanisms inside these."""
    modules: set[str] = set()
    for run, problem in _runs(method):
        todo: list[Any] = [query.mechanism for query in run.queries(problem)]
        while todo:
            mechanism = todo.pop()
            modules.add(type(mechanism).__module__)
            todo += [v for f in mechanism.__dataclass_fields__ if hasattr(v := getattr(mechanism, f), "perturb")]
            if isinstance(mechanism, RowObjectivePerturbation):  # its noise is that one's
                todo.append(ObjectivePerturbation(mechanism.curvature_ratio))
    return modules


def slices() -> dict[str, set[str]]:
    """Return the modules of each method by its name."""
    modules_by_method = {}
    for method in get_args(Method):
        run, _ = _runs(method)[0]
        roots = {method.__module__, ORACLES[_base(run)], "accounting.mechanisms.mechanism", *_mechanisms(method)}
        roots |= {module for asks, module in HANDED.items() if getattr(run, asks, False)}
        modules_by_method[str(method.__dataclass_fields__["name"].default)] = slice_of(roots) | set(FRAME)
    return modules_by_method


def page() -> str:
    """Return the text of docs/reviewing.md with the tables that follow from the code."""
    text, every = PAGE.read_text(), slices()
    standardised = slice_of({"solvers.preparation.private", ORACLES[StandardisedRun], "accounting.mechanisms.gaussian"})
    statistics = {member.__module__ for member in get_args(AnyCounting) if issubclass(member, CountingRun)}
    counted = slice_of({*statistics, ORACLES[CountingRun]})
    tabled = slice_of({RegressionTableRun.__module__, ORACLES[WeightedRun]})
    order = _reading_order(text.partition(f"### {_BY_HAND}")[0])
    order += sorted(module for module in set().union(*every.values(), counted, tabled) - set(order) if check_of(module))
    core = [module for module in order if all(module in modules for modules in every.values())]
    assert set(FRAME) <= set(core)
    text = _with_table(text, "Core", core)
    for base, title in _TITLES.items():
        group = _group({name: every[name] for name in sorted(every) if _base_of(name) == base}, core, order)
        text = re.sub(rf"(?ms)^### {title}\n.*?(?=^#)", "\n".join([f"### {title}", "", *group, ""]), text)
    prepared = standardised - set(core)
    for title, modules in (
        ("Private standardization", prepared),
        ("Statistics", counted - prepared - set(core)),
        ("Regression tables", tabled - prepared - set(core)),
    ):
        text = _with_table(text, title, in_reading_order(title, modules, order))
    by_hand = text.partition(f"\n### {_BY_HAND}\n")[2].partition("\n## ")[0]
    unlisted = {member.__module__ for member in get_args(Mechanism)} - set(_modules(text))
    own = sorted(module for module in unlisted if check_of(module))
    text = _with_table(text, _BY_HAND, [*own, *_modules(by_hand)])
    return _ROW.sub(lambda row: _row(row[1].replace("/", ".")), text)


def _base(run: Any) -> type[Any]:
    """Return the base class of a run, which determines its oracle."""
    return next(base for base in ORACLES if isinstance(run, base))


def _base_of(method: str) -> type[Any]:
    return next(_base(_runs(m)[0][0]) for m in get_args(Method) if m.__dataclass_fields__["name"].default == method)


def _group(every: dict[str, set[str]], core: list[str], order: list[str]) -> list[str]:
    """Return the tables of methods with one oracle: their common modules besides the core, then those of each."""
    shared = set.intersection(*every.values()) if len(every) > 1 else set()
    common = [module for module in order if module in shared and module not in core]
    text = []
    if common:
        text += ["All methods of this group need these files in addition to the core.", "", *_table(common), ""]
    for name, modules in every.items():
        own = in_reading_order(name, modules - {*core, *common}, order)
        text += [
            f"**`{name}`** ([proof](proofs/{name}.md), {lines(modules)} lines with the core)",
            "",
            *_table(own),
            "",
        ]
    return text


def in_reading_order(guarantee: str, modules: set[str], order: list[str]) -> list[str]:
    """Return the modules in reading order. Raise `LookupError` if nothing states what to check in one of them."""
    missing = sorted(modules - set(order))
    if missing:
        raise LookupError(
            f"{guarantee} depends on {', '.join(missing)}, and nothing states what to check there. Begin a paragraph "
            "with `Review:` in the docstring, or write a row into a table of docs/reviewing.md"
        )
    return [module for module in order if module in modules]


def _with_table(text: str, title: str, modules: list[str]) -> str:
    """Return the page with another table in one of its sections."""
    head, _, section = text.partition(f"\n### {title}\n")
    introduction, _, table = section.partition("\n| file ")
    _, _, remainder = table.partition("\n\n")
    return "\n".join([head, f"### {title}", introduction, *_table(modules), "", remainder])


def _table(modules: list[str]) -> list[str]:
    return ["| file | lines | what to check |", "| --- | ---: | --- |", *map(_row, modules)]


def _row(module: str) -> str:
    path = f"{module.replace('.', '/')}.py"
    return f"| [{path}](../{path}) | {_lines(module)} | {check_of(module)} |"


_TITLES = {
    FullBatchRun: "Methods that request gradients over all records",
    SampledRun: "Methods that request gradients over random batches",
    DataRun: "Methods that read rows and release points",
    AllocatedRun: "Methods with secret slots",
    StandardisedRun: "Methods with private standardization of their own",
}


if __name__ == "__main__":
    PAGE.write_text(page())
    methods.write()
