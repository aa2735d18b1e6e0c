"""Columns whose names suggest that they identify a person."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from purse.wire.columns import CategoryColumn, Column
from purse.wire.datasets import DatasetSpec

_PERSONS = frozenset(
    ("client", "customer", "employee", "member", "participant", "patient", "patienten", "person", "respondent")
) | {"student", "subject", "user"}
_IDENTIFIERS = _PERSONS | frozenset(
    ("id", "ids", "uid", "uuid", "guid", "pid", "ssn", "nino", "mrn", "mail", "email", "phone", "passport", "username")
)
_FEW_VALUES = 10  # a column with at most so many declared values groups persons, such as `email` with yes and no


def unit_warnings(spec: DatasetSpec, names: Iterable[str]) -> list[str]:
    """Return a warning if rows are protected although a column looks like a person's identifier.

    Parameters
    ----------
    spec : the declaration; a column that it limits to a few values cannot identify persons
    names : names of columns, in the file or in the declaration
    """
    if spec.unit is not None:
        return []
    grouping = {name for column in spec.columns if _has_few_values(column) for name in (column.name, column.of)}
    suspects = [name for name in identifying(names) if name not in grouping]
    return [
        f"One row is protected, not one person, and the column {name!r} looks like a person's identifier. If a person "
        "can have several rows, declare that column as the `unit` instead, so that persons are protected."
        for name in suspects[:1]
    ]


def identifying(names: Iterable[str]) -> Iterator[str]:
    """Yield the column names that look like a person's identifier: patient_id, userId, PatientenID, SSN, e-mail."""
    return filter(_is_identifying, names)


def _has_few_values(column: Column) -> bool:
    if isinstance(column, CategoryColumn):
        return len(column.categories) <= _FEW_VALUES
    return column.upper - column.lower <= _FEW_VALUES


@lru_cache(2**14)  # the columns of a few wide datasets, which are checked whenever one of them is described
def _is_identifying(name: str) -> bool:
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).casefold())
    is_compound = any(word.endswith("id") and word[:-2] in _PERSONS for word in words)
    return is_compound or not _IDENTIFIERS.isdisjoint(words) or "email" in "".join(words)
