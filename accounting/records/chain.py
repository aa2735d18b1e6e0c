"""A hash chain: hash_i = SHA-256(canonical JSON of entry i and of hash_(i-1)). Light, for readers of receipts."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from accounting.errors import CodecError, LedgerInvalid
from accounting.records.documents import canonical, fields, integer, parse, text

GENESIS = "0" * 64
MOST_ENTRIES = 2**53 - 1
EntryKind = Literal[
    "opened",
    "joined",
    "promised",
    "frozen",
    "unfrozen",
    "renamed",
    "session_rule",
    "deleted",
    "withdrawn",
    "external",
    "rolled_back",
    "charged",
    "started",
    "refunded",
    "released",
    "failed",
    "cancelled",
    "reserved",
    "settled",
]
"""The kinds of the entries of a ledger; `accounting.records.entries` states their bodies."""
_FIELDS = ("sequence", "kind", "body", "previous_hash", "hash")
_HEAD = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain at one time. It commits to every entry up to there, so its keeper can detect any change."""

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"

    @staticmethod
    def parse(written: Any) -> "Head":
        """Return the head that was written as `sequence:hash`. Raise `CodecError` for anything else."""
        match = _HEAD.fullmatch(written) if isinstance(written, str) else None
        if match is None or int(match[1]) > MOST_ENTRIES:
            raise CodecError("a head must be SEQUENCE:HASH, with the hash in 64 lower-case hexadecimal digits")
        return Head(int(match[1]), match[2])


@dataclass(frozen=True, slots=True)
class Entry:
    """One link: its hash is the SHA-256 of the canonical JSON of all its other fields.

    Parameters
    ----------
    sequence : 1, 2, ... within one chain
    kind : of the event
    body : JSON object
    previous_hash, hash : lower-case hexadecimal
    """

    sequence: int
    kind: str
    body: dict[str, Any]
    previous_hash: str
    hash: str

    @property
    def head(self) -> Head:
        """The chain's head as of this entry."""
        return Head(self.sequence, self.hash)

    def digest(self) -> str:
        """Return the expected `hash`. Raise `CodecError` if the body has no canonical form."""
        document = self.to_json()
        del document["hash"]
        return hashlib.sha256(canonical(document)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return `{sequence, kind, body, previous_hash, hash}`."""
        return {name: getattr(self, name) for name in _FIELDS}

    @staticmethod
    def from_json(document: Any) -> "Entry":
        """Return the entry that `to_json` wrote, with its hash not checked. Raise `CodecError` for anything else."""
        node = fields(document, _FIELDS, "an entry")
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
    """Return the entry with its hash."""
    without_hash = Entry(sequence, kind, body, previous_hash, "")
    return Entry(sequence, kind, body, previous_hash, without_hash.digest())


def check_heads(entries: Sequence[Entry], heads: Iterable[Head]) -> None:
    """Raise `LedgerInvalid` unless a whole chain contains every head, so no entry up to any of them was changed."""
    for head in heads:
        if len(entries) < head.sequence:
            raise LedgerInvalid(f"the chain ends at entry {len(entries)}, before the head {head}: entries are missing")
        if entries[head.sequence - 1].hash != head.hash:
            raise LedgerInvalid(
                f"the chain does not contain the head {head}: the ledger was rewritten, or is another one"
            )


def to_lines(entries: Iterable[Entry]) -> bytes:
    """Return JSON lines: the canonical form of each entry."""
    return b"".join(canonical(entry.to_json()) + b"\n" for entry in entries)


def from_lines(lines: bytes) -> list[Entry]:
    """Return the entries that `to_lines` wrote, with nothing checked. Raise `CodecError` for anything else."""
    return [Entry.from_json(parse(line)) for line in lines.split(b"\n") if line.strip()]
