"""Tables of the documentation that follow from the code: `python -m tests.support.doc_tables` writes them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from app.cli.table import COMMANDS
from app.http.codes import CODES
from app.settings import Settings
from purse.wire.statistics import RESULTS
from solvers.domains import Domain
from solvers.losses import Loss
from solvers.preparation import AskedPreparation
from solvers.regularizers import Regularizer
from solvers.statistics import AnyStatistic, Profile
from tests.support.members import name_of

DOCS = Path(__file__).parents[2] / "docs"
_PARTS = {"loss": Loss, "regularizer": Regularizer, "domain": Domain, "preparation": AskedPreparation}
_Row = Sequence[str]


def _commands() -> Iterator[_Row]:
    """Yield each command and its summary."""
    for command in COMMANDS:
        yield f"`purse {command.words}`", command.summary


def _codes() -> Iterator[_Row]:
    """Yield each error code, its status, title and meaning."""
    for name, code in CODES.items():
        yield f"`{name}`", str(code.status), code.title, code.meaning


def _settings() -> Iterator[_Row]:
    """Yield each environment variable, its default and its description."""
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        yield f"`PURSE_{name.upper()}`", default, field.description or ""


def _statistics() -> Iterator[_Row]:
    """Yield each statistic and the numbers that it releases. A profile has a section of its own."""
    for kind in get_args(AnyStatistic):
        if kind is not Profile:
            yield f"`{name_of(kind)}`", RESULTS[name_of(kind)].releases


TABLES: Mapping[str, tuple[str, Callable[[], Iterator[_Row]]]] = {
    "commands.md": ("| Command | Purpose |", _commands),
    "errors.md": ("| code | status | title | meaning |", _codes),
    "settings.md": ("| setting | default | meaning |", _settings),
    "jobs.md": ("| method | releases |", _statistics),
}
"""The heading and the rows of a table by its page."""


def page(name: str) -> str:
    """Return the text of a page with the rows that follow from the code."""
    heading, make = TABLES[name]
    head, _, remainder = (DOCS / name).read_text().partition(f"{heading}\n")
    ending = remainder.partition("\n\n")[2]
    lines = [heading, f"|{' --- |' * (heading.count('|') - 1)}", *(f"| {' | '.join(row)} |" for row in make())]
    text = "\n".join([f"{head}{lines[0]}", *lines[1:], *(["", ending] if ending else [""])])
    for part, union in _PARTS.items() if name == "jobs.md" else ():
        names = ", ".join(f"`{name_of(member)}`" for member in get_args(union))
        text = re.sub(rf"(?m)^\| `{part}` \| [^|]* \|", f"| `{part}` | {names} |", text)
    return text


if __name__ == "__main__":
    for each in TABLES:
        (DOCS / each).write_text(page(each))
