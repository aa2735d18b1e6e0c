"""Verification of a chain: whether its entries follow from each other, and the state that they lead to.

A replay begins at the first entry, or at a checkpoint: the document of a replay that was stopped earlier.
"""

import operator
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, assert_never

from pydantic import TypeAdapter

from accounting.errors import AccountingError, CodecError, LedgerInvalid
from accounting.filter import Cost
from accounting.records import events
from accounting.records.chain import GENESIS, Entry, Head
from accounting.records.documents import fields, text, typed
from accounting.records.entries import event_of
from accounting.records.filters import cost_from_json, cost_to_json
from accounting.records.ledger import LedgerState, described, step

_VERSION = 3  # of the checkpoint document; a document of another version is not read
_OPEN = ("charged", "started")  # stages in which a job may still take a step


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


_MEMBERS = TypeAdapter(dict[str, Member])


@dataclass(frozen=True, slots=True)
class _Session:
    """A session: its charge, and the number of uses of each event of its plan.

    Parameters
    ----------
    is_refundable : the rule of its dataset allowed refunds when it was reserved
    is_open : it has not ended
    """

    cost: Cost
    counts: tuple[int, ...]
    is_refundable: bool = True
    is_open: bool = True


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
        self._jobs: dict[str, tuple[str, Cost]] = {}
        self._sessions: dict[str, _Session] = {}

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
        other. `sessions` is left out if none is open.
        """
        if self.state is None:
            raise LedgerInvalid("a ledger must have an entry")
        jobs = {job: [stage, cost_to_json(cost)] for job, (stage, cost) in self._jobs.items() if stage in _OPEN}
        sessions = {
            name: {"cost": cost_to_json(session.cost), "counts": list(session.counts)}
            | ({} if session.is_refundable else {"is_refundable": False})
            for name, session in self._sessions.items()
            if session.is_open
        }
        document = {
            "version": _VERSION,
            "state": self.state.to_json(),
            "opened": self.opened,
            "opening": self.opening,
            "datasets": {dataset: asdict(member) for dataset, member in self.datasets.items()},
            "jobs": jobs,
        }
        return document | {"sessions": sessions} if sessions else document

    @staticmethod
    def from_json(document: Any) -> "Replay":
        """Return the replay that `to_json` wrote; `CodecError` for anything else."""
        keys = ("version", "state", "opened", "opening", "datasets", "jobs")
        node = {"sessions": {}} | fields(document, keys, "a checkpoint", optional=("sessions",))
        if node["version"] != _VERSION:
            raise CodecError(f"a checkpoint's version must be {_VERSION}")
        replayed = Replay()
        replayed.state = LedgerState.from_json(node["state"])
        replayed.opened = text(node["opened"], "opened")
        replayed.opening = text(node["opening"], "opening", 64)
        replayed.datasets = typed(_MEMBERS, node["datasets"], "datasets")
        for job, (stage, cost) in _stages(node["jobs"]):
            replayed._jobs[job] = (stage, cost_from_json(cost))
        replayed._sessions = _open_sessions(node["sessions"])
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
            case events.Charged(dataset=dataset) if dataset is not None and not self._is_stored(dataset):
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


def _stages(document: Any) -> list[tuple[str, list[Any]]]:
    """Return the items of an object whose values are lists of a job's stage and its cost."""
    if not isinstance(document, dict):
        raise CodecError("jobs of a checkpoint must be an object")
    for value in document.values():
        if not isinstance(value, list) or len(value) != 2 or value[0] not in _OPEN:
            raise CodecError("a job of a checkpoint must be a list of its stage and its cost")
    return list(document.items())


def _open_sessions(document: Any) -> dict[str, _Session]:
    """Return the open sessions of a checkpoint, by their ids."""
    if not isinstance(document, dict):
        raise CodecError("sessions of a checkpoint must be an object")
    return {name: _open_session(node) for name, node in document.items()}


def _open_session(document: Any) -> _Session:
    keys = ("cost", "counts")
    node = {"is_refundable": True} | fields(document, keys, "a session", optional=("is_refundable",))
    if not isinstance(node["is_refundable"], bool):
        raise CodecError("is_refundable of a session must be true or false")
    return _Session(cost_from_json(node["cost"]), _counts(node["counts"]), node["is_refundable"])


def _counts(document: Any) -> tuple[int, ...]:
    """Return numbers of uses; `CodecError` unless they are a list of positive integers that is not empty."""
    if not isinstance(document, list) or not document or not all(type(k) is int and k > 0 for k in document):
        raise CodecError("counts of a session must be a list of positive integers")
    return tuple(document)


def _reserve(sessions: dict[str, _Session], event: events.Reserved, rule: events.SessionPolicy | None) -> bool:
    """Add a session. Return whether it is new and the rule of its dataset allows it."""
    is_new = event.session not in sessions
    counts = _counts([planned["count"] for planned in event.plan])
    sessions[event.session] = _Session(event.cost, counts, is_refundable=rule != "no_refund")
    return is_new and rule != "refused"


def _settle(sessions: dict[str, _Session], event: events.Settled) -> bool:
    """End a session. Return whether it was open and may end like this."""
    session = sessions.get(event.session)
    if session is None or not session.is_open:
        return False
    sessions[event.session] = replace(session, is_open=False)
    return _is_end(session, event)


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


def _follow_job(jobs: dict[str, tuple[str, Cost]], event: events.JobEvent) -> bool:
    stage, charged = jobs.get(event.job, ("new", ()))
    match event:
        case events.Charged(cost=cost):
            allowed, stage, charged = stage == "new", "charged", cost
        case events.Refunded(cost=cost):
            allowed, stage = stage == "charged" and cost == charged, "ended"
        case events.Started():
            allowed, stage = stage in ("charged", "started"), "started"
        case events.Released() | events.Failed() | events.Cancelled():
            allowed, stage = stage == "started", "ended"
        case _:
            assert_never(event)
    jobs[event.job] = (stage, charged)
    return allowed
