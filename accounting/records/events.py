"""What can happen to a ledger."""

from dataclasses import dataclass
from typing import Any

from accounting.filter import Cost, Filter
from accounting.privacy import REPLACE_ONE, Privacy, Relation, Unit
from accounting.records.chain import Head


@dataclass(frozen=True, slots=True)
class Opened:
    """A dataset of n records is registered under a filter, with its neighbors; n is public.

    Parameters
    ----------
    records : n, of rows or of persons
    family : under whose name other datasets of the same people may join; None if none may
    unit : what a record is; None for a row in a ledger that was opened before there was a choice
    """

    dataset: str
    records: int
    filter: Filter
    family: str | None = None
    unit: Unit | None = None
    neighbors: Relation = REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Joined:
    """One more dataset of the same people, of n records of its own, on this ledger; `by` registered it."""

    dataset: str
    records: int
    by: str
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class Charged:
    """A job reserves its cost.

    Parameters
    ----------
    guarantee : the job's own (epsilon, delta), for the rule of the empty ledger
    analyst, dataset, method : whose job it is, on which dataset of the ledger's, and what runs; None before they were
        recorded
    share : its part of the budget, as `ledger.share` reads it right after this charge; None before it was recorded
    """

    job: str
    cost: Cost
    guarantee: Privacy
    analyst: str | None = None
    dataset: str | None = None
    method: str | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The job may open the data from here on; its charge stands, whatever happens."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Refunded:
    """A job that never started gives its charge back; `whole` as the charge was admitted."""

    job: str
    cost: Cost
    whole: bool


@dataclass(frozen=True, slots=True)
class Released:
    """The model of this attempt, and no other, is published."""

    job: str
    attempt: int
    model_sha256: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The job ended without a release; its charge stands."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job was stopped after it started; its charge stands."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Promised:
    """The filter from now on: any before the first charge, a larger one of the same orders after it."""

    filter: Filter
    by: str


@dataclass(frozen=True, slots=True)
class Frozen:
    """From now on nothing is charged and no job starts; or, where it is lifted, it may be again."""

    is_frozen: bool
    by: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A dataset's name from now on."""

    dataset: str
    name: str
    by: str


@dataclass(frozen=True, slots=True)
class Emptied:
    """A dataset's values are deleted: nothing more will be answered of it. Withdrawn, it was never charged for."""

    dataset: str
    withdrawn: bool
    by: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Entries were lost, and nobody knows which: the chain goes on from an older copy, as the operator ordered.

    Parameters
    ----------
    reason : in the operator's words
    lacks : the head that was published of what is lost; None if that is not known either
    """

    reason: str
    lacks: Head | None


@dataclass(frozen=True, slots=True)
class External:
    """What a mechanism that ran elsewhere, on a dataset of this ledger, costs; its loss has happened.

    Parameters
    ----------
    label : the steward's own name for it, one of a kind on this ledger
    event : what ran, see `accounting.records.outside`
    exceeds : it does not fit the budget; the ledger is frozen by it
    """

    dataset: str
    label: str
    event: dict[str, Any]
    cost: Cost
    exceeds: bool
    by: str


JobEvent = Charged | Started | Refunded | Released | Failed | Cancelled
StewardEvent = Joined | Promised | Frozen | Renamed | Emptied | External
LedgerEvent = Opened | StewardEvent | RolledBack | JobEvent
