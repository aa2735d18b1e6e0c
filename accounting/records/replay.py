"""Verification of a chain: whether its entries follow from each other, and the state that they lead to.

A replay begins at the first entry, or at a checkpoint: the document of a replay that was stopped earlier.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal, assert_never

from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter

from accounting.errors import AccountingError, CodecError, LedgerInvalid
from accounting.filter import Cost
from accounting.records import events
from accounting.records.chain import GENESIS, Entry, Head
from accounting.records.documents import Sha256, Text, typed
from accounting.records.entries import event_of
from accounting.records.filters import CostField
from accounting.records.ledger import LedgerState, described, step

VERSION: Final = 4
"""The version of the document of a replay."""

_Stage = Literal["charged", "started", "ended"]
_Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
_COUNTS: TypeAdapter[tuple[int, ...]] = TypeAdapter(_Counts)


@dataclass(frozen=True, slots=True)
class Member:
    """A dataset of a ledger: the facts of its registration, whether its values are stored, and its rule for sessions.

    Parameters
    ----------
    session_rule : None if the ledger does not state it
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    registration: events.Registration
    data: Literal["stored", "deleted", "withdrawn"] = "stored"
    session_rule: events.SessionPolicy | None = None


@dataclass(frozen=True, slots=True)
class _Session:
    """An open session: its charge, and the number of uses of each event of its plan.

    Parameters
    ----------
    is_refundable : the rule of its dataset allowed refunds when it was reserved
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    cost: CostField
    counts: _Counts
    is_refundable: bool


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """The document of a replay: its attributes, and the jobs and sessions that are open."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    version: Literal[4]  # VERSION; a document of another version is not read
    state: Annotated[LedgerState, PlainValidator(LedgerState.from_json), PlainSerializer(LedgerState.to_json)]
    opened: Text
    opening: Sha256
    datasets: dict[str, Member]
    jobs: dict[str, tuple[Literal["charged", "started"], CostField]]
    sessions: dict[str, _Session]


_CHECKPOINT = TypeAdapter(_Checkpoint)


def replay(entries: Iterable[Entry]) -> LedgerState:
    """Return the state that a whole chain leads to.

    Raises
    ------
    LedgerInvalid
        as `Replay.follow`, or if there is no entry.
    """
    replayed = Replay()
    replayed.follow(entries)
    if replayed.state is None:
        raise LedgerInvalid("a ledger must have an entry")
    return replayed.state


