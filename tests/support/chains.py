"""A ledger's state and its chain of entries, made of events."""

from accounting.records.chain import Entry
from accounting.records.events import LedgerEvent, Opened
from accounting.records.ledger import LedgerState, advance

AT = "2026-01-02T03:04:05.678Z"


def ledger_of(opening: Opened, *events: LedgerEvent, at: str = AT) -> tuple[LedgerState, list[Entry]]:
    """Return the state after these events, and their entries."""
    state, entry = advance(None, opening, at)
    entries = [entry]
    for event in events:
        state, entry = advance(state, event, at)
        entries.append(entry)
    return state, entries
