"""Lists of ledger entries, the refusal of a frozen ledger, and the verification of receipts."""

from collections.abc import Callable
from typing import Any, TypeVar

from accounting.errors import ReceiptInvalid
from accounting.records.chain import Entry, EntryKind
from accounting.records.ledger import LedgerState
from accounting.records.receipt import Receipt, Recomputation, is_signed, verify
from app.calculation.pool import Pool, accepted
from app.calculation.questions import Recompute, Recomputed
from app.http.errors import ApiError
from app.http.lists import Paging
from app.http.work import in_turn
from app.ledger import store
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from purse.wire.base import Page
from purse.wire.receipts import LedgerEntry, ReceiptDocument, VerificationReport

T = TypeVar("T")
_PUBLIC_CALLER = ""  # the route is public, so all its callers share the limits of one caller


def page(
    database: Database, dataset_id: str, paging: Paging, analyst: str | None = None, kind: EntryKind | None = None
) -> Page[LedgerEntry]:
    """Return a page of a ledger's entries, filtered by analyst and kind if given. Raise ApiError not_found."""
    with database.read() as connection:
        if not store.exists(connection, dataset_id):
            raise ApiError("not_found")
        rows = store.page(connection, dataset_id, paging, analyst, kind)
    return paging.page(
        Page[LedgerEntry], rows, lambda entry: LedgerEntry(**entry.to_json()), lambda entry: entry.sequence
    )


def refuse_frozen(state: LedgerState) -> None:
    """Raise an `ApiError` dataset_frozen, which states the cause, if nothing may be charged or started."""
    if not state.frozen:
        return
    cause = "A steward, or a charge above the budget, has frozen the dataset."
    if state.rolled_back:
        cause = "An older copy of the database was restored, so charges of this dataset may be lost."
    elif state.is_exceeded:
        cause = "Releases outside this service have cost more than the budget allowed."
    raise ApiError(
        "dataset_frozen", f"Nothing was charged. {cause} No job starts until a steward unfreezes the dataset."
    )


async def check(database: Database, keys: SigningKeys, pool: Pool, document: ReceiptDocument) -> VerificationReport:
    """Verify a receipt: its signature, its epsilon, recomputed, and its entry in the ledger.

    Raises
    ------
    ApiError
        invalid_request if the document is not a receipt; too_many_requests, overloaded, out_of_range.
    """
    recomputed = None
    if await in_turn(_read, is_signed, document, keys):  # only signed receipts are recomputed
        answer = await pool.answer(_PUBLIC_CALLER, Recompute(document.receipt))
        recomputed = accepted(answer, Recomputed).recomputation
    return await in_turn(_report, database, keys, document, recomputed)


def _read(read: Callable[..., T], document: ReceiptDocument, keys: SigningKeys, *arguments: Any) -> T:
    """Call a function of `accounting.records.receipt`, whose error is the caller's."""
    try:
        return read(document.model_dump(), keys.jwks(), *arguments)
    except ReceiptInvalid as error:
        raise ApiError(
            "invalid_request", f"The document is not a receipt: {error}. Send the file as it was downloaded."
        ) from None


def _report(
    database: Database, keys: SigningKeys, document: ReceiptDocument, recomputed: Recomputation | None
) -> VerificationReport:
    entry = _entry(database, document.receipt)
    result = _read(verify, document, keys, entry, recomputed)
    # If the ledger lacks the entry of a receipt that this service signed, the ledger has lost entries.
    chain = (entry is not None and result.chain) if result.signature else None
    return VerificationReport(
        valid=result.holds and chain is True,
        signature=result.signature,
        epsilon=result.epsilon,
        chain=chain,
        stated_epsilon=result.stated_epsilon,
        recomputed_epsilon=result.recomputed_epsilon,
        accountant=result.accountant,
        reason=result.reason or ("the ledger does not contain this release" if chain is False else None),
    )


def _entry(database: Database, receipt: Receipt) -> Entry | None:
    """Return the ledger's entry with the sequence number in the receipt, or None."""
    match receipt:
        case {"dataset": str(dataset), "sequence": int(sequence)} if 1 <= sequence < 2**53:
            with database.read() as connection:
                rows = store.entries(connection, dataset, sequence - 1, 1)
            return rows[0] if rows and rows[0].sequence == sequence else None
        case _:
            return None