class Replay:
    """A chain as far as it has been followed.

    Unlike `advance`, it also follows each job (charged once, refunded what it was charged and only before it started,
    released once at most), each session (reserved once, ended once, and refunded no more than it did not use) and each
    dataset (registered once, no jobs and sessions after it was emptied, and sessions only as its rule allows).
    """

    def __init__(self) -> None:
        self.state: LedgerState | None = None
        self.opened = ""  # the dataset of the first entry
        self.opening = ""  # the hash of the first entry
        self.datasets: dict[str, Member] = {}
        self._jobs: dict[str, tuple[_Stage, Cost]] = {}
        self._sessions: dict[str, _Session | None] = {}  # None if it has ended

    @property
    def sequence(self) -> int:
        """The number of the last entry; 0 before the first."""
        return 0 if self.state is None else self.state.sequence

    @property
    def head(self) -> Head:
        """The head of the chain as far as it has been followed."""
        return Head(self.sequence, GENESIS if self.state is None else self.state.head)

    def follow(self, entries: Iterable[Entry]) -> None:
        """Advance through the next entries. The replay must not be used after an error.

        Raises
        ------
        LedgerInvalid
            if the chain breaks, an entry is not an event, a job takes an impossible step, or the filter does not admit
            a charge.
        """
        for entry in entries:
            self._follow(entry)

    def to_json(self) -> dict[str, Any]:
        """Return `{version, state, opened, opening, datasets, jobs, sessions}`, from which `from_json` continues.

        Ended jobs and sessions are left out, because none of them may take another step. Only a replay from the first
        entry detects that one is charged again after it ended. From a checkpoint on, such a charge counts like any
        other.
        """
        if self.state is None:
            raise LedgerInvalid("a ledger must have an entry")
        jobs = {job: (stage, cost) for job, (stage, cost) in self._jobs.items() if stage != "ended"}
        sessions = {name: session for name, session in self._sessions.items() if session is not None}
        checkpoint = _Checkpoint(VERSION, self.state, self.opened, self.opening, self.datasets, jobs, sessions)
        document: dict[str, Any] = _CHECKPOINT.dump_python(checkpoint, mode="json")
        return document

    @staticmethod
    def from_json(document: Any) -> "Replay":
        """Return the replay that `to_json` wrote; `CodecError` for anything else."""
        checkpoint = typed(_CHECKPOINT, document, "a checkpoint")
        replayed = Replay()
        replayed.state = checkpoint.state
        replayed.opened = checkpoint.opened
        replayed.opening = checkpoint.opening
        replayed.datasets = checkpoint.datasets
        replayed._jobs = {**checkpoint.jobs}
        replayed._sessions = {**checkpoint.sessions}
        return replayed

    def _follow(self, entry: Entry) -> None:
        head = self.head
        if not _follows(entry, head):
            raise LedgerInvalid(f"the chain breaks at entry {head.sequence + 1}")
        try:
            event = event_of(entry)
            state = step(self.state, event)
            is_recorded = described(state, event, entry.body["at"]) == (entry.kind, entry.body)
            is_possible = is_recorded and self._is_possible(event)
        except (AccountingError, KeyError, TypeError) as error:
            raise LedgerInvalid(f"entry {entry.sequence} does not follow from those before it") from error
        if not is_possible:
            raise LedgerInvalid(f"entry {entry.sequence} records an event that cannot follow those before it")
        self.opening = self.opening or entry.hash
        self.state = replace(state, sequence=entry.sequence, head=entry.hash)

    def _is_possible(self, event: events.LedgerEvent) -> bool:
        """Return whether the job or the dataset may take this step, and record its new stage."""
        match event:
            case events.Opened(dataset=dataset) | events.Joined(dataset=dataset):
                is_new, opening = dataset not in self.datasets, self.datasets.get(self.opened)
                self.opened = self.opened or dataset
                stated = events.Registration.of(event, opening.registration if opening else None)
                self.datasets[dataset] = Member(stated, session_rule=event.session_rule)
                return is_new
            case events.SessionRule(dataset=dataset, rule=rule):
                is_known = dataset in self.datasets
                if is_known:
                    self.datasets[dataset] = replace(self.datasets[dataset], session_rule=rule)
                return is_known
            case events.External(dataset=dataset):  # its values may be gone
                return dataset in self.datasets
            case events.Renamed(dataset=dataset):
                return self._is_stored(dataset)
            case events.Emptied(dataset=dataset, withdrawn=withdrawn):
                was_stored = self._is_stored(dataset)
                if was_stored:
                    data: Literal["deleted", "withdrawn"] = "withdrawn" if withdrawn else "deleted"
                    self.datasets[dataset] = replace(self.datasets[dataset], data=data)
                return was_stored
            case events.RolledBack():  # an open job may have been released since: all of them have ended
                self._jobs.update({job: ("ended", charged) for job, (_, charged) in self._jobs.items()})
                return True
            case events.Promised() | events.Frozen():
                return True
            case events.Charged(dataset=dataset) if not self._is_stored(dataset):
                return False
            case events.Reserved(dataset=dataset):
                return self._is_stored(dataset) and _reserve(self._sessions, event, self.datasets[dataset].session_rule)
            case events.Settled():
                return _settle(self._sessions, event)
            case _:
                return _follow_job(self._jobs, event)

    def _is_stored(self, dataset: str) -> bool:
        member = self.datasets.get(dataset)
        return member is not None and member.data == "stored"


def _follows(entry: Entry, head: Head) -> bool:
    """Return whether the entry hashes to its hash, names the hash before it and follows it by one."""
    try:
        is_next = (entry.sequence, entry.previous_hash) == (head.sequence + 1, head.hash)
        return is_next and entry.hash == entry.digest()
    except CodecError:
        return False


def _reserve(sessions: dict[str, _Session | None], event: events.Reserved, rule: events.SessionPolicy | None) -> bool:
    """Add a session. Return whether it is new and the rule of its dataset allows it."""
    is_new = event.session not in sessions
    counts = typed(_COUNTS, [planned["count"] for planned in event.plan], "counts of a session")
    sessions[event.session] = _Session(event.cost, counts, is_refundable=rule != "no_refund")
    return is_new and rule != "refused"


def _settle(sessions: dict[str, _Session | None], event: events.Settled) -> bool:
    """End a session. Return whether it was open and may end like this."""
    session = sessions.get(event.session)
    sessions[event.session] = None
    return session is not None and _is_end(session, event)


def _is_end(session: _Session, end: events.Settled) -> bool:
    """Return whether a session may end like this: within its plan, and with a unit of each threshold for its answers.

    `accounting.records.offline` recomputes the price of the recorded part.
    """
    if len(end.recorded) != len(session.counts) or any(map(operator.gt, end.recorded, session.counts)):
        return False
    if any(end.refund) and not session.is_refundable:
        return False
    if end.frees_charge:
        return end.refund == session.cost
    # The slack's coordinate of a session's cost is 0.
    return all(r < c or r == c == 0 for r, c in zip(end.refund, session.cost, strict=True))


def _follow_job(jobs: dict[str, tuple[_Stage, Cost]], event: events.JobEvent) -> bool:
    """Record the next step of a job. Return whether it may take this step."""
    stage, charged = jobs.get(event.job, (None, ()))
    match event:
        case events.Charged(cost=cost):
            jobs[event.job] = ("charged", cost)
            return stage is None
        case events.Refunded(cost=cost):
            jobs[event.job] = ("ended", charged)
            return stage == "charged" and cost == charged
        case events.Started():
            jobs[event.job] = ("started", charged)
            return stage in ("charged", "started")
        case events.Released() | events.Failed() | events.Cancelled():
            jobs[event.job] = ("ended", charged)
            return stage == "started"
        case _:
            assert_never(event)
