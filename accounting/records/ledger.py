"""The ledger of one dataset, or of a family of them: a pure state machine, and the hash chain of what it did.

    advance(state, event, at) -> (state, entry)

The state is small and its size does not grow with the number of jobs. The sum of the live charges equals `spent`
exactly. Nothing here reads a clock, a database or data: the caller keeps state and entries in one transaction.
Which job may start, fail or be released is the job table's to know; this machine refuses what no order of jobs could
do, such as a refund that was never charged.
"""

from dataclasses import dataclass, replace
from typing import Any, assert_never

from accounting.errors import BudgetExhausted, CodecError, LedgerFrozen, LedgerInvalid
from accounting.filter import Cost, Filter
from accounting.privacy import Privacy
from accounting.records.chain import GENESIS, MOST_ENTRIES, Entry, link
from accounting.records.documents import fields, integer, text
from accounting.records.entries import EntryKind, record
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
    StewardEvent,
)
from accounting.records.filters import cost_from_json, cost_to_json, filter_from_json, filter_to_json

_FLAGS = ("frozen", "rolled_back")


@dataclass(frozen=True, slots=True)
class LedgerState:
    """Where a ledger stands.

    Parameters
    ----------
    filter : the admission rule
    spent : exact sum of the live charges, units of 2^-40
    charges : int, live charges (charged and not refunded)
    whole : bool, the one live charge took the whole budget
    sequence, head : number and hash of the last entry
    frozen : bool, nothing may be charged or started
    rolled_back : bool, entries were lost: charges that nobody knows may be among them
    """

    filter: Filter
    spent: Cost
    charges: int
    whole: bool
    sequence: int
    head: str
    frozen: bool = False
    rolled_back: bool = False

    @property
    def is_charged(self) -> bool:
        """Whether there is a live charge, or may have been one that was lost."""
        return self.charges > 0 or self.rolled_back

    @property
    def is_exceeded(self) -> bool:
        """Whether charges from outside have passed the budget."""
        return not self.whole and not self.filter.admits(self.filter.zero_cost, self.spent)

    def to_json(self) -> dict[str, Any]:
        """`{filter, spent, charges, whole, sequence, head}`, `spent` in decimals; `frozen`, `rolled_back` if so."""
        document = {
            "filter": filter_to_json(self.filter),
            "spent": cost_to_json(self.spent),
            "charges": self.charges,
            "whole": self.whole,
            "sequence": self.sequence,
            "head": self.head,
        }
        return document | {flag: True for flag in _FLAGS if getattr(self, flag)}

    @staticmethod
    def from_json(document: Any) -> "LedgerState":
        """The state that `to_json` wrote; `CodecError` for anything else."""
        keys = ("filter", "spent", "charges", "whole", "sequence", "head")
        node = dict.fromkeys(_FLAGS, False) | fields(document, keys, "a ledger state", optional=_FLAGS)
        rule, spent = filter_from_json(node["filter"]), cost_from_json(node["spent"])
        charges = integer(node["charges"], 0, MOST_ENTRIES, "charges")
        if len(spent) != len(rule.thresholds) or not _consistent(rule, spent, charges):
            raise CodecError("what is spent must be the sum of the live charges")
        if not isinstance(node["whole"], bool) or (node["whole"] and charges != 1):
            raise CodecError("only a single live charge may hold the whole budget")
        flags = [node[flag] for flag in _FLAGS]
        if not all(isinstance(flag, bool) for flag in flags):
            raise CodecError("a ledger is frozen or is not, and rolled back or not")
        sequence = integer(node["sequence"], 1, MOST_ENTRIES, "sequence")
        head = text(node["head"], "head", 64)
        return LedgerState(rule, spent, charges, node["whole"], sequence, head, *flags)


def advance(state: LedgerState | None, event: LedgerEvent, at: str) -> tuple[LedgerState, Entry]:
    """The state after the event, and the entry that records it; deterministic, and constant work.

    Parameters
    ----------
    state : None before `Opened`, and only then
    event : what happened
    at : the caller's time stamp, as text

    Raises
    ------
    BudgetExhausted
        if a charge is not admitted. The filter decides; but an empty ledger (no live charge) also admits one job whose
        own guarantee lies within the budget, which then takes all of it until it is refunded; one that lost entries
        does not.
    LedgerFrozen
        if a charge or a start comes while the ledger is frozen.
    LedgerInvalid
        if the event does not fit the state: a refund of more than is live, a job's step in an empty ledger, a ledger
        opened twice.
    OutOfRange
        if an external charge is larger than a ledger can hold.
    """
    after, kind, body = recorded(state, event, at)
    entry = link(after.sequence + 1, kind, body, after.head)
    return replace(after, sequence=entry.sequence, head=entry.hash), entry


def recorded(state: LedgerState | None, event: LedgerEvent, at: str) -> tuple[LedgerState, EntryKind, dict[str, Any]]:
    """Return what `advance` does before the entry is hashed: the state, still at the last entry, and kind and body.

    Raises as `advance` does. A verifier that has hashed the entry already compares kind and body with it.
    """
    if isinstance(event, Opened):
        if state is not None:
            raise LedgerInvalid("the ledger is open already")
        after = LedgerState(event.filter, event.filter.zero_cost, 0, False, 0, GENESIS)
    elif state is None:
        raise LedgerInvalid("the ledger is not open")
    else:
        after = step(state, event)
    kind, body = record(event, after.whole)
    return after, kind, body | {"at": text(at, "at", 64)}


