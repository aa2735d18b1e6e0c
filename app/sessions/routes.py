"""Routes of sessions, for the programs of analysts."""

import logging
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.datasets.names import DatasetId
from app.http import conditional
from app.http.body import JsonBody
from app.http.conditional import IfNoneMatch
from app.http.dependencies import Locate, while_connected
from app.http.errors import ApiError, responses
from app.http.idempotency import Key
from app.http.lists import Paging, paging_parameters
from app.http.queries import strict_router
from app.http.work import in_turn
from app.identity.dependencies import Calculations, Capacity, Reader, ServiceDatabase, SessionHolder
from app.ledger.routes import Keys
from app.persistence.session import Database, new_id
from app.sessions import receipts, service
from app.sessions.pricing import price
from app.sessions.requests import SessionRequest
from purse.wire.base import DatasetReference, Identifier, Page
from purse.wire.receipts import ReceiptDocument
from purse.wire.sessions import Session, StepsRequest

_LOG = logging.getLogger("purse.sessions")
_MOST_ATTEMPTS = 5  # to close a session in which answers are recorded meanwhile
router = strict_router(prefix="/v1", tags=["sessions"])


@router.post(
    "/datasets/{dataset_id}/sessions",
    status_code=201,
    summary="Open a session",
    responses=responses(
        "unsupported_combination",
        "method_filter_mismatch",
        "sessions_refused",
        "budget_exhausted",
        "idempotency_conflict",
        "dataset_frozen",
        "dataset_changed",
        "dataset_deleted",
        "dataset_damaged",
        "disk_full",
    ),
)
async def open_session(
    request: Request,
    principal: SessionHolder,
    _capacity: Capacity,
    dataset_id: DatasetId,
    body: Annotated[SessionRequest, Depends(JsonBody(SessionRequest))],
    locate: Locate,
    idempotency_key: Key = None,
) -> Session:
    """Reserves the budget for answers that a program computes outside of this service, in one transaction.

    With `events`, the body lists the planned answers. With `privacy` and `steps`, the response states the noise with
    which that many answers keep the target. The program records each answer before it computes it, and closes the
    session at its end. An open session expires at the end of its `lifetime`, and then stays charged as if all answers
    had been given. A dataset with a holdout set has no sessions, because the program may read the rows of both.
    """
    services, key = request.app.state.services, idempotency_key or new_id("key")
    database: Database = services.database
    session = await service.opened(database, principal, key, dataset_id, body.root)
    if session is None:
        pricing = price(database, services.pool, principal, dataset_id, body.root)
        priced = await while_connected(request, pricing)
        limit = services.settings.max_open_sessions_per_analyst
        session = await run_in_threadpool(service.open_session, database, principal, key, priced, limit)
        _LOG.info("session_opened %s", session.id)
    locate(f"{router.prefix}/sessions/{session.id}")
    return session


@router.get("/sessions", summary="List sessions")
def listing(
    database: ServiceDatabase,
    principal: Reader,
    paging: Annotated[Paging, Depends(paging_parameters())],
    dataset: Annotated[
        DatasetReference | None, Query(description="Only sessions on this dataset, by its id or its name.")
    ] = None,
) -> Page[Session]:
    """Returns sessions by the time of their opening. Analysts get their own. Stewards and auditors get all."""
    return service.page(database, principal, paging, dataset)


@router.get("/sessions/{session_id}", summary="Read a session")
def show(database: ServiceDatabase, principal: Reader, session_id: Identifier) -> Session:
    """Returns a session with its plan, the recorded answers and its charge. An auditor may read every session."""
    return service.get(database, principal, session_id)


@router.post(
    "/sessions/{session_id}/steps",
    summary="Record answers",
    responses=responses("session_ended", "session_exhausted", "dataset_frozen", "idempotency_conflict", "disk_full"),
)
def record(
    request: Request,
    database: ServiceDatabase,
    principal: SessionHolder,
    session_id: Identifier,
    body: Annotated[StepsRequest, Depends(JsonBody(StepsRequest))],
    idempotency_key: Key = None,
) -> Session:
    """Records answers of one planned event. Record them before the program computes them.

    More answers than planned are refused, and none of them is recorded. A key is remembered until the session ends.
    """
    recorded = service.record(database, principal, session_id, idempotency_key, body)
    request.app.state.metrics.count_answers(recorded.answers)
    return recorded.session


@router.post("/sessions/{session_id}/close", summary="Close a session", responses=responses("disk_full"))
async def close(
    request: Request,
    database: ServiceDatabase,
    calculations: Calculations,
    principal: SessionHolder,
    session_id: Identifier,
) -> Session:
    """Ends a session, and refunds the answers that were not recorded.

    Nothing is refunded if the steward allows no refunds, or if the session took the whole budget and recorded an
    answer. A session that has ended is returned as it ended.
    """
    for _ in range(_MOST_ATTEMPTS):
        closing = await in_turn(service.closing, database, principal, session_id)
        refund = await while_connected(request, closing.refund(calculations, principal.id))
        session = await run_in_threadpool(service.close, database, principal, closing, refund)
        if session is not None:
            return session
    raise ApiError("overloaded", "Answers were recorded while the session was being closed. Try again.")


@router.get(
    "/sessions/{session_id}/receipt",
    response_model=ReceiptDocument,
    summary="Read a session's receipt",
    responses=responses("session_open", "session_ended") | conditional.RESPONSES,
)
def receipt(
    database: ServiceDatabase,
    signing: Keys,
    principal: Reader,
    session_id: Identifier,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Returns the signed statement of what an ended session planned, recorded and cost.

    The analyst's program asserts what was recorded. This service did not observe it. An auditor may read every receipt.
    """
    return conditional.respond(receipts.read(database, signing, principal, session_id), if_none_match)
