"""Ledgers for those who watch over them; keys and receipt verification for everybody."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from accounting.records.entries import EntryKind
from app.calculation.dependencies import pool
from app.calculation.pool import Pool
from app.http import conditional
from app.http.body import json_body
from app.http.callers import while_connected
from app.http.errors import responses
from app.http.lists import NUMBER, Paging, paging
from app.http.queries import strict_router
from app.identity.dependencies import Principal, database, require
from app.ledger import service
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from purse.wire.base import Identifier, Name, Page
from purse.wire.receipts import KeySet, LedgerEntry, ReceiptDocument, VerificationReport

router = strict_router(prefix="/v1", tags=["ledger and receipts"])


async def signing_keys(request: Request) -> SigningKeys:
    """The service's keys."""
    found = request.app.state.services.keys
    assert isinstance(found, SigningKeys)
    return found


Base = Annotated[Database, Depends(database)]
Keys = Annotated[SigningKeys, Depends(signing_keys)]


@router.get("/datasets/{dataset_id}/ledger", summary="Read a dataset's ledger", responses=responses("not_found"))
def ledger(
    base: Base,
    _principal: Annotated[Principal, Depends(require("steward", "auditor"))],
    dataset_id: Identifier,
    asked: Annotated[Paging, Depends(paging(NUMBER, first="asc"))],
    analyst: Annotated[
        Name | None, Query(description="Only what this analyst's jobs did, by name or the id of the identity.")
    ] = None,
    kind: Annotated[EntryKind | None, Query(description="Only entries of this kind.")] = None,
) -> Page[LedgerEntry]:
    """Every charge, refund and release, as a hash chain that anyone can check, from its first entry on.

    A cursor is a sequence number. What a filter leaves out is missing from the chain: check a whole one.
    """
    return service.page(base, dataset_id, asked, analyst, kind)


@router.get("/keys", summary="The server's public keys", response_model=KeySet, responses=conditional.RESPONSES)
def keys(signing: Keys, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """A JWK Set, the current key first. Save it when a receipt is downloaded: offline verification trusts only it."""
    return conditional.respond(KeySet(keys=signing.jwks()["keys"]).model_dump_json(), if_none_match)


@router.post(
    "/receipts/verify",
    summary="Verify a receipt",
    responses=responses("invalid_request", "out_of_range", "too_many_requests", "overloaded"),
)
async def verify(
    request: Request,
    base: Base,
    signing: Keys,
    calculations: Annotated[Pool, Depends(pool)],
    body: Annotated[ReceiptDocument, Depends(json_body(ReceiptDocument))],
) -> VerificationReport:
    """Whether this server signed it, its epsilon follows from its events, and the ledger holds its release."""
    return await while_connected(request, service.check(base, signing, calculations, body))
