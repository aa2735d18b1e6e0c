"""What an exported ledger proves by itself, with no server in reach and none trusted.

Its chain is unbroken from the first entry on and contains every head that somebody kept; each entry follows from those
before it, so no charge was admitted past the filter; and a receipt's release is in it, after the charge of its job.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from accounting.errors import AccountingError
from accounting.filter import Cost, Filter
from accounting.plan import Plan
from accounting.records.chain import Entry, Head, verify_whole
from accounting.records.filters import cost_from_json, filter_from_json
from accounting.records.ledger import LedgerState, replay
from accounting.records.receipt import Jwks, Verification, plan_of, verify


def verify_ledger(entries: Sequence[Entry], heads: Collection[Head] = ()) -> LedgerState:
    """Where the ledger stands, found again from its entries.

    Raises
    ------
    LedgerInvalid
        if the chain breaks or lacks one of the heads, or an entry does not follow from those before it.
    """
    verify_whole(entries, heads)
    return replay(entries)


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
    if entry is None:
        return replace(found, holds=False, chain=False, reason="the ledger ends before this release")
    charge = next(entry for entry in ledger if entry.kind == "charged" and entry.body["job"] == stated["job"])
    if stated["epsilon"] > charge.body["epsilon"] * (1 + 1e-9) or stated["delta"] > charge.body["delta"]:
        return replace(found, holds=False, chain=False, reason="the ledger charged less than the receipt states")
    if stated["neighbors"] != ledger[0].body["neighbors"]:
        return replace(found, holds=False, chain=False, reason="the ledger counts in another relation")
    if not _pays(_filter_at(ledger, charge), cost_from_json(charge.body["cost"]), plan_of(stated)):
        return replace(found, holds=False, chain=False, reason="the ledger charged less than these queries cost")
    return found


def shares(ledger: Sequence[Entry], state: LedgerState) -> dict[int, float]:
    """By the number of its entry, the part of the budget that each live charge takes; all beside what is spent at the
    end, so that they add up.

    Parameters
    ----------
    state : that the ledger leads to
    """
    refunded = {entry.body["job"] for entry in ledger if entry.kind == "refunded"}
    live = [entry for entry in ledger if entry.kind == "charged" and entry.body["job"] not in refunded]
    part = partial(state.filter.share, spent=state.spent)
    return {e.sequence: 1.0 if state.whole else part(cost_from_json(e.body["cost"])) for e in live}


def _filter_at(ledger: Sequence[Entry], charge: Entry) -> Filter:
    """The filter that admitted the charge."""
    said = [entry.body["filter"] for entry in ledger[: charge.sequence] if entry.kind in ("opened", "promised")]
    return filter_from_json(said[-1])


def _pays(rule: Filter, paid: Cost, plan: Plan) -> bool:
    """Whether the charge covers the plan in the filter's currency."""
    try:
        return rule.pays(paid, plan)
    except AccountingError:  # it has no currency for them, or no charge could hold them
        return False
