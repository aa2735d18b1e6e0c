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

from accounting.privacy import Privacy
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


def page(method: str, found: Curves) -> str:
    """A method's page: its prose as it is, and below the line what is so."""
    code = METHODS[method]
    prose = (FOLDER / f"{method}.md").read_text().partition(BELOW)[0].rstrip()
    said = [*_takes(code), *_parameters(code), *_measured(method, found), *_read_on(method)]
    return "\n".join([prose, "", BELOW, "", *said])


def pictures(found: Curves) -> dict[str, str]:
    """Their files by name."""
    return {
        name: measured.law() if name == "inverse_sensitivity" else measured.picture(name, found) for name in METHODS
    }


def write() -> None:
    """All of them."""
    found = measured.curves()
    for name, drawn in pictures(found).items():
        (FOLDER / f"{name}.svg").write_text(drawn)
        (FOLDER / f"{name}.md").write_text(page(name, found))


def _takes(method: Any) -> Iterator[str]:
    """By trying: one thing after another in the place of a problem's that it takes."""
    choices: list[Any] = [LOSSES, REGULARIZERS, DOMAINS, COLUMNS, PROMISES]
    base: Any = next(each for each in product(*choices) if _taken(method, *each))
    pure = (*base[:4], PROMISES[1])

    def names(place: int) -> str:
        tried = ((one, (*base[:place], one, *base[place + 1 :])) for one in choices[place])
        return ", ".join(f"`{one.name}`" for one, each in tried if _taken(method, *each))

    yield from ("## Supported problems", "", "| | |", "| --- | --- |")
    yield from (f"| {part} | {names(i)} |" for i, part in enumerate(("losses", "regularizers", "domains")))
    yield f"| delta = 0 | {'yes' if _taken(method, *pure) else 'no, the noise is Gaussian'} |"
    yield ""


def _taken(method: Any, loss: Any, regularizer: Any, domain: Any, columns: Columns, privacy: Privacy) -> bool:
    facts: dict[str, Any] = {"n": 40_000, "d": columns.d, "row_norm": columns.row_norm, "columns": columns}
    try:
        method().resolve(Problem(loss, regularizer, domain, **facts), privacy)
    except SolverError:
        return False
    return True


def _parameters(method: Any) -> Iterator[str]:
    """From the docstring, defaults from the fields."""
    section = (getdoc(method) or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    yield from ("## Parameters", "", "Parameters left out are chosen from public facts, and the quote shows them.", "")
    yield from ("| parameter | default | meaning |", "| --- | --- | --- |")
    defaults = {field.name: field for field in fields(method)}
    for found in re.finditer(r"^(\w[\w, ]*?) : (.*(?:\n .*)*)", section, re.MULTILINE):
        for name in found[1].split(", "):
            yield f"| `{name}` | {_default(defaults[name])} | {_cell(found[2])} |"
    yield ""


def _default(field: Any) -> str:
    value = field.default_factory() if field.default is MISSING else field.default
    return "" if value is None else f"`{getattr(value, 'name', value)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _measured(method: str, found: Curves) -> Iterator[str]:
    """Yield the table of mean excess; a value is bold if the best of all methods is at least 90 % of it."""
    own = measured.of(method, found)
    if own:
        yield from ("## Measurements", "")
        yield "The table shows the mean excess training risk, without tuning or a penalty, at delta 1e-5. A value"
        yield "is bold if the best result for that dataset and epsilon is at least 90 % of it."
        yield "[Measurement and scores](../benchmarks/ours.md)."
        yield ""
        yield "| dataset | variant | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |"
        yield "| --- | --- |" + " ---: |" * len(EPSILONS)
        for dataset, ways in own.items():
            least = [min(column) for column in zip(*found[dataset].values(), strict=True)]
            for way, curve in ways.items():
                cells = (f"**{v:.5f}**" if v <= low / 0.9 else f"{v:.5f}" for v, low in zip(curve, least, strict=True))
                yield f"| {dataset} | {way} | " + " | ".join(cells) + " |"
        yield ""


def _read_on(method: str) -> Iterator[str]:
    """Its proof, its code, its audit."""
    code = METHODS[method].__module__.replace(".", "/") + ".py"
    yield from ("## Further reading", "")
    yield f"- [Proof](../proofs/{method}.md), [code](../../{code}) and [other files to review](../reviewing.md)"
    yield f"- `purse audit {method}` attacks the method on its worst neighbors ([results](../benchmarks/README.md))."
    yield ""
