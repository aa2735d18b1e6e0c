"""Entries of a ledger: selection, table and CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from accounting.records.chain import Entry, EntryKind
from app.cli import late
from purse import text

COLUMNS: Final = ("sequence", "at", "kind", "who", "what", "method", "epsilon", "delta", "share")
# The subject of an entry is the first of these fields that it has.
_SUBJECTS = ("job", "session", "label", "reason", "name", "rule", "dataset")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would evaluate a cell that starts so


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries to show: those that match every option.

    Parameters
    ----------
    analyst : Only entries about this analyst's jobs and sessions.
    kind : Only entries of this kind, such as charged, released or refunded.
    job : Only this job's entries.
    since : Only entries from this time (UTC) on, such as 2026-11-01 or 2026-11-01T12:00:00Z.
    """

    analyst: str | None = None
    kind: Annotated[EntryKind | None, typer.Option(metavar="<kind>")] = None
    job: str | None = None
    since: Annotated[datetime | None, typer.Option(metavar="<time>", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"])] = None

    @property
    def is_all(self) -> bool:
        """Whether every entry is selected."""
        return self == EntryFilter()

    def among(self, ledger: Sequence[Entry]) -> list[Entry]:
        """Return the selected entries of a whole ledger."""
        analysts = _analysts(ledger)
        since = None if self.since is None else self.since.replace(tzinfo=UTC)
        return [
            entry
            for entry in ledger
            if self.kind in (None, entry.kind)
            and self.job in (None, entry.body.get("job"))
            and self.analyst in (None, analysts.get(_charged(entry)))
            and (since is None or datetime.fromisoformat(entry.body["at"]) >= since)
        ]


def rows(ledger: Sequence[Entry], selected: Iterable[Entry]) -> list[tuple[object, ...]]:
    """Return the cells of COLUMNS for the selected entries. A cell is empty if its entry does not state it.

    Raises
    ------
    LedgerInvalid
        if the ledger is not valid: the share of a charge is then undefined.
    """
    analysts = _analysts(ledger)
    share_of = late.offline.shares(ledger, late.offline.verify_ledger(ledger))
    return [
        (
            entry.sequence,
            entry.body["at"],
            entry.kind,
            analysts.get(_charged(entry), entry.body.get("by", "")),
            _subject(entry),
            *(entry.body.get(name, "") for name in ("method", "epsilon", "delta")),
            share_of.get(entry.sequence, ""),
        )
        for entry in selected
    ]


def as_table(ledger: Sequence[Entry], selected: Sequence[Entry]) -> str:
    """Return the selected entries for people, without method and delta, in times of minutes."""
    cells = [
        (
            sequence,
            str(at)[:16].replace("T", " "),
            kind,
            who,
            what,
            epsilon,
            text.percent(share) if isinstance(share, float) else "",
        )
        for sequence, at, kind, who, what, _method, epsilon, _delta, share in rows(ledger, selected)
    ]
    return text.table(("entry", "time (UTC)", "kind", "who", "what", "epsilon", "share"), cells)


def as_csv(ledger: Sequence[Entry], selected: Sequence[Entry]) -> bytes:
    """Return the selected entries as CSV: COLUMNS and the hashes. CSV cannot be verified later."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow((*COLUMNS, "previous_hash", "hash"))
    for row, entry in zip(rows(ledger, selected), selected, strict=True):
        writer.writerow((*map(_escaped, row), entry.previous_hash, entry.hash))
    return file.getvalue().encode()


def _analysts(ledger: Iterable[Entry]) -> dict[str, str]:
    """Return the analyst of each charged job and reserved session."""
    return {_charged(e): e.body["analyst"] for e in ledger if e.kind in ("charged", "reserved")}


def _subject(entry: Entry) -> str:
    if entry.kind == "promised":
        return f"budget of epsilon {entry.body['filter']['epsilon']:.4g}"
    return next((str(entry.body[name]) for name in _SUBJECTS if name in entry.body), "")


def _charged(entry: Entry) -> str:
    """Return the job or session that an entry is about; empty if it is about neither."""
    charged: str = entry.body.get("job") or entry.body.get("session") or ""
    return charged


def _escaped(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
