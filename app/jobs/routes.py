"""Routes of jobs and of their releases, for analysts."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from app.http import conditional
from app.http.body import JsonBody
from app.http.conditional import IfNoneMatch
from app.http.dependencies import Locate, ServicePart, while_connected
from app.http.errors import responses
from app.http.idempotency import Key
from app.http.lists import Paging, paging_parameters
from app.http.queries import strict_router
from app.http.work import in_turn
from app.identity.dependencies import Analyst, Capacity, Principal, Reader, Require, ServiceDatabase, Submitter, require
from app.jobs import events, service
from app.jobs.changes import Changes
from app.jobs.filters import JobFilters
from app.jobs.queue import QueueLimits
from app.jobs.service import Release
from app.persistence.session import Database, new_id
from app.quotes import routes as quotes
from app.quotes.service import price
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
    """The part of the service that starts queued jobs."""

    def wake(self) -> None:
        """Look at the queue now."""


Dispatcher = Annotated[Waker, Depends(ServicePart("dispatcher"))]
REFUSALS = responses(*quotes.REFUSALS, "budget_exhausted", "idempotency_conflict", "dataset_frozen", "disk_full")


@dataclass(frozen=True, slots=True)
class Submission:
    """One request to submit a job, by a caller who stays connected until the job is queued."""

    request: Request
    principal: Principal
    locate: Locate
    key: str

    async def __call__(self, requested: Requested) -> Job:
        """Reserve the budget and queue the job. Return it, or the job that this key submitted before."""
        services = self.request.app.state.services
        database: Database = services.database
        job = await service.submitted(database, self.principal, self.key, requested)
        if job is None:
            pricing = price(database, services.settings, services.pool, self.principal, requested)
            priced = await while_connected(self.request, pricing)
            limits = QueueLimits.queued(services.settings)
            job = await run_in_threadpool(service.submit, database, self.principal, self.key, priced, limits)
            _LOG.info("job_submitted %s", job.id)
        services.dispatcher.wake()
        self.locate(f"{router.prefix}/jobs/{job.id}")
        return job


async def submission(
    request: Request,
    principal: Submitter,
    _capacity: Capacity,
    locate: Locate,
    idempotency_key: Key = None,
) -> Submission:
    """Return the submission that a request makes. Its caller is checked before the body is read."""
    return Submission(request, principal, locate, idempotency_key or new_id("key"))


Submit = Annotated[Submission, Depends(submission)]


async def _visible(database: ServiceDatabase, principal: Analyst, job_id: Identifier) -> Job:
    """Return a job that the caller may see. It is looked up before a stream begins."""
    return await in_turn(service.get, database, principal, job_id)


async def stream_slot(request: Request, principal: Analyst) -> AsyncIterator[None]:
    """Hold one of the event streams that a caller may have open at once, while this stream is open."""
    with request.app.state.services.streams.slot(principal.id):
        yield


@router.post("/jobs", status_code=202, summary="Submit a job", responses=REFUSALS)
async def submit(submit: Submit, body: Annotated[AnyRequest, Depends(JsonBody(AnyRequest))]) -> Job:
    """Reserves the budget and queues a job, in one transaction; it runs as soon as a worker is free.

    The body decides what the job releases: a model; a statistic, by its method; a tuning, by its `candidates`; or, with
    `model`, an evaluation of that job's model.
    """
    return await submit(body.root)


@router.post("/statistics", status_code=202, summary="Submit a statistic", responses=REFUSALS)
async def submit_statistic(
    submit: Submit, body: Annotated[StatisticRequest, Depends(JsonBody(StatisticRequest))]
) -> Job:
    """Reserves the budget and queues a job that releases a statistic, or a profile, with noise.

    Its state is at `/v1/jobs/{id}`, and its release at `/v1/jobs/{id}/statistic` or, of a profile, at
    `/v1/jobs/{id}/profile`.
    """
    return await submit(body)


@router.post("/models/{job_id}/evaluations", status_code=202, summary="Evaluate a model", responses=REFUSALS)
async def evaluate(
    submit: Submit, job_id: Identifier, body: Annotated[EvaluationBody, Depends(JsonBody(EvaluationBody))]
) -> Job:
    """Reserves the budget and queues a job that scores the model of this job on the holdout set of its dataset.

    The job uses the budget of the holdout set. The release is at `/v1/jobs/{id}/evaluation`.
    """
    return await submit(EvaluationRequest(model=job_id, **dict(body)))


@router.post("/tunings", status_code=202, summary="Submit a tuning", responses=REFUSALS)
async def submit_tuning(submit: Submit, body: Annotated[TuningRequest, Depends(JsonBody(TuningRequest))]) -> Job:
    """Reserves the budget and queues a job that trains each candidate several times and releases the best model.

    One price covers all runs. The state is at `/v1/jobs/{id}`, and the best model at `/v1/jobs/{id}/model`.
    """
    return await submit(body)


@router.get("/jobs", summary="List jobs")
def listing(
    database: ServiceDatabase,
    principal: Reader,
    paging: Annotated[Paging, Depends(paging_parameters())],
    filters: Annotated[JobFilters, Depends()],
) -> Page[Job]:
    """Returns jobs by the time of their submission. Analysts get their own. Stewards and auditors get all.

    Releases are not in the list: read them at `/v1/jobs/{id}/model`, `/statistic`, `/evaluation` or `/profile`.
    """
    return service.page(database, principal, paging, filters)


@router.get("/jobs/{job_id}", summary="Read a job")
def show(job: Annotated[Job, Depends(_visible)]) -> Job:
    """Returns a job's state, and its price as it was charged.

    The end of a job is reported at a point of a public grid of times, 1/4, 1/2, 1, 2, 4, ... seconds from its
    submission, and not before its predicted end: the time that it really took may depend on the records.
    """
    return job


@router.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    summary="Follow a job",
    responses={200: {"model": JobEvent, "description": "Events named `job`. The data of each is a JobEvent."}},
)
async def follow(
    database: ServiceDatabase,
    principal: Analyst,
    _slot: Annotated[None, Depends(stream_slot)],
    job: Annotated[Job, Depends(_visible)],
    announced: Annotated[Changes, Depends(ServicePart("changes"))],
    last_event_id: Annotated[
        str | None, Header(max_length=64, description="The last event seen. The stream continues after it.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events named `job`, each with a JobEvent as data. The stream ends with the job, or with the token."""
    async for event in events.follow(database, job.id, events.position(last_event_id), principal, announced):
        yield event