def spent_epsilon(state: LedgerState) -> float:
    """What the live charges guarantee at the budget's delta: 0 for none, the budget's epsilon if one took it whole."""
    if state.charges == 0:
        return 0.0
    return state.filter.privacy.epsilon if state.whole else state.filter.spent_epsilon(state.spent)


def remaining_epsilon(state: LedgerState) -> float:
    """The largest epsilon, at the budget's delta, of one more Gaussian job (pure under `pure`) that is admitted."""
    if state.charges == 0:
        return state.filter.privacy.epsilon
    return 0.0 if state.whole else state.filter.remaining_epsilon(state.spent)


def share(state: LedgerState, cost: Cost) -> float:
    """The part of the budget that a live charge, or a sum of them, takes: all of it if it was admitted whole.

    Parts add up: of all live charges, and of what remains, to 1 (`Filter.share`).
    """
    if state.whole:
        return 1.0 if any(cost) else 0.0
    return state.filter.share(cost, state.spent)


def step(state: LedgerState, event: StewardEvent | RolledBack | JobEvent) -> LedgerState:
    """What `advance` comes to, but for the entry, and so for its number and hash; raises as it does."""
    if state.frozen and isinstance(event, Charged | Started):
        raise LedgerFrozen("the ledger is frozen: nothing is charged or started")
    match event:
        case Joined() | Renamed():
            return state
        case Promised(filter=rule):
            return _promise(state, rule)
        case Frozen(is_frozen=is_frozen):
            if is_frozen == state.frozen:
                raise LedgerInvalid("a ledger is frozen once, and lifted once")
            return replace(state, frozen=is_frozen)
        case Emptied(withdrawn=withdrawn):
            if withdrawn and state.is_charged:
                raise LedgerInvalid("what is withdrawn was not charged for")
            return state
        case External(cost=cost, exceeds=exceeds):
            return _charge_external(state, cost, exceeds)
        case RolledBack():
            return replace(state, frozen=True, rolled_back=True)
        case Charged(cost=cost, guarantee=guarantee, share=stated):
            after = _charge(state, cost, guarantee)
            if stated is not None and stated != share(after, cost):
                raise LedgerInvalid("a charge states the share that it takes")
            return after
        case Refunded(cost=cost, whole=whole):
            return _refund(state, cost, whole)
        case Started() | Released() | Failed() | Cancelled():
            if state.charges == 0:
                raise LedgerInvalid("no job is charged")
            return state
        case _:
            assert_never(event)


def _charge(state: LedgerState, cost: Cost, guarantee: Privacy) -> LedgerState:
    budget = state.filter.privacy
    if not _consistent(state.filter, state.filter.vector(cost), 1):
        raise LedgerInvalid("a charge is at least one unit of each threshold, and at most the slack of one job")
    fits = state.filter.admits(state.spent, cost) and not state.whole
    within = guarantee.epsilon <= budget.epsilon and guarantee.delta <= budget.delta
    if not fits and (state.is_charged or not within):
        raise BudgetExhausted("the remaining budget does not admit this charge")
    spent = tuple(a + b for a, b in zip(state.spent, cost, strict=True))
    return replace(state, spent=spent, charges=state.charges + 1, whole=not fits)


def _charge_external(state: LedgerState, cost: Cost, exceeds: bool) -> LedgerState:
    """The loss has happened: also where it does not fit it is added, but said so, and then all else stops."""
    if not _consistent(state.filter, state.filter.vector(cost), 1):
        raise LedgerInvalid("a charge is at least one unit of each threshold, and at most the slack of one job")
    fits = state.filter.admits(state.spent, cost) and not state.whole
    if not fits and not exceeds:
        raise BudgetExhausted("the remaining budget does not admit this charge")
    if fits and exceeds:
        raise LedgerInvalid("this charge is within the budget")
    spent = state.filter.vector(tuple(a + b for a, b in zip(state.spent, cost, strict=True)))
    frozen = state.frozen or exceeds
    return replace(state, spent=spent, charges=state.charges + 1, whole=False, frozen=frozen)


def _promise(state: LedgerState, rule: Filter) -> LedgerState:
    """The state under another filter; a job that took all of the last budget may fit within the new one."""
    if not state.is_charged:
        return replace(state, filter=rule, spent=rule.zero_cost)
    if not rule.is_raise_of(state.filter):
        raise LedgerInvalid("after a charge a budget may only grow, its orders as they were")
    whole = state.whole and not rule.admits(rule.zero_cost, state.spent)
    return replace(state, filter=rule, whole=whole)


def _refund(state: LedgerState, cost: Cost, whole: bool) -> LedgerState:
    spent = tuple(a - b for a, b in zip(state.spent, state.filter.vector(cost), strict=True))
    charges = state.charges - 1
    if charges < 0 or not _consistent(state.filter, spent, charges) or whole != state.whole:
        raise LedgerInvalid("the refund is not that of a live charge")
    return replace(state, spent=spent, charges=charges, whole=False)


def _consistent(rule: Filter, spent: Cost, charges: int) -> bool:
    """Whether so many live charges, each of at least one unit and so much slack at most, can add up to this."""
    slack = spent[-1] if rule.slack else 0
    least = min(rule.curve(spent)) >= charges
    return least and 0 <= slack <= charges * rule.most_slack if charges else not any(spent)
