"""The ledger of one dataset, or of a family of datasets: a pure state machine, and the hash chain of its events.

    advance(state, event, at) -> (state, entry)

The size of the state does not grow with the number of jobs and sessions. The sum of the live charges equals `spent`
exactly. Nothing here reads a clock, a database or data, and the caller stores state and entries in one transaction. The
tables of jobs and sessions decide which job may start, fail or be released, and which session may end. This machine
refuses what no order of them could do, such as a refund that was never charged.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, assert_never

from pydantic import Field, TypeAdapter

from accounting.errors import BudgetExhausted, CodecError, LedgerFrozen, LedgerInvalid
from accounting.filter import Cost, Filter
from accounting.privacy import Privacy
from accounting.records import events
from accounting.records.chain import GENESIS, MOST_ENTRIES, Entry, EntryKind, link
from accounting.records.documents import Sha256, text, typed
from accounting.records.entries import event_of, record
from accounting.records.filters import CostField, FilterField


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The state of a ledger.

    Parameters
    ----------
    filter : the admission rule
    spent : exact sum of the live charges, in units of 2^-40
    charges : number of live charges (charged or reserved, and not refunded in full)
    whole : the one live charge takes the whole budget
    sequence, head : number and hash of the last entry
    frozen : nothing may be charged or started
    rolled_back : entries were lost, and unknown charges may be among them
    undivided : a live charge is that of a session that took the whole budget, so no part of it is returned
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    filter: FilterField
    spent: CostField
    charges: Annotated[int, Field(ge=0, le=MOST_ENTRIES)]
    whole: bool
    sequence: Annotated[int, Field(ge=1, le=MOST_ENTRIES)]
    head: Sha256
    frozen: bool = False
    rolled_back: bool = False
    undivided: bool = False

    @property
    def is_charged(self) -> bool:
        """Whether there is a live charge, or may have been one that was lost."""
        return self.charges > 0 or self.rolled_back

    @property
    def is_exceeded(self) -> bool:
        """Whether external charges have exceeded the budget."""
        return not self.whole and not self.filter.admits(self.filter.zero_cost, self.spent)

    def fits(self, cost: Cost) -> bool:
        """Return whether the filter admits one more charge; it admits none beside one that took the whole budget."""
        return self.filter.admits(self.spent, cost) and not self.whole

    def to_json(self) -> dict[str, Any]:
        """Return `{filter, spent, charges, whole, sequence, head}`, and of the other fields those that are true."""
        document: dict[str, Any] = _STATE.dump_python(self, exclude_defaults=True)
        return document

    @staticmethod
    def from_json(document: Any) -> "LedgerState":
        """Return the state that `to_json` wrote; `CodecError` for anything else."""
        state = typed(_STATE, document, "a ledger state")
        if len(state.spent) != len(state.filter.thresholds) or not _consistent(
            state.filter, state.spent, state.charges
        ):
            raise CodecError("spent must be the sum of the live charges")
        if state.whole and state.charges != 1:
            raise CodecError("whole must be true only with a single live charge")
        if state.undivided and not state.charges:
            raise CodecError("undivided must be true only with a live charge")
        return state


_STATE = TypeAdapter(LedgerState)


def advance(state: LedgerState | None, event: events.LedgerEvent, at: str) -> tuple[LedgerState, Entry]:
    """Return the state after the event, and the entry that records it; deterministic, and constant work.

    Parameters
    ----------
    state : None before `Opened`, and only then
    event : what happened
    at : the caller's time stamp, as text

    Raises
    ------
    BudgetExhausted
        if a charge is not admitted. The filter decides, with one exception: a ledger without live charges also admits
        one job or session whose own guarantee is within the budget. It takes the whole budget until it is refunded. A
        ledger that lost entries makes no exception.
    LedgerFrozen
        if a charge, a reservation or a start comes while the ledger is frozen.
    LedgerInvalid
        if the event does not fit the state: a refund of more than is live or than a session may get, a job's step in an
        empty ledger, or a ledger opened twice.
    OutOfRange
        if an external charge is larger than a ledger can hold.
    """
    return enter(step(state, event), event, at)


def described(changed: LedgerState, event: events.LedgerEvent, at: str) -> tuple[EntryKind, dict[str, Any]]:
    """Return the kind and body of the entry of an event that led to the state `changed`."""
    kind, body = record(event)
    if isinstance(event, events.Charged | events.Reserved):
        body |= {"whole": changed.whole, "share": share(changed, event.cost)}
    return kind, body | {"at": text(at, "at", 64)}


def enter(changed: LedgerState, event: events.LedgerEvent, at: str) -> tuple[LedgerState, Entry]:
    """Return the state `changed` with the entry of its event as its last one, and that entry.

    Raises `CodecError` if the entry could not be read back, because a field has another type than declared.
    """
    entry = link(changed.sequence + 1, *described(changed, event, at), changed.head)
    event_of(entry)
    return replace(changed, sequence=entry.sequence, head=entry.hash), entry


def spent_epsilon(state: LedgerState) -> float:
    """Return what the live charges guarantee at the budget's delta: 0 for none, its epsilon if one took it whole."""
    if state.charges == 0:
        return 0.0
    return state.filter.privacy.epsilon if state.whole else state.filter.spent_epsilon(state.spent)


