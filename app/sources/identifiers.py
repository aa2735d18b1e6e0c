"""Column names that probably identify a person."""

import re
from collections.abc import Iterable, Iterator

_PERSONS = frozenset(
    ("client", "customer", "employee", "member", "participant", "patient", "patienten", "person", "respondent")
) | {"student", "subject", "user"}
_IDENTIFIERS = _PERSONS | frozenset(
    ("id", "ids", "uid", "uuid", "guid", "pid", "ssn", "nino", "mrn", "mail", "email", "phone", "passport", "username")
)


def identifying(names: Iterable[str]) -> Iterator[str]:
    """Yield the column names that look like a person's identifier: patient_id, userId, PatientenID, SSN, e-mail."""
    for name in names:
        words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).casefold())
        compound = any(word.endswith("id") and word[:-2] in _PERSONS for word in words)
        if compound or not _IDENTIFIERS.isdisjoint(words) or "email" in "".join(words):
            yield name
