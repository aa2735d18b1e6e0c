"""What an exported ledger proves by itself, with no server in reach and none trusted.

Its chain is unbroken from the first entry on and contains every head that somebody kept; each entry follows from those
before it, so no charge was admitted past the filter; and a receipt's release is in it, after the charge of its job.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from accounting.errors import AccountingError, CodecError, LedgerInvalid
from accounting.filter import Cost, Filter
from accounting.plan import Plan
from accounting.privacy import Unit
from accounting.records.chain import Entry, Head, verify_whole
from accounting.records.filters import cost_from_json, filter_from_json
from accounting.records.ledger import LedgerState, share
from accounting.records.outside import Outside, event_from_json
from accounting.records.receipt import Jwks, Receipt, Verification, plan_of, verify
from accounting.records.replay import replay

_CHARGES = ("charged", "external")


def verify_ledger(entries: Sequence[Entry], heads: Collection[Head] = ()) -> LedgerState:
    """Where the ledger stands, found again from its entries.

    Raises
    ------
    LedgerInvalid
        if the chain breaks or lacks one of the heads, an entry does not follow from those before it, a dataset joined
        with another unit, or a charge from outside is less than what it states costs.
    """
    verify_whole(entries, heads)
    state = replay(entries)
    for entry in entries:
        if entry.kind == "joined" and _unit(entry.body) != _unit(entries[0].body):
            raise LedgerInvalid(f"entry {entry.sequence} joins records of another unit than the ledger opened with")
        if entry.kind == "external" and not _pays(
            _filter_at(entries, entry), cost_from_json(entry.body["cost"]), _outside(entries, entry)
        ):
            raise LedgerInvalid(f"entry {entry.sequence} charges less than what ran elsewhere costs")
    return state


def verify_receipt(document: Any, trusted: Jwks, ledger: Sequence[Entry], heads: Collection[Head] = ()) -> Verification:
    """As `receipt.verify`, and whether this ledger holds the release, for a charge of at least what its queries cost.

    Raises
    ------
    ReceiptInvalid
        if the document is malformed.
    LedgerInvalid
        as `verify_ledger`.
    """
    verify_ledger(ledger, heads)
    stated = document["receipt"] if isinstance(document, dict) else {}
    place = stated.get("sequence") if isinstance(stated, dict) else None
    entry = next((e for e in ledger if e.sequence == place), None)
    found = verify(document, trusted, entry)
    if not found.holds:
        return found
    wrong = "the ledger ends before this release" if entry is None else _wrong(ledger, stated)
    return found if wrong is None else replace(found, holds=False, chain=False, reason=wrong)


def shares(ledger: Sequence[Entry], state: LedgerState) -> dict[int, float]:
    """By the number of its entry, the part of the budget that each live charge takes; all beside what is spent at the
    end, so that they add up.

    Parameters
    ----------
    state : that the ledger leads to
    """
    refunded = {entry.body["job"] for entry in ledger if entry.kind == "refunded"}
    live = [entry for entry in ledger if entry.kind in _CHARGES and entry.body.get("job") not in refunded]
    return {entry.sequence: share(state, cost_from_json(entry.body["cost"])) for entry in live}


def _wrong(ledger: Sequence[Entry], stated: Receipt) -> str | None:
    """What the ledger records otherwise than the receipt of a release that is in it, or None."""
    charge = next(entry for entry in ledger if entry.kind == "charged" and entry.body["job"] == stated["job"])
    names = {"analyst": stated["analyst"], "dataset": stated["dataset"], "method": stated["method"]["name"]}
    if stated["epsilon"] > charge.body["epsilon"] * (1 + 1e-9) or stated["delta"] > charge.body["delta"]:
        return "the ledger charged less than the receipt states"
    if any(charge.body.get(name, value) != value for name, value in names.items()):
        return "the ledger charged another analyst, dataset or method"
    if None not in (parts := (stated.get("share"), charge.body.get("share"))) and parts[0] != parts[1]:
        return "the ledger charged another share of the budget"
    if not _stands_on(ledger[: charge.sequence], stated):
        return "the ledger released no such profile before this charge"
    if not _is_registered(ledger, stated):
        return "the ledger is of other records, or other neighbors"
    if not _pays(_filter_at(ledger, charge), cost_from_json(charge.body["cost"]), plan_of(stated)):
        return "the ledger charged less than these queries cost"
    return None


def _stands_on(before: Sequence[Entry], stated: Receipt) -> bool:
    """Whether the profile that a receipt names, if it names one, had been released: a profile, and of this dataset."""
    profile = stated.get("profile")
    if profile is None:
        return True
    told = ((e.body["job"], e.body["model_sha256"]) for e in before if e.kind == "released")
    charges = (e.body for e in before if e.kind == "charged" and e.body["job"] == profile["job"])
    names = {"method": "profile", "dataset": stated["dataset"]}
    is_one = any(all(body.get(name, value) == value for name, value in names.items()) for body in charges)
    return is_one and (profile["job"], profile["sha256"]) in told


def _is_registered(ledger: Sequence[Entry], stated: Receipt) -> bool:
    """Whether the ledger has the receipt's dataset, of as many records, in the same relation."""
    known = (ledger[0].body | e.body for e in ledger if e.kind in ("opened", "joined"))
    body = next((body for body in known if body["dataset"] == stated["dataset"]), {})
    return bool(body) and _protected(body) == _protected(stated)


def _protected(said: dict[str, Any]) -> tuple[str, Unit, int | None]:
    """The relation, the unit and n, as a registration or a receipt says them."""
    unit = _unit(said)
    return said["neighbors"], unit, said.get(f"{unit.name}s")


def _unit(said: dict[str, Any]) -> Unit:
    """Rows, where none is named."""
    return Unit(**said.get("unit", {}))


def _filter_at(ledger: Sequence[Entry], charge: Entry) -> Filter:
    """The filter that admitted the charge."""
    said = [entry.body["filter"] for entry in ledger[: charge.sequence] if entry.kind in ("opened", "promised")]
    return filter_from_json(said[-1])


def _outside(ledger: Sequence[Entry], entry: Entry) -> Outside:
    """What an entry says that ran elsewhere, between the neighbors of the ledger."""
    try:
        return Outside(event_from_json(entry.body["event"]), ledger[0].body["neighbors"])
    except CodecError as error:
        raise LedgerInvalid(f"entry {entry.sequence} states no event") from error


def _pays(rule: Filter, paid: Cost, plan: Plan | Outside) -> bool:
    """Whether the charge covers the plan in the filter's currency."""
    try:
        return rule.pays(paid, plan)
    except AccountingError:  # it has no currency for them, or no charge could hold them
        return False
