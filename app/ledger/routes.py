"""Routes of public keys and of receipt verification, which need no token."""

from typing import Annotated

from fastapi import Depends, Request, Response

from app.http import conditional
from app.http.body import JsonBody
from app.http.dependencies import ServicePart, while_connected
from app.http.queries import strict_router
from app.identity.dependencies import Calculations, ServiceDatabase
from app.ledger import service
from app.ledger.keys import SigningKeys
from purse.wire.receipts import KeySet, ReceiptDocument, VerificationReport

router = strict_router(prefix="/v1", tags=["ledger and receipts"])


Keys = Annotated[SigningKeys, Depends(ServicePart("keys"))]


@router.get("/keys", summary="Read the public keys", response_model=KeySet, responses=conditional.RESPONSES)
def keys(signing: Keys, if_none_match: conditional.IfNoneMatch = None) -> Response:
    """Return a JWK Set, the current key first. Save it with each receipt: offline verification trusts nothing else."""
    return conditional.respond(KeySet(keys=signing.jwks()["keys"]).model_dump_json(), if_none_match)


@router.post("/receipts/verify", summary="Verify a receipt")
async def verify(
    request: Request,
    database: ServiceDatabase,
    signing: Keys,
    calculations: Calculations,
    body: Annotated[ReceiptDocument, Depends(JsonBody(ReceiptDocument))],
) -> VerificationReport:
    """Report whether this server signed the receipt, its epsilon is correct, and the ledger contains its release."""
    return await while_connected(request, service.check(database, signing, calculations, body))
