"""Write the generated part of docs/methods: supported problems, parameters, measurements and pictures.

`tests.support.review` writes it below the marked line of each page; the prose is above the line.
"""

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from inspect import getdoc
from itertools import product
from pathlib import Path
from typing import Any, get_args

from accounting.errors import FilterMismatch
from accounting.filter import Filter
from accounting.privacy import Privacy
from solvers import plan
from solvers.columns import Columns
from solvers.domains import Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import SolverError
from solvers.losses import Loss, Softmax
from solvers.methods import Method
from solvers.problem import Problem
from solvers.regularizers import L1, L2, ElasticNet, NoRegularizer
from tests.support import measured
from tests.support.measured import EPSILONS, Curves

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/methods"
BELOW = "<!-- Below: written from the code by `python -m tests.support.review`. -->"
REGULARIZERS = (L2(0.05), NoRegularizer(), L1(0.05), ElasticNet(0.05, 0.05))
LOSSES = [loss(3) if loss is Softmax else loss() for loss in get_args(Loss)]
DOMAINS = (Free(), LinfBall(1.0), L2Ball(1.0), L1Ball(1.0), Simplex(1.0))
METHODS: dict[str, Any] = {str(m.__dataclass_fields__["name"].default): m for m in get_args(Method)}
COLUMNS = (Columns((1, 1)), Columns(()))  # two numbers; none, the intercept alone
PROMISES = (Privacy(1.0, 1e-6), Privacy(1.0))
CHOICES: list[Any] = [LOSSES, REGULARIZERS, DOMAINS, COLUMNS, PROMISES]
SUMMARY = FOLDER / "README.md"


def page(method: str, curves: Curves) -> str:
    """Return a method's page: its prose unchanged, and the generated sections below the line."""
    code = METHODS[method]
    prose = (FOLDER / f"{method}.md").read_text().partition(BELOW)[0].rstrip()
    sections = [*_takes(code), *_parameters(code), *_measured(method, curves), *_read_on(method)]
    return "\n".join([prose, "", BELOW, "", *sections])


def pictures(curves: Curves) -> dict[str, str]:
    """Return the pictures' contents by file name."""
    return {
        name: measured.law() if name == "inverse_sensitivity" else measured.picture(name, curves) for name in METHODS
    }


def summary() -> str:
    """Return the page that compares all methods: its prose unchanged, and the generated table below the line."""
    prose = SUMMARY.read_text().partition(BELOW)[0].rstrip()
    return "\n".join([prose, "", BELOW, "", *_support(), ""])


def write() -> None:
    """All of them."""
    curves = measured.curves()
    SUMMARY.write_text(summary())
    for name, drawn in pictures(curves).items():
        (FOLDER / f"{name}.svg").write_text(drawn)
        (FOLDER / f"{name}.md").write_text(page(name, curves))


def _takes(method: Any) -> Iterator[str]:
    """By trying: one thing after another in the place of a problem's that it takes."""
    base = _supported_problem(method)
    yield from ("## Supported problems", "", "| | |", "| --- | --- |")
    for i, part in enumerate(("losses", "regularizers", "domains")):
        yield f"| {part} | {_names(_variants(method, base, i))} |"
    yield f"| delta = 0 | {'yes' if _suits_pure(method, base) else 'no, the noise is Gaussian'} |"
    yield ""


def _support() -> Iterator[str]:
    """Yield a table with a row for each method, found by trying."""
    yield from ("## Supported problems", "")
    yield "An empty cell means that the quote refuses the combination and names the assumption that fails."
    yield "The filter `pure` requires delta = 0. The filters `gdp_rdp` and `rdp` charge every method."
    yield ""
    facts = ("loss not smooth", "not convex", "over two classes", "delta = 0", "filter `gdp`")
    titles = ("method", *facts, "regularizers", "domains")
    yield "| " + " | ".join(titles) + " |"
    yield "| --- " * len(titles) + "|"
    for name, method in METHODS.items():
        base = _supported_problem(method)
        problems = [_problem(loss, *base[1:4]) for loss in _variants(method, base, 0)]
        properties = (
            any(not problem.is_smooth for problem in problems),
            any(not problem.is_convex for problem in problems),
            any(isinstance(problem.loss, Softmax) for problem in problems),
            _suits_pure(method, base),
            _is_charged_by_gdp(method, base),
        )
        cells = ["yes" if fact else "" for fact in properties]
        parts = [_all_or_names(_variants(method, base, i), CHOICES[i]) for i in (1, 2)]
        yield f"| [`{name}`]({name}.md) | " + " | ".join([*cells, *parts]) + " |"


