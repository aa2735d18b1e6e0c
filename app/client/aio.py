"""The service from asyncio.

    async with AsyncClient("http://127.0.0.1:8000", token="...") as purse:
        job = await purse.jobs.submit(dataset="ds_...", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
        model = await job.result()
        (await job.receipt()).verify()

The names and promises are those of `app.client.client`, awaited.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar, final

import httpx
from numpy.typing import NDArray

from app.client import calls, prediction
from app.client.calls import Call, Source, Spec
from app.client.errors import JobNotReleased
from app.client.events import FINISHED, EventStream, as_event
from app.client.progress import Watch, watching
from app.client.receipts import Receipt
from app.client.sending import TIMEOUT, Attempts, checked, opened
from app.wire.base import Page
from app.wire.datasets import BudgetStatus, Dataset
from app.wire.jobs import Job, JobEvent, JobState, Quote
from app.wire.models import Model
from app.wire.receipts import KeySet, LedgerEntry, VerificationReport
from app.wire.tokens import NewToken, Role, Token

T = TypeVar("T")


@final
class AsyncClient:
    """One server and one token; an async context manager. Parameters as for `Client`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport, timeout=timeout)
        self.datasets = AsyncDatasets(self)
        self.jobs = AsyncJobs(self)
        self.tokens = AsyncTokens(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def quote(self, *, dataset: str, target: str, privacy: object, **rest: Any) -> Quote:
        """What a job would cost; touches no data and charges nothing."""
        return await self.send(calls.quote(calls.request(dataset, target, privacy, rest)))

    async def ledger(self, dataset: str) -> list[LedgerEntry]:
        """The dataset's hash chain, from its first entry."""
        return await self.all(lambda cursor: calls.ledger(dataset, cursor))

    async def keys(self) -> KeySet:
        """The server's public keys. Save them: an offline verifier trusts nothing else."""
        return await self.send(calls.keys())

    def predict(self, model: Model, rows: Sequence[Mapping[str, object]]) -> NDArray[Any]:
        """Predictions, computed here; the model's link says of what: probabilities, classes, numbers."""
        return prediction.predict(model, rows)

    async def verify(self, receipt: Receipt) -> VerificationReport:
        """What the server finds: signature, spend, and whether its ledger holds the release."""
        return await self.send(calls.verify(receipt.document))

    async def ready(self) -> None:
        """Returns if the server takes jobs now; `ProblemError` not_ready if it does not yet."""
        await self.send(calls.ready())

    async def send(self, call: Call[T]) -> T:
        """The answer to one call; a lost connection is tried again where that cannot do anything twice."""
        attempts = Attempts(call)
        while True:
            try:
                with opened(call) as request:
                    return checked(call, await self._http.request(call.method, call.path, **request))
            except httpx.TransportError as error:
                await asyncio.sleep(attempts.failed(error))

    async def all(self, page: Callable[[str | None], Call[Page[T]]]) -> list[T]:
        """Every entry of a list, page by page."""
        items: list[T] = []
        cursor: str | None = None
        while True:
            found = await self.send(page(cursor))
            items += found.items
            cursor = found.next
            if cursor is None:
                return items

    async def follow(self, stream: EventStream) -> AsyncIterator[JobEvent]:
        """A job's events until it is finished, through lost connections."""
        while True:
            call = stream.call()
            try:
                async with self._http.stream(
                    call.method, call.path, headers=dict(call.headers), timeout=stream.read_timeout()
                ) as response:
                    if response.is_error:
                        await response.aread()
                        checked(call, response)
                    async for line in response.aiter_lines():
                        event = stream.feed(line)
                        if event is not None:
                            yield event
                            if event.state in FINISHED:
                                return
            except httpx.TransportError:
                pass
            await asyncio.sleep(stream.lost())


@final
@dataclass(frozen=True, slots=True)
class AsyncDatasets:
    """Datasets and their budgets."""

    client: AsyncClient

    async def upload(self, file: Source, *, spec: Spec) -> Dataset:
        """Registers a CSV or Parquet file under the declaration `spec`; the file is streamed."""
        return await self.client.send(calls.upload(file, spec))

    async def list(self) -> Sequence[Dataset]:
        """Every dataset's public metadata."""
        return await self.client.all(calls.datasets)

    async def get(self, dataset: str) -> Dataset:
        """One dataset's public metadata."""
        return await self.client.send(calls.dataset(dataset))

    async def budget(self, dataset: str) -> BudgetStatus:
        """What is spent and what remains."""
        return await self.client.send(calls.budget(dataset))


@final
@dataclass(frozen=True, slots=True)
class AsyncJobs:
    """Jobs: submitting them, and finding them again."""

    client: AsyncClient

    async def submit(
        self, *, dataset: str, target: str, privacy: object, idempotency_key: str | None = None, **rest: Any
    ) -> "AsyncJobHandle":
        """Charges the budget and queues the job; see `Jobs.submit`."""
        request = calls.request(dataset, target, privacy, rest)
        return AsyncJobHandle(self.client, await self.client.send(calls.submit(request, idempotency_key)))

    async def get(self, job: str) -> "AsyncJobHandle":
        """A job by its id, after a restart too."""
        return AsyncJobHandle(self.client, await self.client.send(calls.job(job)))

    async def list(self) -> Sequence[Job]:
        """The jobs that this token may see."""
        return await self.client.all(calls.jobs)

    async def model(self, job: str) -> Model:
        """The model that a job released."""
        return await self.client.send(calls.model(job))

    async def receipt(self, job: str) -> Receipt:
        """A job's signed receipt, and the keys that the server publishes now; for auditors too."""
        return Receipt(await self.client.send(calls.receipt(job)), await self.client.keys())


@final
@dataclass(slots=True)
class AsyncJobHandle:
    """One job; `job` is what the server said last."""

    client: AsyncClient
    job: Job

    @property
    def id(self) -> str:
        """The job's identifier."""
        return self.job.id

    @property
    def state(self) -> JobState:
        """The state as of the last answer."""
        return self.job.state

    async def refresh(self) -> Job:
        """The job as it is now."""
        self.job = await self.client.send(calls.job(self.id))
        return self.job

    def events(self, timeout: float | None = None) -> AsyncIterator[JobEvent]:
        """Every change of state and progress until the end."""
        return self.client.follow(EventStream(self.id, timeout))

    async def result(self, timeout: float | None = None, progress: bool | Watch | None = None) -> Model:
        """The model, when the job is done; see `JobHandle.result`."""
        with watching(self.job.quote.method.name, progress) as watch:
            if self.state not in FINISHED:
                async for event in self.events(timeout):
                    watch(event)
                await self.refresh()
            else:
                watch(as_event(self.job))
        if self.state != "done":
            raise JobNotReleased(self.id, self.state, self.job.error)
        return await self.model()

    async def model(self) -> Model:
        """The released model."""
        return await self.client.jobs.model(self.id)

    async def receipt(self) -> Receipt:
        """The signed receipt, and the keys that the server publishes now."""
        return await self.client.jobs.receipt(self.id)

    async def cancel(self) -> Job:
        """Cancels; refunds only if the job has not started."""
        self.job = await self.client.send(calls.cancel(self.id))
        return self.job


@final
@dataclass(frozen=True, slots=True)
class AsyncTokens:
    """Bearer tokens, for stewards."""

    client: AsyncClient

    async def create(self, name: str, role: Role) -> NewToken:
        """A new token; its secret is shown this once."""
        return await self.client.send(calls.create_token(name, role))

    async def list(self) -> Sequence[Token]:
        """Every live token, without its secret."""
        return await self.client.all(calls.tokens)

    async def revoke(self, token: str) -> None:
        """Makes a token invalid, for good."""
        await self.client.send(calls.revoke_token(token))


__all__ = ["AsyncClient", "AsyncJobHandle"]
