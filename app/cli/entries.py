"""A ledger's entries for people: which of them, in a table, as JSON lines, as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.records.receipt import Entry, to_lines

COLUMNS = ("sequence", "at", "kind", "who", "what", "method", "epsilon", "delta", "share")
_WHAT = ("job", "label", "reason", "name", "dataset")  # what an entry is about, the first that it has
_CALCULATED = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for a formula


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries: those that suit everything that is not None.

    Parameters
    ----------
    analyst : of the charge; an entry of a charged job belongs to that charge's analyst
    since : not before this time, UTC
    """

    analyst: str | None = None
    kind: str | None = None
    job: str | None = None
    since: datetime | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == Wanted()

    def among(self, ledger: Sequence[Entry]) -> list[Entry]:
        """Those entries of a whole ledger."""
        analysts = _analysts(ledger)
        since = None if self.since is None else self.since.replace(tzinfo=UTC)
        return [
            entry
            for entry in ledger
            if self.kind in (None, entry.kind)
            and self.job in (None, entry.body.get("job"))
            and self.analyst in (None, analysts.get(entry.body.get("job", "")))
            and (since is None or datetime.fromisoformat(entry.body["at"]) >= since)
        ]


def rows(ledger: Sequence[Entry], chosen: Iterable[Entry]) -> list[tuple[object, ...]]:
    """What COLUMNS say of the chosen entries: who, an analyst or a steward, did what; empty where one does not say.

    Raises
    ------
    LedgerInvalid
        if the ledger does not hold: nobody can say which share of it a charge is then.
    """
    from accounting.records.offline import shares, verify_ledger  # late: what filters need

    analysts, parts = _analysts(ledger), shares(ledger, verify_ledger(ledger))
    return [
        (
            entry.sequence,
            entry.body["at"],
            entry.kind,
            analysts.get(entry.body.get("job", ""), entry.body.get("by", "")),
            next((entry.body[name] for name in _WHAT if name in entry.body), ""),
            *(entry.body.get(name, "") for name in ("method", "epsilon", "delta")),
            parts.get(entry.sequence, ""),
        )
        for entry in chosen
    ]


def as_csv(ledger: Sequence[Entry], chosen: Sequence[Entry]) -> bytes:
    """COLUMNS and the hashes. For reading: what is to be verified later is kept as JSON lines."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow((*COLUMNS, "previous_hash", "hash"))
    for row, entry in zip(rows(ledger, chosen), chosen, strict=True):
        writer.writerow((*(_inert(cell) for cell in row), entry.previous_hash, entry.hash))
    return file.getvalue().encode()


def as_lines(_: Sequence[Entry], chosen: Sequence[Entry]) -> bytes:
    """JSON lines; the whole ledger's are what `purse ledger verify FILE` reads."""
    return to_lines(chosen)


def _analysts(ledger: Iterable[Entry]) -> dict[str, str]:
    """Whose job each is; a charge of an earlier version names nobody."""
    return {e.body["job"]: e.body["analyst"] for e in ledger if e.kind == "charged" and "analyst" in e.body}


def _inert(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_CALCULATED) else cell