def remaining_epsilon(state: LedgerState) -> float:
    """Return the largest epsilon, at the budget's delta, of one more Gaussian job (pure under `pure`)."""
    if state.charges == 0:
        return state.filter.privacy.epsilon
    return 0.0 if state.whole else state.filter.remaining_epsilon(state.spent)


def share(state: LedgerState, cost: Cost) -> float:
    """Return the share of the budget that a live charge, or a sum of them, takes: 1 if it took the whole budget.

    The shares of all live charges and of what remains add up to 1 (`Filter.share`).
    """
    if state.whole:
        return 1.0 if any(cost) else 0.0
    return state.filter.share(cost, state.spent)


def step(state: LedgerState | None, event: events.LedgerEvent) -> LedgerState:
    """Return the state after an event, without an entry for it, so still at the last entry before; raise as `advance`.

    A verifier has the entry already. It compares that with `described`, and hashes no new one.
    """
    if isinstance(event, events.Opened):
        if state is not None:
            raise LedgerInvalid("the ledger is open already")
        return LedgerState(event.filter, event.filter.zero_cost, 0, False, 0, GENESIS)
    if state is None:
        raise LedgerInvalid("the ledger is not open")
    if state.frozen and isinstance(event, events.Charged | events.Reserved | events.Started):
        raise LedgerFrozen("the ledger is frozen: nothing is charged or started until a steward lifts the freeze")
    match event:
        case events.Joined() | events.Renamed() | events.SessionRule():
            return state
        case events.Promised(filter=rule):
            return _promise(state, rule)
        case events.Frozen(is_frozen=is_frozen):
            if is_frozen == state.frozen:
                raise LedgerInvalid("frozen: the ledger has this state already. Record only a change of it")
            return replace(state, frozen=is_frozen)
        case events.Emptied(withdrawn=withdrawn):
            if withdrawn and state.is_charged:
                raise LedgerInvalid("only a dataset without charges can be withdrawn")
            return state
        case events.External(cost=cost, exceeds=exceeds):
            return _charge_external(state, cost, exceeds)
        case events.RolledBack():
            return replace(state, frozen=True, rolled_back=True)
        case events.Settled():
            return _settle(state, event)
        case events.Charged(cost=cost, guarantee=guarantee):
            return charge(state, cost, guarantee)
        case events.Reserved(cost=cost, guarantee=guarantee):
            if state.filter.slack and cost[-1:] != (0,):
                raise LedgerInvalid("cost: a session is charged by its true curves, without slack")
            charged = charge(state, cost, guarantee)
            return replace(charged, undivided=state.undivided or charged.whole)
        case events.Refunded(cost=cost, whole=whole):
            if state.undivided:
                raise LedgerInvalid("no job is charged beside a session that took the whole budget")
            return _refund(state, cost, whole)
        case events.Started() | events.Released() | events.Failed() | events.Cancelled():
            if state.charges == 0:
                raise LedgerInvalid("no job is charged")
            return state
        case _:
            assert_never(event)


