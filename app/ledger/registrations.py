"""The registration of a dataset in its ledger, and its comparison with the dataset's row in the database.

Jobs are priced by the row: its number of records, its declaration, its ledger and its folder. The row is not in the
hash chain, so it must repeat what the entry `opened` or `joined` states. Name, budget and the rule for sessions are not
part of the hash, because they may change. Jobs are charged to the budget of the ledger, never to that of the row, and
`app.ledger.audit` compares the rule with the ledger's newest one.
"""

import hashlib
from dataclasses import dataclass, fields
from functools import lru_cache

from accounting.records.documents import canonical, parse
from accounting.records.events import Registration
from purse.wire.datasets import DatasetSpec

_NOT_COMPARED = ("name", "budget", "sessions")


@lru_cache(64)  # reading a declaration of thousands of columns takes long, and every request needs it
def declared(spec: str) -> DatasetSpec:
    """Return the declaration that is stored as this text."""
    return DatasetSpec.model_validate_json(spec)


@lru_cache(64)
def declaration_sha256(spec: str, holdout_of: str | None) -> str:
    """Return the hash of a declaration, and of the dataset whose holdout set it declares."""
    document = {name: value for name, value in parse(spec).items() if name not in _NOT_COMPARED}
    return hashlib.sha256(canonical({"declaration": document, "holdout_of": holdout_of})).hexdigest()


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """The columns of a dataset's row that its registration states."""

    id: str
    folder: str
    rows: int
    spec: str
    holdout_of: str | None
    data: str

    @property
    def stage(self) -> str:
        """The column `data` as a ledger states it, which registers records elsewhere like stored ones."""
        return "stored" if self.data == "elsewhere" else self.data

    def differs(self, stated: Registration) -> str | None:
        """Return a sentence that names the first column or field that differs from the registration, or None."""
        declaration = declared(self.spec)
        digest = declaration_sha256(self.spec, self.holdout_of) if stated.declaration_sha256 is not None else None
        own = Registration(self.rows, declaration.protected, declaration.neighbors, declaration.family, digest)
        names = [field.name for field in fields(own) if getattr(own, field.name) != getattr(stated, field.name)]
        if self.folder != self.id:
            names.append("folder")
        if self.stage == "stored" and self.data != declaration.data:
            names.append("data")
        return f"the stored {names[0]} of {self.id} differs from its registration in the ledger" if names else None
