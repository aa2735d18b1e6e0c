"""The events of a ledger. Their fields, with these types, are the fields of entries (accounting.records.entries)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator

from accounting.privacy import REPLACE_ONE, Privacy, Relation, Unit
from accounting.records.chain import MOST_ENTRIES, Head
from accounting.records.documents import Sha256, Text
from accounting.records.filters import CostField, FilterField

SessionPolicy = Literal["refund", "no_refund", "refused"]

_Count = Annotated[int, Field(ge=1, le=MOST_ENTRIES)]
_ROW = Unit()
_Head = Annotated[Head, PlainValidator(Head.parse), PlainSerializer(str)]


class _Event:
    """An event. Values of other types than the declared ones, and other fields, are refused in documents."""

    __slots__ = ()
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Opened(_Event):
    """The registration of a dataset of n records under a filter; n is public.

    Parameters
    ----------
    records : n, the number of rows or persons
    family : name under which other datasets of the same people may join; None if none may
    unit : of a record
    declaration_sha256 : of the dataset's declaration; None in entries from before it was recorded
    session_rule : the dataset's rule for sessions; None in entries from before it was recorded
    """

    dataset: Text
    records: _Count
    filter: FilterField
    family: Text | None = None
    unit: Unit = _ROW
    neighbors: Relation = REPLACE_ONE
    declaration_sha256: Sha256 | None = None
    session_rule: SessionPolicy | None = None


@dataclass(frozen=True, slots=True)
class Joined(_Event):
    """The registration by `by` of one more dataset of the same people, with n records of its own, on this ledger."""

    dataset: Text
    records: _Count
    by: Text
    unit: Unit = _ROW
    declaration_sha256: Sha256 | None = None
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
        if isinstance(event, Opened):
            return Registration(event.records, event.unit, event.neighbors, event.family, event.declaration_sha256)
        assert opening is not None
        return Registration(event.records, event.unit, opening.neighbors, opening.family, event.declaration_sha256)


@dataclass(frozen=True, slots=True)
class Charged(_Event):
    """The charge of a job.

    Parameters
    ----------
    guarantee : the job's own (epsilon, delta), for the rule of the empty ledger
    analyst, dataset, method : of the job
    spec_sha256 : of what the job runs; None in entries from before it was recorded
    """

    job: Text
    cost: CostField
    guarantee: Privacy
    analyst: Text
    dataset: Text
    method: Text
    spec_sha256: Sha256 | None = None


@dataclass(frozen=True, slots=True)
class _AttemptEvent(_Event):
    """An event of one attempt to run a job."""

    job: Text
    attempt: _Count


@dataclass(frozen=True, slots=True)
class Started(_AttemptEvent):
    """The start of a job. It may open the data from here on, and its charge stands whatever happens."""


@dataclass(frozen=True, slots=True)
class Refunded(_Event):
    """The refund of a job that never started; `whole` if its charge took the whole budget."""

    job: Text
    cost: CostField
    whole: bool


@dataclass(frozen=True, slots=True)
class Released(_AttemptEvent):
    """The publication of the model of this attempt, the only one of the job."""

    model_sha256: Sha256


@dataclass(frozen=True, slots=True)
class Failed(_AttemptEvent):
    """The end of a job without a release; its charge stands."""


@dataclass(frozen=True, slots=True)
class Cancelled(_AttemptEvent):
    """The cancellation of a job that had started; its charge stands."""


@dataclass(frozen=True, slots=True)
class Promised(_Event):
    """A new filter: any before the first charge, and only a larger one of the same orders after it."""

    filter: FilterField
    by: Text


@dataclass(frozen=True, slots=True)
class Frozen(_Event):
    """A freeze, after which nothing is charged and no job starts, or its end."""

    is_frozen: bool
    by: Text


@dataclass(frozen=True, slots=True)
class Renamed(_Event):
    """A new name of a dataset."""

    dataset: Text
    name: Text
    by: Text


@dataclass(frozen=True, slots=True)
class SessionRule(_Event):
    """A new rule for sessions on a dataset. Open sessions keep the rule under which they were opened.

    Parameters
    ----------
    rule : `refund` of the unused part at the end of a session, `no_refund`, or all new sessions are `refused`
    """

    dataset: Text
    rule: SessionPolicy
    by: Text


@dataclass(frozen=True, slots=True)
class Emptied(_Event):
    """The deletion of a dataset's values, after which it has no answers; `withdrawn` if it was never charged."""

    dataset: Text
    withdrawn: bool
    by: Text


@dataclass(frozen=True, slots=True)
class RolledBack(_Event):
    """An order of the operator to continue from an older copy of the chain, after unknown entries were lost.

    Parameters
    ----------
    reason : in the operator's words
    lacks : the published head of the lost entries; None if it is unknown
    """

    reason: Text
    lacks: _Head | None = None


@dataclass(frozen=True, slots=True)
class External(_Event):
    """The cost of a mechanism that ran elsewhere on a dataset of this ledger. Its loss has happened already.

    Parameters
    ----------
    label : the steward's name for it, unique on this ledger
    event : of `accounting.records.outside`
    exceeds : the charge does not fit the budget, and freezes the ledger
    """

    dataset: Text
    label: Text
    event: dict[str, Any]
    cost: CostField
    exceeds: bool
    by: Text


@dataclass(frozen=True, slots=True)
class Reserved(_Event):
    """The charge of a session: of all answers that its program may compute elsewhere.

    Parameters
    ----------
    plan : `[{event, count}]`, as `accounting.records.sessions.plan_to_json` writes it
    cost : of the whole plan, by its true curves
    guarantee : certified (epsilon, delta) of the plan alone, for the rule of the empty ledger; None if there is none
    expires_at : UTC time, ISO 8601, from which on the whole charge stands
    """

    session: Text
    dataset: Text
    analyst: Text
    plan: list[dict[str, Any]]
    cost: CostField
    guarantee: Privacy | None
    expires_at: Text


@dataclass(frozen=True, slots=True)
class Settled(_Event):
    """The end of a session, and the part of its charge that is returned.

    Parameters
    ----------
    recorded : uses of each event of the plan of which the program reported an answer
    refund : 0 if the session expired, and unless the theorem allows more (docs/proofs/sessions.md)
    whole : the session's charge took the whole budget
    """

    session: Text
    recorded: list[Annotated[int, Field(ge=0)]]
    refund: CostField
    whole: bool
    reason: Literal["closed", "expired"]

    @property
    def frees_charge(self) -> bool:
        """Whether nothing remains charged, because the program closed the session before its first answer."""
        return any(self.refund) and not any(self.recorded)


JobStep = Started | Refunded | Released | Failed | Cancelled
JobEvent = Charged | JobStep
StewardEvent = Joined | Promised | Frozen | Renamed | SessionRule | Emptied | External
LedgerEvent = Opened | StewardEvent | RolledBack | JobEvent | Reserved | Settled