def charge(state: LedgerState, cost: Cost, guarantee: Privacy | None) -> LedgerState:
    """Return the state after a charge with this guarantee of its own, without an entry for it; raises as `advance`."""
    spent, budget = _added(state, cost), state.filter.privacy
    fits = state.fits(cost)
    is_within_budget = guarantee is not None and guarantee.epsilon <= budget.epsilon and guarantee.delta <= budget.delta
    if not fits and (state.is_charged or not is_within_budget):
        raise BudgetExhausted("the remaining budget does not admit this charge")
    return replace(state, spent=spent, charges=state.charges + 1, whole=not fits)


def _charge_external(state: LedgerState, cost: Cost, exceeds: bool) -> LedgerState:
    """Return the state after an external charge, whose loss has happened already.

    A charge that does not fit is added as well, if it states so, and freezes the ledger.
    """
    spent = _added(state, cost)
    fits = state.fits(cost)
    if not fits and not exceeds:
        raise BudgetExhausted("the remaining budget does not admit this charge")
    if fits and exceeds:
        raise LedgerInvalid("exceeds: this charge is within the budget")
    frozen = state.frozen or exceeds
    return replace(state, spent=state.filter.vector(spent), charges=state.charges + 1, whole=False, frozen=frozen)


def _added(state: LedgerState, cost: Cost) -> Cost:
    """Return the sum of the live charges and one more; `LedgerInvalid` if no job has such a charge."""
    if not _consistent(state.filter, state.filter.vector(cost), 1):
        raise LedgerInvalid("a charge must be at least one unit of each threshold, and at most the slack of one job")
    return tuple(a + b for a, b in zip(state.spent, cost, strict=True))


def _promise(state: LedgerState, rule: Filter) -> LedgerState:
    """Return the state under another filter. A job that took the whole old budget may fit within the new one."""
    if not state.is_charged:
        return replace(state, filter=rule, spent=rule.zero_cost)
    if not rule.is_raise_of(state.filter):
        raise LedgerInvalid("after a charge a budget may only grow, with the same orders, weights and slack")
    fits = rule.admits(rule.zero_cost, state.spent)
    return replace(state, filter=rule, whole=state.whole and not fits, undivided=state.undivided and not fits)


def _refund(state: LedgerState, cost: Cost, whole: bool) -> LedgerState:
    spent = tuple(a - b for a, b in zip(state.spent, state.filter.vector(cost), strict=True))
    charges = state.charges - 1
    if charges < 0 or not _consistent(state.filter, spent, charges) or whole != state.whole:
        raise LedgerInvalid("the refund must be that of a live charge")
    return replace(state, spent=spent, charges=charges, whole=False, undivided=False)


def _settle(state: LedgerState, end: events.Settled) -> LedgerState:
    """Return the state after a session, whose charge keeps at least a unit of each threshold if it had an answer.

    If a session took the whole budget, all other live charges are outside ones, which are never refunded. So a refund
    can only be that session's. The caller knows a session's own charge and plan, and `accounting.records.replay` checks
    the refund against them.
    """
    if state.charges == 0 or end.whole != state.whole:
        raise LedgerInvalid("no such session is charged")
    if not any(state.filter.vector(end.refund)):
        return state
    if end.reason == "expired" or state.rolled_back:
        raise LedgerInvalid("refund: an expired session, or one of a ledger that lost entries, stays charged")
    if end.frees_charge:
        return _refund(state, end.refund, end.whole)
    spent = tuple(a - b for a, b in zip(state.spent, end.refund, strict=True))
    if state.whole or state.undivided or not _consistent(state.filter, spent, state.charges):
        raise LedgerInvalid("refund: answers stay charged, and a whole budget stays charged after the first answer")
    return replace(state, spent=spent)


def _consistent(rule: Filter, spent: Cost, charges: int) -> bool:
    """Return whether so many live charges can add up to `spent`, each of a unit or more and a job's slack or less."""
    if not charges:
        return not any(spent)
    slack = spent[-1] if rule.slack else 0
    return min(rule.curve(spent)) >= charges and 0 <= slack <= charges * rule.most_slack
