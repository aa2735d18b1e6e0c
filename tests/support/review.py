"""Find the files that each privacy guarantee depends on, and write docs/reviewing.md.

A method depends on its run, its oracle and the mechanisms of its queries. A file depends on the modules from which it
imports names; a name that a package re-exports is followed to the file that defines it.
`python -m tests.support.review` writes the page and the generated part of docs/methods.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Any, get_args

from accounting.mechanisms import ObjectivePerturbation, RowObjectivePerturbation
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
from tests.support.guarantees import ANSWER, ASIDE, COMPOSITION, LEDGER, NEIGHBORS, SPECIAL
from tests.support.size import Module

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reviewing.md"
FLOORS = ("accounting", "solvers")
MOST_FRAME_LINES, MOST_SLICE_LINES = 755, 2330
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
    """Return the modules on which these depend, with themselves, without packages, other mechanisms and ASIDE."""
    modules: set[str] = set()
    todo = list(roots)
    while todo:
        module = todo.pop()
        file = _file(module)
        assert file is not None, module
        is_skipped = file.name == "__init__.py" or module.startswith(tuple(ASIDE))
        is_other_mechanism = module.startswith("accounting.mechanisms.") and module not in roots
        if module not in modules and not is_skipped and not is_other_mechanism:
            modules.add(module)
            todo.extend(rests_on(module))
    return modules


def lines(modules: set[str]) -> int:
    """Return how many lines of code the modules have, without blank lines, comments and docstrings."""
    return sum(Module(file).code_lines for module in modules if (file := _file(module)) is not None)


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
    """Return the text of docs/reviewing.md."""
    every = slices()
    core = [module for module in ANSWER if all(module in modules for modules in every.values())]
    assert set(FRAME) <= set(core)
    sections = [_INTRODUCTION, *_table(core, ANSWER)]
    for base, title in _TITLES.items():
        sections += _group(title, {name: every[name] for name in sorted(every) if _base_of(name) == base}, set(core))
    standardised = slice_of({"solvers.preparation.private", ORACLES[StandardisedRun], "accounting.mechanisms.gaussian"})
    statistics = {member.__module__ for member in get_args(AnyCounting) if issubclass(member, CountingRun)}
    counted = slice_of({*statistics, ORACLES[CountingRun]})
    tabled = slice_of({RegressionTableRun.__module__, ORACLES[WeightedRun]})
    prepared = [module for module in ANSWER if module in standardised and module not in core]
    counting = [module for module in ANSWER if module in counted and module not in {*core, *prepared}]
    table = [module for module in ANSWER if module in tabled and module not in {*core, *prepared}]
    sections += [_PREPARATION, *_table(prepared, ANSWER), _STATISTICS, *_table(counting, ANSWER)]
    sections += [_REGRESSION_TABLES, *_table(table, ANSWER)]
    for introduction, files in (
        (_SPECIAL, SPECIAL),
        (_COMPOSITION, COMPOSITION),
        (_LEDGER, LEDGER),
        (_NEIGHBORS, NEIGHBORS),
    ):
        sections += [introduction, *_table(list(files), files)]
    sections += [
        _ASIDE,
        "| module | reason |",
        "| --- | --- |",
        *(f"| `{m}` | {why} |" for m, why in ASIDE.items()),
        "",
    ]
    return "\n".join(sections)


def _base(run: Any) -> type[Any]:
    """Return the base class of a run, which determines its oracle."""
    return next(base for base in ORACLES if isinstance(run, base))


def _base_of(method: str) -> type[Any]:
    return next(_base(_runs(m)[0][0]) for m in get_args(Method) if m.__dataclass_fields__["name"].default == method)


def _group(title: str, every: dict[str, set[str]], core: set[str]) -> list[str]:
    """Return the tables of methods with one oracle: their common modules besides the core, then those of each."""
    common = [
        module for module in ANSWER if all(module in modules for modules in every.values()) and module not in core
    ]
    if len(every) == 1:
        common = []
    text = [f"### {title}", ""]
    if common:
        text += ["All methods of this group need these files in addition to the core.", "", *_table(common, ANSWER)]
    for name, modules in every.items():
        own = [module for module in ANSWER if module in modules and module not in {*core, *common}]
        assert modules == {*core, *common, *own}, name
        text += [f"**`{name}`** ([proof](proofs/{name}.md), {lines(modules)} lines with the core)", ""]
        text += _table(own, ANSWER)
    return text


def _table(modules: list[str], checks: dict[str, str]) -> list[str]:
    rows = [f"| [{_path(m)}](../{_path(m)}) | {lines({m})} | {checks[m]} |" for m in modules]
    return ["| file | lines | what to check |", "| --- | ---: | --- |", *rows, ""]


def _path(module: str) -> str:
    file = _file(module)
    assert file is not None
    return str(file.relative_to(ROOT))


_TITLES = {
    FullBatchRun: "Methods that request gradients over all records",
    SampledRun: "Methods that request gradients over random batches",
    DataRun: "Methods that read rows and release points",
    AllocatedRun: "Methods with secret slots",
    StandardisedRun: "Methods with private standardization of their own",
}

_INTRODUCTION = """# Review guide

