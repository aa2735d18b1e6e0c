"""Column names that probably identify a person."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_PERSONS = frozenset(
    ("client", "customer", "employee", "member", "participant", "patient", "patienten", "person", "respondent")
) | {"student", "subject", "user"}
_IDENTIFIERS = _PERSONS | frozenset(
    ("id", "ids", "uid", "uuid", "guid", "pid", "ssn", "nino", "mrn", "mail", "email", "phone", "passport", "username")
)


def identifying(names: Iterable[str]) -> Iterator[str]:
    """Yield the column names that look like a person's identifier: patient_id, userId, PatientenID, SSN, e-mail."""
    return filter(_is_identifying, names)


@lru_cache(2**14)  # the columns of a few wide datasets, which are checked whenever one of them is described
def _is_identifying(name: str) -> bool:
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).casefold())
    is_compound = any(word.endswith("id") and word[:-2] in _PERSONS for word in words)
    return is_compound or not _IDENTIFIERS.isdisjoint(words) or "email" in "".join(words)
