"""Offline verification of an exported ledger, without a server.

The chain is unbroken from the first entry on and contains every given head. Each entry follows from those before it, so
no charge was admitted past the filter. A receipt's release is in the ledger, after the charge of its job.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from accounting.errors import AccountingError, CodecError, LedgerInvalid
from accounting.filter import Cost, Filter
from accounting.plan import AbstractComposition
from accounting.records.chain import Entry, Head, check_heads
from accounting.records.filters import cost_from_json, filter_from_json
from accounting.records.ledger import LedgerState, share
from accounting.records.outside import event_from_json, event_to_json
from accounting.records.receipt import Receipt, Verification, plan_of, verify
from accounting.records.recomputation import recompute_session, records_of, session_plan_of
from accounting.records.replay import replay
from accounting.records.sessions import SessionPlan, plan_from_json, plan_to_json
from accounting.records.signing import Jwks
from accounting.records.statement import is_session

_CHARGES = ("charged", "external", "reserved")


def verify_ledger(entries: Sequence[Entry], heads: Collection[Head] = ()) -> LedgerState:
    """Return the state of the ledger, recomputed from its entries.

    Raises
    ------
    LedgerInvalid
        if the chain breaks or lacks one of the heads, an entry does not follow from those before it, a dataset joined
        with another unit, an external charge is less than the cost of its event, a session's charge is less than the
        cost of its plan, or, after its refund, of its recorded part; or a planned event does not fit the dataset.
    """
    if not entries or entries[0].sequence != 1:
        raise LedgerInvalid("the chain must begin with its first entry")
    state = replay(entries)
    check_heads(entries, heads)
    _check_prices(entries)
    return state


def verify_receipt(document: Any, trusted: Jwks, ledger: Sequence[Entry], heads: Collection[Head] = ()) -> Verification:
    """Return `receipt.verify`, and whether this ledger has the release and its charge covers the queries.

    Raises
    ------
    ReceiptInvalid
        if the document is malformed.
    LedgerInvalid
        as `verify_ledger`.
    """
    verify_ledger(ledger, heads)
    stated = document["receipt"] if isinstance(document, dict) else {}
    sequence = stated.get("sequence") if isinstance(stated, dict) else None
    entry = next((e for e in ledger if e.sequence == sequence), None)
    verification = verify(document, trusted, entry)
    if not verification.holds:
        return verification
    if entry is None:
        reason: str | None = f"the ledger ends before this {'session' if is_session(stated) else 'release'}"
    else:
        reason = _session_mismatch(ledger, stated) if is_session(stated) else _mismatch(ledger, stated)
    return verification if reason is None else replace(verification, holds=False, chain=False, reason=reason)


def shares(ledger: Sequence[Entry], state: LedgerState) -> dict[int, float]:
    """Return the share of the budget of each live charge, by the number of its entry.

    All shares are read at the final state, so that they add up.

    Parameters
    ----------
    state : the final state of the ledger
    """
    refunds = {e.body["job"]: cost_from_json(e.body["cost"]) for e in ledger if e.kind == "refunded"}
    refunds |= {e.body["session"]: cost_from_json(e.body["refund"]) for e in ledger if e.kind == "settled"}
    live: dict[int, Cost] = {}
    for entry in ledger:
        if entry.kind in _CHARGES:
            refund = refunds.get(entry.body.get("job") or entry.body.get("session"), state.filter.zero_cost)
            live[entry.sequence] = _remaining(cost_from_json(entry.body["cost"]), refund)
    return {sequence: share(state, cost) for sequence, cost in live.items() if any(cost)}


def _mismatch(ledger: Sequence[Entry], stated: Receipt) -> str | None:
    """Return the first difference between the ledger and the receipt of a release that is in it, or None."""
    charge = next(entry for entry in ledger if entry.kind == "charged" and entry.body["job"] == stated["job"])
    names = {"analyst": stated["analyst"], "dataset": stated["dataset"], "method": stated["method"]["name"]}
    if stated["epsilon"] > charge.body["epsilon"] * (1 + 1e-9) or stated["delta"] > charge.body["delta"]:
        return "the ledger charged less than the receipt states"
    if any(charge.body[name] != value for name, value in names.items()):
        return "the ledger charged another analyst, dataset or method"
    if stated.get("share") not in (None, charge.body["share"]):
        return "the ledger charged another share of the budget"
    if not _has_profile(ledger[: charge.sequence], stated):
        return "the ledger released no such profile before this charge"
    if not _is_registered(ledger, stated):
        return "the ledger has no such dataset, or other records or neighbors"
    if not _pays(_filter_at(ledger, charge), cost_from_json(charge.body["cost"]), plan_of(stated)):
        return "the ledger charged less than these queries cost"
    return None


def _session_mismatch(ledger: Sequence[Entry], stated: Receipt) -> str | None:
    """Return the first difference between the ledger and the receipt of a session whose end is in it, or None."""
    reserved = next(e for e in ledger if e.kind == "reserved" and e.body["session"] == stated["session"])
    settled = next(e for e in ledger if e.kind == "settled" and e.body["session"] == stated["session"])
    refund = cost_from_json(settled.body["refund"])
    if any(reserved.body[name] != stated[name] for name in ("analyst", "dataset")):
        return "the ledger reserved for another analyst or dataset"
    if reserved.body["plan"] != plan_to_json(session_plan_of(stated)):
        return "the ledger reserved another plan"
    if (stated["charged"] == "recorded") != any(refund):
        return "the ledger charged another part of the plan"
    charged = reserved.body["share"]
    if any(refund):
        charged = share(replay(ledger[: settled.sequence]), _remaining(cost_from_json(reserved.body["cost"]), refund))
    if stated.get("share") not in (None, charged):
        return "the ledger charged another share of the budget"
    return None if _is_registered(ledger, stated) else "the ledger has no such dataset, or other records or neighbors"


def _has_profile(entries: Sequence[Entry], stated: Receipt) -> bool:
    """Return whether the entries released the profile that a receipt names, if it names one, of its dataset."""
    profile = stated.get("profile")
    if profile is None:
        return True
    releases = ((e.body["job"], e.body["model_sha256"]) for e in entries if e.kind == "released")
    charges = (e.body for e in entries if e.kind == "charged" and e.body["job"] == profile["job"])
    names = {"method": "profile", "dataset": stated["dataset"]}
    is_profile = any(names.items() <= body.items() for body in charges)
    return is_profile and (profile["job"], profile["sha256"]) in releases


def _is_registered(ledger: Sequence[Entry], stated: Receipt) -> bool:
    """Return whether the ledger has the receipt's dataset, with the same number of records and relation."""
    body = _registration(ledger, stated["dataset"])
    is_same = bool(body) and body["neighbors"] == stated["neighbors"]
    return is_same and records_of(body) == records_of(stated)