@router.delete("/jobs/{job_id}", summary="Cancel a job", responses=responses("already_finished"))
def cancel(database: ServiceDatabase, principal: Submitter, dispatcher: Dispatcher, job_id: Identifier) -> Job:
    """Cancels a job. The charge is refunded only if the job had not started. A started job's worker is stopped."""
    job = service.cancel(database, principal, job_id)
    dispatcher.wake()
    return job


def _release(name: Release, document: type[BaseModel], readers: Require, about: str = "") -> None:
    """Add the route that returns one document of a job's release, as canonical JSON."""

    def read(
        database: ServiceDatabase,
        principal: Annotated[Principal, Depends(readers)],
        job_id: Identifier,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        return conditional.respond(service.released(database, principal, job_id, name), if_none_match)

    router.add_api_route(
        f"/jobs/{{job_id}}/{name}",
        read,
        response_model=document,
        summary="Read a receipt" if name == "receipt" else f"Read a released {name}",
        description=about or "Canonical JSON. The receipt holds its SHA-256.",
        responses=responses("not_found", "not_released") | conditional.RESPONSES,
    )


_release("model", Model, require("analyst"))
_release("statistic", ReleasedStatistic, require("analyst"))
_release("evaluation", ReleasedEvaluation, require("analyst"))
_release(
    "profile",
    DatasetProfile,
    require("analyst", "auditor"),
    "Canonical JSON. The receipt holds its SHA-256. Everybody with a grant on the dataset may read its profiles.",
)
_release(
    "receipt",
    ReceiptDocument,
    require("analyst", "auditor"),
    "Returns the signed statement of what the release cost. An auditor may read every receipt.",
)
