"""A ledger's state and its chain of entries, made of events."""

from accounting.filter import Cost
from accounting.privacy import Privacy
from accounting.records.chain import Entry
from accounting.records.events import Charged, LedgerEvent, Opened
from accounting.records.ledger import LedgerState, advance

AT = "2026-01-02T03:04:05.678Z"


def charge_of(
    job: str, cost: Cost, guarantee: Privacy, analyst: str = "ada", dataset: str = "d1", method: str = "dp_gd"
) -> Charged:
    """Return the charge of a job, of one analyst on one dataset unless others are named."""
    return Charged(job, cost, guarantee, analyst, dataset, method)


def ledger_of(opening: Opened, *events: LedgerEvent, at: str = AT) -> tuple[LedgerState, list[Entry]]:
    """Return the state after these events, and their entries."""
    state, entry = advance(None, opening, at)
    entries = [entry]
    for event in events:
        state, entry = advance(state, event, at)
        entries.append(entry)
    return state, entries