def _registration(ledger: Sequence[Entry], dataset: str) -> dict[str, Any]:
    """Return the body of a dataset's registration, with the neighbors of its ledger; empty if it is not registered."""
    bodies = (ledger[0].body | entry.body for entry in ledger if entry.kind in ("opened", "joined"))
    return next((body for body in bodies if body["dataset"] == dataset), {})


def _check_prices(ledger: Sequence[Entry]) -> None:
    """Raise `LedgerInvalid` unless all joined the ledger's unit, and outside charges and sessions paid their prices."""
    rule = filter_from_json(ledger[0].body["filter"])
    reserved: dict[str, tuple[Cost, SessionPlan]] = {}
    for entry in ledger:
        if entry.kind == "promised":
            rule = filter_from_json(entry.body["filter"])
        elif entry.kind == "joined" and records_of(entry.body)[1] != records_of(ledger[0].body)[1]:
            raise LedgerInvalid(f"entry {entry.sequence} joins records of another unit than the ledger opened with")
        elif entry.kind == "external" and not _pays(rule, cost_from_json(entry.body["cost"]), _outside(ledger, entry)):
            raise LedgerInvalid(f"entry {entry.sequence} charges less than its outside mechanism costs")
        elif entry.kind == "reserved":
            cost = cost_from_json(entry.body["cost"])
            plan = _planned(ledger, entry)
            if not _pays(rule, cost, plan):
                raise LedgerInvalid(f"entry {entry.sequence} reserves less than its plan costs")
            reserved[entry.body["session"]] = cost, plan
        elif entry.kind == "settled":
            cost, plan = reserved.pop(entry.body["session"])
            used = plan.recorded(entry.body["recorded"])
            remaining = _remaining(cost, cost_from_json(entry.body["refund"]))
            if used.events and not _pays(rule, remaining, used):
                raise LedgerInvalid(f"entry {entry.sequence} returns more than the session's answers leave")


def _planned(ledger: Sequence[Entry], entry: Entry) -> SessionPlan:
    """Return the plan of a reservation; `LedgerInvalid` unless it fits its dataset and keeps the stated guarantee."""
    try:
        plan = plan_from_json(entry.body["plan"], ledger[0].body["neighbors"])
    except CodecError as error:
        raise LedgerInvalid(f"entry {entry.sequence} states no plan of a session") from error
    if plan.misfit(*records_of(_registration(ledger, entry.body["dataset"]))) is not None:
        raise LedgerInvalid(f"entry {entry.sequence} plans an event that does not fit the records of its dataset")
    if entry.body["whole"]:
        stated = entry.body["epsilon"]
        recomputed = recompute_session(plan, stated, entry.body["delta"])
        if recomputed is None or not recomputed.is_within(stated):
            raise LedgerInvalid(f"entry {entry.sequence} took the whole budget for a plan that costs more")
    return plan


def _remaining(cost: Cost, refund: Cost) -> Cost:
    """Return the part of a charge that its refund leaves."""
    return tuple(c - r for c, r in zip(cost, refund, strict=True))


def _filter_at(ledger: Sequence[Entry], charge: Entry) -> Filter:
    """Return the filter that admitted the charge."""
    filters = [entry.body["filter"] for entry in ledger[: charge.sequence] if entry.kind in ("opened", "promised")]
    return filter_from_json(filters[-1])


def _outside(ledger: Sequence[Entry], entry: Entry) -> SessionPlan:
    """Return the event of an external charge, between the neighbors of the ledger."""
    try:
        event = event_from_json(entry.body["event"])
    except CodecError as error:
        raise LedgerInvalid(f"entry {entry.sequence} states no event") from error
    if event_to_json(event) != entry.body["event"]:
        raise LedgerInvalid(f"entry {entry.sequence} does not state its event with exactly its fields")
    return SessionPlan.of([event], ledger[0].body["neighbors"])


def _pays(rule: Filter, paid: Cost, plan: AbstractComposition) -> bool:
    """Return whether the charge covers the plan in the filter's currency."""
    try:
        return rule.pays(paid, plan)
    except AccountingError:  # the plan has no curve in this currency, or no charge could cover it
        return False
