"""Jobs, for analysts; their releases."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.calculation.dependencies import pool
from app.calculation.pool import Pool
from app.http import conditional
from app.http.body import json_body
from app.http.callers import while_connected
from app.http.conditional import IfNoneMatch
from app.http.errors import responses
from app.http.lists import Paging, paging
from app.http.location import Locate
from app.http.queries import strict_router
from app.http.work import in_turn
from app.identity.dependencies import Principal, database, require, settings
from app.jobs import events, service
from app.jobs.changes import Changes
from app.jobs.queue import Limits
from app.jobs.wanted import Wanted
from app.persistence.session import Database, new_id
from app.quotes import routes as quotes
from app.quotes.service import price
from app.settings import Settings
from app.wire import AnyRequest, EvaluationBody, EvaluationRequest, Job, Requested, StatisticRequest, TuningRequest
from purse.wire.base import Identifier, Page
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.jobs import JobEvent
from purse.wire.models import Model
from purse.wire.profiles import DatasetProfile
from purse.wire.receipts import ReceiptDocument
from purse.wire.statistics import ReleasedStatistic

_LOG = logging.getLogger("purse.jobs")
STREAMS_EACH = 8  # open at once, of one caller
router = strict_router(prefix="/v1", tags=["jobs"])


class Waker(Protocol):
    """Whoever runs the jobs."""

    def wake(self) -> None:
        """Look at the queue now."""
        ...


async def waker(request: Request) -> Waker:
    """The service's dispatcher."""
    found: Waker = request.app.state.services.dispatcher
    return found


async def changes(request: Request) -> Changes:
    """The service's."""
    found: Changes = request.app.state.services.changes
    return found


Base = Annotated[Database, Depends(database)]
Analyst = Annotated[Principal, Depends(require("analyst"))]
Reader = Annotated[Principal, Depends(require("analyst", "auditor"))]
Submitter = Annotated[Principal, Depends(require("analyst", scope="submit"))]
Room = Annotated[None, Depends(quotes.room)]
Body = Annotated[AnyRequest, Depends(json_body(AnyRequest))]
StatisticBody = Annotated[StatisticRequest, Depends(json_body(StatisticRequest))]
EvaluationBodies = Annotated[EvaluationBody, Depends(json_body(EvaluationBody))]
TuningBody = Annotated[TuningRequest, Depends(json_body(TuningRequest))]
Key = Annotated[
    str | None,
    Header(
        pattern=r"^[\x21-\x7e]{1,200}$",
        description="Made by the caller before it sends. The same key and body again is the same job.",
    ),
]
REFUSALS = responses(
    *quotes.REFUSALS, "budget_exhausted", "idempotency_conflict", "dataset_frozen", "dataset_damaged", "disk_full"
)


@dataclass(frozen=True, slots=True)
class Sender:
    """Reserves the budget and queues a job, for a caller who stays connected meanwhile."""

    request: Request
    base: Database
    chosen: Settings
    calculations: Pool
    dispatcher: Waker
    locate: Locate

    async def __call__(self, principal: Principal, asked: Requested, idempotency_key: str | None) -> Job:
        """The job, or the one that was submitted before under this key."""
        key = idempotency_key or new_id("key")
        job = await service.known(self.base, principal, key, asked)
        if job is None:
            priced = await while_connected(
                self.request, price(self.base, self.chosen, self.calculations, principal, asked)
            )
            queued = Limits.queued(self.chosen)
            job = await run_in_threadpool(service.submit, self.base, principal, key, priced, queued)
            _LOG.info("job_submitted %s", job.id)
        self.dispatcher.wake()
        self.locate(f"{router.prefix}/jobs/{job.id}")
        return job


async def sender(
    request: Request,
    base: Base,
    chosen: Annotated[Settings, Depends(settings)],
    calculations: Annotated[Pool, Depends(pool)],
    dispatcher: Annotated[Waker, Depends(waker)],
    locate: Locate,
) -> Sender:
    """The service's."""
    return Sender(request, base, chosen, calculations, dispatcher, locate)


Sending = Annotated[Sender, Depends(sender)]


async def _seen(base: Base, principal: Analyst, job_id: Identifier) -> Job:
    """Return a job that the caller may see, looked up before a stream begins."""
    return await in_turn(service.get, base, principal, job_id)


async def place(request: Request, principal: Analyst) -> AsyncIterator[None]:
    """One of the event streams that may be open at once, as long as this one is."""
    with request.app.state.services.streams.taken(principal.id):
        yield


@router.post("/jobs", status_code=202, summary="Submit a job", responses=REFUSALS)
async def submit(send: Sending, principal: Submitter, _room: Room, body: Body, idempotency_key: Key = None) -> Job:
    """Reserves the budget and queues a job, in one transaction; it runs as soon as a worker is free.

    What the job is follows from its body: a model; a statistic, by its method; a tuning, by its `candidates`; or with
    `model` an evaluation of that job's model.
    """
    return await send(principal, body.root, idempotency_key)


@router.post("/statistics", status_code=202, summary="Ask for a statistic", responses=REFUSALS)
async def submit_statistic(
    send: Sending, principal: Submitter, _room: Room, body: StatisticBody, idempotency_key: Key = None
) -> Job:
    """Reserves the budget and queues a job that releases a statistic, or a profile, with noise.

    It is a job as any: its state is at `/v1/jobs/{id}`, and what it released at `/v1/jobs/{id}/statistic`; a profile is
    at `/v1/jobs/{id}/profile`.
    """
    return await send(principal, body, idempotency_key)


