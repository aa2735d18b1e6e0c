"""Reading ledgers, and checking receipts against them."""

from collections.abc import Callable
from typing import Any, TypeVar

from accounting.errors import ReceiptInvalid
from accounting.records.chain import Entry
from accounting.records.entries import EntryKind
from accounting.records.receipt import Receipt, Recomputation, is_signed, verify
from app.calculation.pool import Pool
from app.calculation.questions import Recompute, Recomputed, Refused
from app.http.errors import ApiError
from app.http.lists import Paging
from app.http.work import in_turn
from app.ledger import store
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from purse.wire.base import Page
from purse.wire.receipts import LedgerEntry, ReceiptDocument, VerificationReport

T = TypeVar("T")
_STRANGER = ""  # this route is public: its callers share what one caller may have


def page(
    database: Database, dataset_id: str, asked: Paging, analyst: str | None = None, kind: EntryKind | None = None
) -> Page[LedgerEntry]:
    """A ledger's entries, of this analyst's jobs and this kind if any are named; ApiError not_found."""
    with database.read() as connection:
        if not store.exists(connection, dataset_id):
            raise ApiError("not_found")
        found = store.page(connection, dataset_id, asked, analyst, kind)
    return asked.page(
        Page[LedgerEntry], found, lambda entry: LedgerEntry(**entry.to_json()), lambda entry: entry.sequence
    )


async def check(database: Database, keys: SigningKeys, pool: Pool, document: ReceiptDocument) -> VerificationReport:
    """Signature, recomputed epsilon, and the ledger's own entry.

    Raises
    ------
    ApiError
        invalid_request if the document is no receipt at all; too_many_requests, overloaded, out_of_range.
    """
    recomputed = None
    if await in_turn(_read, is_signed, document, keys):  # what nobody has signed is not worth a calculation
        answer = await pool.answer(_STRANGER, Recompute(document.receipt))
        if isinstance(answer, Refused):
            raise ApiError(answer.code, answer.detail)
        assert isinstance(answer, Recomputed)
        recomputed = answer.found
    return await in_turn(_report, database, keys, document, recomputed)


def _read(reading: Callable[..., T], document: ReceiptDocument, keys: SigningKeys, *more: Any) -> T:
    try:
        return reading(document.model_dump(), keys.jwks(), *more)
    except ReceiptInvalid as error:
        raise ApiError("invalid_request", f"Not a receipt: {error}.") from None


def _report(
    database: Database, keys: SigningKeys, document: ReceiptDocument, recomputed: Recomputation | None
) -> VerificationReport:
    entry = _entry(database, document.receipt)
    found = _read(verify, document, keys, entry, recomputed)
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
