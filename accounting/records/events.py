"""The events of a ledger."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from accounting.filter import Cost, Filter
from accounting.privacy import REPLACE_ONE, Privacy, Relation, Unit
from accounting.records.chain import Head

SessionPolicy = Literal["refund", "no_refund", "refused"]


@dataclass(frozen=True, slots=True)
class Opened:
    """The registration of a dataset of n records under a filter; n is public.

    Parameters
    ----------
    records : n, the number of rows or persons
    family : name under which other datasets of the same people may join; None if none may
    unit : of a record; None for rows in ledgers opened before units existed
    declaration_sha256 : of the dataset's declaration; None in entries from before it was recorded
    session_rule : the dataset's rule for sessions; None in entries from before it was recorded
    """

    dataset: str
    records: int
    filter: Filter
    family: str | None = None
    unit: Unit | None = None
    neighbors: Relation = REPLACE_ONE
    declaration_sha256: str | None = None
    session_rule: SessionPolicy | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """The registration by `by` of one more dataset of the same people, with n records of its own, on this ledger."""

    dataset: str
    records: int
    by: str
    unit: Unit | None = None
    declaration_sha256: str | None = None
    session_rule: SessionPolicy | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """The facts of a dataset that its ledger states. The dataset's row in the database repeats them.

    Parameters
    ----------
    neighbors, family : of the ledger, thus of all its datasets
    declaration_sha256 : None if the ledger does not state it
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    records: int
    unit: Unit
    neighbors: Relation
    family: str | None
    declaration_sha256: str | None

    @staticmethod
    def of(event: Opened | Joined, opening: "Registration | None" = None) -> "Registration":
        """Return the facts that an event states; `opening` holds those of the first event, for a dataset that joins."""
        unit = event.unit or Unit()
        if isinstance(event, Opened):
            return Registration(event.records, unit, event.neighbors, event.family, event.declaration_sha256)
        assert opening is not None
        return Registration(event.records, unit, opening.neighbors, opening.family, event.declaration_sha256)


@dataclass(frozen=True, slots=True)
class Charged:
    """The charge of a job.

    Parameters
    ----------
    guarantee : the job's own (epsilon, delta), for the rule of the empty ledger
    analyst, dataset, method : of the job; None in entries from before they were recorded
    share : `ledger.share` of the charge right after it; None in entries from before it was recorded
    spec_sha256 : of what the job runs; None in entries from before it was recorded
    """

    job: str
    cost: Cost
    guarantee: Privacy
    analyst: str | None = None
    dataset: str | None = None
    method: str | None = None
    share: float | None = None
    spec_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The start of a job. It may open the data from here on, and its charge stands whatever happens."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Refunded:
    """The refund of a job that never started; `whole` if its charge took the whole budget."""

    job: str
    cost: Cost
    whole: bool


@dataclass(frozen=True, slots=True)
class Released:
    """The publication of the model of this attempt, the only one of the job."""

    job: str
    attempt: int
    model_sha256: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a job without a release; its charge stands."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The cancellation of a job that had started; its charge stands."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Promised:
    """A new filter: any before the first charge, and only a larger one of the same orders after it."""

    filter: Filter
    by: str


@dataclass(frozen=True, slots=True)
class Frozen:
    """A freeze, after which nothing is charged and no job starts, or its end."""

    is_frozen: bool
    by: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A new name of a dataset."""

    dataset: str
    name: str
    by: str


@dataclass(frozen=True, slots=True)
class SessionRule:
    """A new rule for sessions on a dataset. Open sessions keep the rule under which they were opened.

    Parameters
    ----------
    rule : `refund` of the unused part at the end of a session, `no_refund`, or all new sessions are `refused`
    """

    dataset: str
    rule: SessionPolicy
    by: str


@dataclass(frozen=True, slots=True)
class Emptied:
    """The deletion of a dataset's values, after which it has no answers; `withdrawn` if it was never charged."""

    dataset: str
    withdrawn: bool
    by: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """An order of the operator to continue from an older copy of the chain, after unknown entries were lost.

    Parameters
    ----------
    reason : in the operator's words
    lacks : the published head of the lost entries; None if it is unknown
    """

    reason: str
    lacks: Head | None


@dataclass(frozen=True, slots=True)
class External:
    """The cost of a mechanism that ran elsewhere on a dataset of this ledger. Its loss has happened already.

    Parameters
    ----------
    label : the steward's name for it, unique on this ledger
    event : of `accounting.records.outside`
    exceeds : the charge does not fit the budget, and freezes the ledger
    """

    dataset: str
    label: str
    event: dict[str, Any]
    cost: Cost
    exceeds: bool
    by: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """The charge of a session: of all answers that its program may compute elsewhere.

    Parameters
    ----------
    plan : `[{event, count}]`, as `accounting.records.sessions.plan_to_json` writes it
    cost : of the whole plan, by its true curves
    guarantee : certified (epsilon, delta) of the plan alone, for the rule of the empty ledger; None if there is none
    expires_at : UTC time, ISO 8601, from which on the whole charge stands
    share : `ledger.share` of the charge right after it
    """

    session: str
    dataset: str
    analyst: str
    plan: list[dict[str, Any]]
    cost: Cost
    guarantee: Privacy | None
    expires_at: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The end of a session, and the part of its charge that is returned.

    Parameters
    ----------
    recorded : uses of each event of the plan of which the program reported an answer
    refund : 0 if the session expired, and unless the theorem allows more (docs/proofs/sessions.md)
    whole : the session's charge took the whole budget
    """

    session: str
    recorded: list[int]
    refund: Cost
    whole: bool
    reason: Literal["closed", "expired"]

    @property
    def frees_charge(self) -> bool:
        """Whether nothing remains charged, because the program closed the session before its first answer."""
        return any(self.refund) and not any(self.recorded)


JobStep = Started | Refunded | Released | Failed | Cancelled
JobEvent = Charged | JobStep
SessionEvent = Reserved | Settled
StewardEvent = Joined | Promised | Frozen | Renamed | SessionRule | Emptied | External
LedgerEvent = Opened | StewardEvent | RolledBack | JobEvent | SessionEvent
