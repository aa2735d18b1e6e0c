"""A hash chain: hash_i = SHA-256(canonical JSON of entry i and of hash_(i-1)). Light: a receipt's reader needs it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from accounting.errors import CodecError, LedgerInvalid
from accounting.records.documents import canonical, fields, integer, text

GENESIS = "0" * 64
MOST_ENTRIES = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One link: hash = SHA-256 of the canonical JSON of everything else here, the hash before it included.

    Parameters
    ----------
    sequence : int, 1, 2, ... within one chain
    kind : str, what happened
    body : JSON object
    previous_hash, hash : lower-case hexadecimal
    """

    sequence: int
    kind: str
    body: dict[str, Any]
    previous_hash: str
    hash: str

    def digest(self) -> str:
        """What `hash` must be; `CodecError` if the body has no canonical form."""
        document = self.to_json()
        del document["hash"]
        return hashlib.sha256(canonical(document)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """`{sequence, kind, body, previous_hash, hash}`."""
        return {
            "sequence": self.sequence,
            "kind": self.kind,
            "body": self.body,
            "previous_hash": self.previous_hash,
            "hash": self.hash,
        }

    @staticmethod
    def from_json(document: Any) -> "Entry":
        """The entry that `to_json` wrote, its hash not yet checked; `CodecError` for anything else."""
        node = fields(document, ("sequence", "kind", "body", "previous_hash", "hash"), "an entry")
        if not isinstance(node["body"], dict):
            raise CodecError("an entry's body must be an object")
        return Entry(
            integer(node["sequence"], 1, MOST_ENTRIES, "sequence"),
            text(node["kind"], "kind", 16),
            node["body"],
            text(node["previous_hash"], "previous_hash", 64),
            text(node["hash"], "hash", 64),
        )


def link(sequence: int, kind: str, body: dict[str, Any], previous_hash: str) -> Entry:
    """The entry with its hash."""
    open_ended = Entry(sequence, kind, body, previous_hash, "")
    return Entry(sequence, kind, body, previous_hash, open_ended.digest())


def verify_chain(entries: Sequence[Entry]) -> None:
    """Each entry hashes to its hash, names the hash before it and follows it by one.

    Any unbroken part of a chain will do; the entry numbered 1, and no other, follows the genesis hash.

    Raises
    ------
    LedgerInvalid
        at the first entry where this fails.
    """
    for i, entry in enumerate(entries):
        try:
            sound = entry.hash == entry.digest()
        except CodecError:
            sound = False
        if i > 0:
            before = entries[i - 1]
            sound = sound and (entry.sequence, entry.previous_hash) == (before.sequence + 1, before.hash)
        if not sound or (entry.sequence == 1) != (entry.previous_hash == GENESIS):
            raise LedgerInvalid(f"the chain breaks at entry {i} of those given")
