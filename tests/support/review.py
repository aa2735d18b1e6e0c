"""What a method's promise rests on: the files that its run, its door and its queries' mechanisms are made of.

A file rests on what it imports by name; a name that a package passes on is followed to the file that defines it. Of the
mechanisms a method rests on those of its queries alone. `python -m tests.support.review` writes docs/reviewing.md,
and what docs/methods says of the code.
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
from solvers.losses import Absolute, Logistic, Squared
from solvers.methods import DpGd, Method, Run
from solvers.problem import Problem
from solvers.regularizers import L2
from solvers.statistics import AnyCounting
from tests.support import methods

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reviewing.md"
FLOORS = ("accounting", "solvers")
MOST_FRAME, MOST_SLICE = 1300, 2775
DOORS = {
    "oracle": "solvers.data_access.oracle",
    "allocated": "solvers.data_access.allocated",
    "data": "solvers.data_access.access",
    "standardised": "solvers.data_access.standardised",
    "counting": "solvers.data_access.counting",
}
INPUTS, ENTRIES = "solvers.data_access.inputs", "solvers.data_access.sparse"
# Handed to the door of a run that asks for them, and to no other: `solve.oracle_of`, `solve.access_of`.
HANDED = {
    "walks": "solvers.data_access.walk",
    "hides": "solvers.data_access.last_iterate",
    "tabulates": "solvers.data_access.lattice_sums",
}
# Not followed, and why a promise does not rest on them.
ASIDE = {
    "solvers.losses": "bounds are held by the contract tests of their union",
    "solvers.regularizers": "as losses",
    "solvers.domains": "as losses",
    "solvers.potentials": "as losses",
    "solvers.methods.defaults": "chooses steps from public facts, never noise",
    "solvers.methods.checks": "refuses settings",
    "solvers.methods.average": "a mean of answers",
    "solvers.methods.path": "points made of answers",
    "solvers.methods.run": "types, and how settings are read",
    "solvers.doors": "types",
    "solvers.data_access.summed": "types",
    "solvers.kernels.digests": "a digest of sources, in the names of kept loops; test_kernels makes it again by itself",
    "accounting.errors": "names",
    "solvers.errors": "names",
    "accounting.calibration": "looks for noise; what it finds is certified again, and by anybody from the receipt",
    "accounting.accountants": "certify: held to slow references by the tests, and to one another",
    "accounting.divergences": "as accountants",
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
    """The modules of ours that a module imports from, by name, or takes a name from: `kernels.walk`."""
    found: set[str] = set()
    packages: dict[str, str] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in FLOORS:
            leads = {alias.asname or alias.name: defined_in(node.module, alias.name) for alias in node.names}
            found |= set(leads.values())
            packages |= {name: to for name, to in leads.items() if (ROOT / to.replace(".", "/")).is_dir()}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            found.add(defined_in(packages[node.value.id], node.attr))
    return found


def slice_of(roots: set[str]) -> set[str]:
    """All that these rest on, themselves included; packages' own files, other mechanisms and what is aside left out."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        module = todo.pop()
        file = _file(module)
        assert file is not None, module
        passed = file.name == "__init__.py" or module.startswith(tuple(ASIDE))
        other = module.startswith("accounting.mechanisms.") and module not in roots
        if module not in seen and not passed and not other:
            seen.add(module)
            todo.extend(rests_on(module))
    return seen


def lines(modules: set[str]) -> int:
    """How many lines they have, blank ones aside."""
    texts = [_file(module) for module in modules]
    return sum(1 for file in texts if file for line in file.read_text().splitlines() if line.strip())


_PROBLEMS = [
    Problem(loss, L2(0.05), domain, n=4000, d=d, row_norm=2.0, columns=columns)
    for loss in (Logistic(), Squared(), Absolute())
    for domain in (LinfBall(1.0), Problem(Logistic(), n=1, d=1, row_norm=1.0).domain)
    for d, columns in ((1, None), (3, Columns((1, 1))))
]


@cache
def _runs(method: type) -> list[tuple[Run, Problem]]:
    """Resolved on whatever problems it takes, at both kinds of promises."""
    asked: list[Any] = [method()]
    if method is DpGd:
        asked += [DpGd(release="last"), DpGd(release="random")]
    found = []
    for one in asked:
        for problem in _PROBLEMS:
            for privacy in (Privacy(1.0, 1e-6), Privacy(1.0)):
                try:
                    found.append((one.resolve(problem, privacy), problem))
                except Unsuitable:
                    continue
    assert found, method
    return found