def _supported_problem(method: Any) -> Any:
    """Return the first combination of choices that a method accepts."""
    return next(each for each in product(*CHOICES) if _is_accepted(method, *each))


def _variants(method: Any, base: Any, place: int) -> list[Any]:
    """Return the choices that a method accepts at one place of a combination."""
    tried: Any = [(each, (*base[:place], each, *base[place + 1 :])) for each in CHOICES[place]]
    return [each for each, combination in tried if _is_accepted(method, *combination)]


def _suits_pure(method: Any, base: Any) -> bool:
    """Return whether a method accepts a combination at delta = 0."""
    combination: Any = (*base[:4], PROMISES[1])
    return _is_accepted(method, *combination)


def _all_or_names(members: list[Any], choices: Any) -> str:
    return "all" if len(members) == len(choices) else _names(members)


def _names(members: list[Any]) -> str:
    return ", ".join(f"`{each.name}`" for each in members)


def _is_charged_by_gdp(method: Any, base: Any) -> bool:
    """Return whether the filter `gdp` can charge the method's plan for a combination."""
    release = plan(method(), _problem(*base[:4]), base[4]).release
    try:
        Filter.open("gdp", Privacy(3.0, 1e-6)).cost(release.plan)
    except FilterMismatch:
        return False
    return True


def _problem(loss: Any, regularizer: Any, domain: Any, columns: Columns) -> Problem:
    facts: dict[str, Any] = {"n": 40_000, "d": columns.d, "row_norm": columns.row_norm, "columns": columns}
    return Problem(loss, regularizer, domain, **facts)


def _is_accepted(method: Any, loss: Any, regularizer: Any, domain: Any, columns: Columns, privacy: Privacy) -> bool:
    try:
        method().resolve(_problem(loss, regularizer, domain, columns), privacy)
    except SolverError:
        return False
    return True


def _parameters(method: Any) -> Iterator[str]:
    """From the docstring, defaults from the fields."""
    section = (getdoc(method) or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    yield from ("## Parameters", "", "Parameters left out are chosen from public facts, and the quote shows them.", "")
    yield from ("| parameter | default | meaning |", "| --- | --- | --- |")
    defaults = {field.name: field for field in fields(method)}
    for parameter in re.finditer(r"^(\w[\w, ]*?) : (.*(?:\n .*)*)", section, re.MULTILINE):
        for name in parameter[1].split(", "):
            yield f"| `{name}` | {_default(defaults[name])} | {_cell(parameter[2])} |"
    yield ""


def _default(field: Any) -> str:
    value = field.default_factory() if field.default is MISSING else field.default
    return "" if value is None else f"`{getattr(value, 'name', value)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _measured(method: str, curves: Curves) -> Iterator[str]:
    """Yield the table of mean excess; a value is bold if it is at most 1 / 0.9 times the best of all methods."""
    own = measured.of(method, curves)
    if own:
        yield from ("## Measurements", "")
        yield "Mean excess training risk at delta 1e-5, without tuning or a penalty ([measurement and"
        yield "scores](../benchmarks/ours.md)). Bold values exceed the best method by at most 11 %."
        yield ""
        yield "| dataset | variant | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |"
        yield "| --- | --- |" + " ---: |" * len(EPSILONS)
        for dataset, ways in own.items():
            best = [min(column) for column in zip(*curves[dataset].values(), strict=True)]
            for way, curve in ways.items():
                cells = (f"**{v:.5f}**" if v <= low / 0.9 else f"{v:.5f}" for v, low in zip(curve, best, strict=True))
                yield f"| {dataset} | {way} | " + " | ".join(cells) + " |"
        yield ""


def _read_on(method: str) -> Iterator[str]:
    """Its proof, its code, its audit."""
    code = METHODS[method].__module__.replace(".", "/") + ".py"
    yield from ("## Further reading", "")
    yield f"- [Proof](../proofs/{method}.md), [code](../../{code}) and [other files to review](../reviewing.md)"
    yield f"- `purse audit {method}` attacks the method on its worst neighbors ([results](../benchmarks/audits.md))."
    yield ""
