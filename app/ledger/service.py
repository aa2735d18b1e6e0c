"""Reading ledgers, and checking receipts against them."""

from accounting.errors import ReceiptInvalid
from accounting.records.chain import Entry
from accounting.records.receipt import Receipt, verify
from app.http.errors import ApiError
from app.ledger import store
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.wire.base import Page
from app.wire.receipts import LedgerEntry, ReceiptDocument, VerificationReport


def page(database: Database, dataset_id: str, after: int, limit: int) -> Page[LedgerEntry]:
    """Entries with sequence above `after`, in order; ApiError not_found if there is no such dataset."""
    with database.read() as connection:
        if not store.exists(connection, dataset_id):
            raise ApiError("not_found")
        found = store.entries(connection, dataset_id, after, limit + 1)
    items = [LedgerEntry(**entry.to_json()) for entry in found[:limit]]
    return Page[LedgerEntry](items=items, next=str(items[-1].sequence) if len(found) > limit else None)


def check(database: Database, keys: SigningKeys, document: ReceiptDocument) -> VerificationReport:
    """Signature, recomputed epsilon, and the ledger's own entry.

    Raises
    ------
    ApiError
        invalid_request if the document is no receipt at all.
    """
    entry = _entry(database, document.receipt)
    try:
        found = verify(document.model_dump(), keys.jwks(), entry)
    except ReceiptInvalid as error:
        raise ApiError("invalid_request", f"Not a receipt: {error}.") from None
    # A receipt that this service signed and its ledger does not hold: the ledger has lost its end.
    chain = (entry is not None and found.chain) if found.signature else None
    return VerificationReport(
        valid=found.holds and chain is True,
        signature=found.signature,
        epsilon=found.epsilon,
        chain=chain,
        stated_epsilon=found.stated_epsilon,
        recomputed_epsilon=found.recomputed_epsilon,
        accountant=found.accountant,
        reason=found.reason or ("the ledger does not hold this release" if chain is False else None),
    )


def _entry(database: Database, receipt: Receipt) -> Entry | None:
    """The ledger's entry of the number that the receipt states, if there is one."""
    match receipt:
        case {"dataset": str(dataset), "sequence": int(sequence)} if 1 <= sequence < 2**53:
            with database.read() as connection:
                found = store.entries(connection, dataset, sequence - 1, 1)
            return found[0] if found and found[0].sequence == sequence else None
        case _:
            return None
