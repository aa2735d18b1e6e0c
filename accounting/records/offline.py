"""What an exported ledger proves by itself, with no server in reach and none trusted.

Its chain is unbroken from the first entry on and contains every head that somebody kept; each entry follows from those
before it, so no charge was admitted past the filter; and a receipt's release is in it, after the charge of its job.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from accounting.records.chain import Entry, Head, verify_whole
from accounting.records.ledger import LedgerState, replay
from accounting.records.receipt import Jwks, Verification, verify


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
    """As `receipt.verify`, and whether this ledger holds the release, for a charge of at least what the receipt states.

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
    charged = next(e.body for e in ledger if e.kind == "charged" and e.body["job"] == stated["job"])
    if stated["epsilon"] > charged["epsilon"] * (1 + 1e-9) or stated["delta"] > charged["delta"]:
        return replace(found, holds=False, chain=False, reason="the ledger charged less than the receipt states")
    return found
