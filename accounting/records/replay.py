"""A whole chain, followed from its first entry: where it leads to, if everything in it can have happened."""

from collections.abc import Sequence
from typing import assert_never

from accounting.errors import AccountingError, LedgerInvalid
from accounting.filter import Cost
from accounting.records.chain import Entry, verify_chain
from accounting.records.entries import event_of
from accounting.records.events import (
    Cancelled,
    Charged,
    Emptied,
    External,
    Failed,
    Frozen,
    JobEvent,
    Joined,
    LedgerEvent,
    Opened,
    Promised,
    Refunded,
    Released,
    Renamed,
    RolledBack,
    Started,
)
from accounting.records.ledger import LedgerState, advance


def replay(entries: Sequence[Entry]) -> LedgerState:
    """The state that a whole chain leads to, by advancing through it; every entry must come out as it stands.

    Unlike `advance`, this also follows each job (charged once, refunded what it was charged and only before it started,
    released once at most) and each dataset (there once, and nothing after it was emptied).

    Raises
    ------
    LedgerInvalid
        if the chain breaks, an entry is no event, a job takes a step it cannot take, or a charge was entered that the
        filter does not admit.
    """
    verify_chain(entries)
    state: LedgerState | None = None
    jobs: dict[str, tuple[str, Cost]] = {}
    datasets: dict[str, bool] = {}
    for entry in entries:
        try:
            event = event_of(entry)
            state, again = advance(state, event, entry.body["at"])
            possible = again == entry and _follow(jobs, datasets, event)
        except (AccountingError, KeyError, TypeError) as error:
            raise LedgerInvalid(f"entry {entry.sequence} does not follow from those before it") from error
        if not possible:
            raise LedgerInvalid(f"entry {entry.sequence} records what cannot have happened")
    if state is None:
        raise LedgerInvalid("there is no entry")
    return state


def _follow(jobs: dict[str, tuple[str, Cost]], datasets: dict[str, bool], event: LedgerEvent) -> bool:
    """Whether the job, or the dataset (there, or emptied), may take this step; notes where it then stands."""
    match event:
        case Opened(dataset=dataset) | Joined(dataset=dataset):
            known = dataset in datasets
            datasets[dataset] = True
            return not known
        case External(dataset=dataset):  # its values may be gone
            return dataset in datasets
        case Renamed(dataset=dataset):
            return datasets.get(dataset, False)
        case Emptied(dataset=dataset):
            was_there = datasets.get(dataset, False)
            datasets[dataset] = False
            return was_there
        case RolledBack():  # what was open may have been released since: it is over
            jobs.update({job: ("ended", charged) for job, (_, charged) in jobs.items()})
            return True
        case Promised() | Frozen():
            return True
        case Charged(dataset=dataset) if dataset is not None and not datasets.get(dataset, False):
            return False
        case _:
            return _follow_job(jobs, event)


def _follow_job(jobs: dict[str, tuple[str, Cost]], event: JobEvent) -> bool:
    stage, charged = jobs.get(event.job, ("new", ()))
    match event:
        case Charged(cost=cost):
            allowed, stage, charged = stage == "new", "charged", cost
        case Refunded(cost=cost):
            allowed, stage = stage == "charged" and cost == charged, "ended"
        case Started():
            allowed, stage = stage in ("charged", "started"), "started"
        case Released() | Failed() | Cancelled():
            allowed, stage = stage == "started", "ended"
        case _:
            assert_never(event)
    jobs[event.job] = (stage, charged)
    return allowed