def _mechanisms(method: type) -> set[str]:
    """Of its queries, and of what these hold."""
    found: set[str] = set()
    for run, problem in _runs(method):
        todo: list[Any] = [query.mechanism for query in run.queries(problem)]
        while todo:
            mechanism = todo.pop()
            found.add(type(mechanism).__module__)
            todo += [v for f in mechanism.__dataclass_fields__ if hasattr(v := getattr(mechanism, f), "perturb")]
            if isinstance(mechanism, RowObjectivePerturbation):  # its noise is that one's
                todo.append(ObjectivePerturbation(mechanism.curvature_ratio))
    return found


def slices() -> dict[str, set[str]]:
    """Each method's, by its name."""
    found = {}
    for method in get_args(Method):
        run, _ = _runs(method)[0]
        roots = {method.__module__, DOORS[run.door], "accounting.mechanisms.mechanism", *_mechanisms(method)}
        roots |= {module for asks, module in HANDED.items() if getattr(run, asks, False)}
        found[str(method.__dataclass_fields__["name"].default)] = slice_of(roots) | set(FRAME)
    return found


def page() -> str:
    """docs/reviewing.md."""
    every = slices()
    text = [_INTRODUCTION.format(frame=lines(set(FRAME)))]
    text += [f"| [{_path(m)}](../{_path(m)}) | {lines({m})} |" for m in FRAME]
    text += [
        "",
        "## Each method",
        "",
        "Beside the frame, each method rests on these files, and on the proofs of the same names.",
        "",
    ]
    for name, modules in sorted(every.items()):
        text += [
            f"**`{name}`**, {lines(modules)} lines in all: " + _listed(modules) + ".",
            "",
        ]
    standardised = {DOORS["standardised"], "accounting.mechanisms.gaussian"}
    prepared = _listed(slice_of({"solvers.preparation.private", *standardised}))
    statistics = {member.__module__ for member in get_args(AnyCounting)}
    told = _listed(slice_of({*statistics, DOORS["counting"], *standardised}))
    text += [
        "## Rows privately standardised",
        "",
        "By default every method but `adaptive_gd` meets rows that private moments centred and scaled; beside the",
        f"frame that rests on {prepared}, on `run` in",
        "`solvers/solve.py`, and on [proofs/preparation.md](proofs/preparation.md).",
        "",
        "## Statistics",
        "",
        "Counts, means, quantiles, covariances, profiles and evaluations; beside the frame they rest on",
        f"{told}, and on",
        "[proofs/standardisation.md](proofs/standardisation.md), [proofs/statistics.md](proofs/statistics.md) and",
        "[proofs/evaluation.md](proofs/evaluation.md). Of which records one is: `app/sources/holdout.py`, the",
        "functions `parts` and `whole` of `app/datasets/store.py` and who calls them, `app/quotes/evaluations.py`.",
        "Which job may standardise by a profile is decided in `app/quotes/pricing.py`.",
        "",
        "## Rows that are handed in",
        "",
        "Records as the service stores them enter by `Data.coded`. What `solve` is handed, arrays, tables",
        f"or sparse rows, passes [{_path(INPUTS)}](../{_path(INPUTS)}) first, each record by itself, and where entries",
        f"are stored [{_path(ENTRIES)}](../{_path(ENTRIES)}): {lines({INPUTS, ENTRIES})} lines.",
        "",
        "## Aside",
        "",
        "| not followed | why |",
        "| --- | --- |",
        *(f"| `{m}` | {why} |" for m, why in ASIDE.items()),
        "",
    ]
    return "\n".join(text)


def _listed(modules: set[str]) -> str:
    return ", ".join(f"`{_path(m)}` {lines({m})}" for m in sorted(modules - set(FRAME)))


def _path(module: str) -> str:
    file = _file(module)
    assert file is not None
    return str(file.relative_to(ROOT))


_INTRODUCTION = """# What to read for which promise

Written by `python -m tests.support.review`, from the imports; a test holds it. Lines are those that are not blank,
docstrings included. Read [spec/](spec) first, then the frame, then the method's files beside [proofs/](proofs).

## The frame

What makes an answer private and counts it, for every method: {frame} lines.

| file | lines |
| --- | --- |"""


if __name__ == "__main__":
    PAGE.write_text(page())
    methods.write()