@router.post("/models/{job_id}/evaluations", status_code=202, summary="Evaluate a model", responses=REFUSALS)
async def evaluate(
    send: Sending,
    principal: Submitter,
    _room: Room,
    job_id: Identifier,
    body: EvaluationBodies,
    idempotency_key: Key = None,
) -> Job:
    """How well the model that this job released does on the kept-out part of its dataset, whose budget pays for it.

    A job of that part, submitted as any: what it released is at `/v1/jobs/{id}/evaluation`.
    """
    return await send(principal, EvaluationRequest(model=job_id, **dict(body)), idempotency_key)


@router.post("/tunings", status_code=202, summary="Train in several ways, and keep the best", responses=REFUSALS)
async def submit_tuning(
    send: Sending, principal: Submitter, _room: Room, body: TuningBody, idempotency_key: Key = None
) -> Job:
    """Reserves the budget and queues a job that trains each candidate several times and releases the best model.

    One price covers all runs. It is a job as any: its state is at `/v1/jobs/{id}`, and the best model at
    `/v1/jobs/{id}/model`.
    """
    return await send(principal, body, idempotency_key)


@router.get("/jobs", summary="List jobs", responses=responses("invalid_request"))
def listing(
    base: Base,
    principal: Reader,
    asked: Annotated[Paging, Depends(paging())],
    wanted: Annotated[Wanted, Depends()],
) -> Page[Job]:
    """Jobs by the time of their submission: an analyst's own; all of them for stewards and auditors.

    What a job released is not in the list: that is at `/v1/jobs/{id}/model`, `/statistic`, `/evaluation` or `/profile`.
    """
    return service.page(base, principal, asked, wanted)


@router.get("/jobs/{job_id}", summary="Look at a job", responses=responses("not_found"))
def show(job: Annotated[Job, Depends(_seen)]) -> Job:
    """A job's state, and its price as it was charged.

    That a job has ended is told on a public grid of times, 1/4, 1/2, 1, 2, 4, ... seconds from its submission, and not
    before it was predicted to end: how long it really took may depend on the records.
    """
    return job


@router.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    summary="Follow a job",
    responses=responses("not_found", "too_many_requests", "overloaded")
    | {200: {"model": JobEvent, "description": "Events named `job`; the data of each is a JobEvent."}},
)
async def follow(
    base: Base,
    principal: Analyst,
    _place: Annotated[None, Depends(place)],
    job: Annotated[Job, Depends(_seen)],
    heard: Annotated[Changes, Depends(changes)],
    last_event_id: Annotated[
        str | None, Header(max_length=64, description="The last event seen: the stream goes on after it.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events named `job`, each with a JobEvent as data; ends when the job, or the token, is over."""
    async for event in events.follow(base, job.id, events.place(last_event_id), principal, heard):
        yield event


@router.delete(
    "/jobs/{job_id}", summary="Cancel a job", responses=responses("not_found", "already_finished", "disk_full")
)
def cancel(base: Base, principal: Submitter, dispatcher: Annotated[Waker, Depends(waker)], job_id: Identifier) -> Job:
    """Cancels a job: refunded if it had not started; one that has started stays charged, and its worker is stopped."""
    job = service.cancel(base, principal, job_id)
    dispatcher.wake()
    return job


@router.get(
    "/jobs/{job_id}/model",
    response_model=Model,
    summary="The released model",
    responses=responses("not_found", "not_released") | conditional.RESPONSES,
)
def model(base: Base, principal: Analyst, job_id: Identifier, if_none_match: IfNoneMatch = None) -> Response:
    """Canonical JSON; the receipt holds its SHA-256."""
    return conditional.respond(service.model(base, principal, job_id), if_none_match)


@router.get(
    "/jobs/{job_id}/statistic",
    response_model=ReleasedStatistic,
    summary="The released statistic",
    responses=responses("not_found", "not_released") | conditional.RESPONSES,
)
def statistic(base: Base, principal: Analyst, job_id: Identifier, if_none_match: IfNoneMatch = None) -> Response:
    """Canonical JSON; the receipt holds its SHA-256."""
    return conditional.respond(service.statistic(base, principal, job_id), if_none_match)


@router.get(
    "/jobs/{job_id}/evaluation",
    response_model=ReleasedEvaluation,
    summary="The released evaluation",
    responses=responses("not_found", "not_released") | conditional.RESPONSES,
)
def evaluation(base: Base, principal: Analyst, job_id: Identifier, if_none_match: IfNoneMatch = None) -> Response:
    """Canonical JSON; the receipt holds its SHA-256."""
    return conditional.respond(service.evaluation(base, principal, job_id), if_none_match)


@router.get(
    "/jobs/{job_id}/profile",
    response_model=DatasetProfile,
    summary="The released profile",
    responses=responses("not_found", "not_released") | conditional.RESPONSES,
)
def profile(base: Base, principal: Reader, job_id: Identifier, if_none_match: IfNoneMatch = None) -> Response:
    """Canonical JSON; the receipt holds its SHA-256. It is the dataset's: whoever has a grant on that may."""
    return conditional.respond(service.profile(base, principal, job_id), if_none_match)


@router.get(
    "/jobs/{job_id}/receipt",
    response_model=ReceiptDocument,
    summary="The release's receipt",
    responses=responses("not_found", "not_released") | conditional.RESPONSES,
)
def receipt(base: Base, principal: Reader, job_id: Identifier, if_none_match: IfNoneMatch = None) -> Response:
    """What the release cost, signed. An auditor may read every receipt."""
    return conditional.respond(service.receipt(base, principal, job_id), if_none_match)