After reading this page you know which files each privacy guarantee depends on, in which order to
read them, and what to check in each. The guarantees are:

1. [One answer is private.](#one-answer-is-private)
2. [Answers compose to epsilon.](#answers-compose-to-epsilon)
3. [The ledger never exceeds the budget.](#the-ledger-never-exceeds-the-budget)
4. [A file's neighbors stay neighbors.](#a-files-neighbors-stay-neighbors)

Read the [specification](spec/README.md) first, and each file beside its [proof](proofs).
`python -m tests.support.review` writes this page. For the first guarantee, the imports determine
the files. Lines are lines of code, without blank lines, comments and docstrings.

## One answer is private

The law of an answer changes little if a record changes. Read the core once, because every method
needs it. Then read the files that a method adds.

### Core
"""

_PREPARATION = """### Private standardization

By default, every method except `adaptive_gd` runs on rows standardized by private moments
([proof](proofs/preparation.md)). `run` in `solvers/solve.py` connects both steps. In addition to
the core, read these files.
"""

_STATISTICS = """### Statistics

These files are for counts, means, quantiles, covariances, profiles and evaluations. Read them after
the core and private standardization, beside the proofs of
[standardization](proofs/standardisation.md), [statistics](proofs/statistics.md) and
[evaluations](proofs/evaluation.md).
"""

_REGRESSION_TABLES = """### Regression tables

These files are for regression tables. Read them after the core and private standardization, beside
the proof of [regression tables](proofs/regression_table.md). Estimates and intervals are computed
from the answers alone.
"""

_SPECIAL = """### Tunings and published forms

Tunings train several models and release one of them ([proof](proofs/tunings.md)). The published form
of `dp_svrg` draws batches without replacement ([proof](proofs/svrg_step.md)).
"""

_COMPOSITION = """## Answers compose to epsilon

All answers of one job together are (epsilon, delta)-DP for the stated epsilon. Accountants certify
this value, and a receipt contains all that is needed to compute it again. Read these files beside
the proofs of the mechanisms.
"""

_LEDGER = """## The ledger never exceeds the budget

All jobs on a dataset together stay within its budget, also if jobs run at the same time, fail or
are chosen adaptively. Read these files beside the proofs of the [filters](proofs/filter.md) and
[allotments](proofs/allotments.md), and the decision on the
[job engine](decisions/0004-job-engine.md).
"""

_NEIGHBORS = """## A file's neighbors stay neighbors

If two files differ in one record, the stored datasets must differ in this record only. Otherwise
the guarantees above do not apply to the file. Read these files beside the proofs of
[encoding](proofs/encoding.md) and [persons](proofs/persons.md). Stored records enter a job through
`Data.coded`.
"""

_ASIDE = """## Modules outside the lists

The tables of the first guarantee do not include these modules.
"""


if __name__ == "__main__":
    PAGE.write_text(page())
    methods.write()
