"""The service from Python.

    with Client("http://127.0.0.1:8000", token="...") as purse:
        job = purse.jobs.submit(dataset="ds_...", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
        model = job.result()
        job.receipt().verify()

A lost connection is tried again where that cannot do anything twice.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
class Client:
    """One server and one token; a context manager.

    Parameters
    ----------
    url : the server's address
    token : the bearer secret; without one, only what is public
    transport : httpx's, to reach the service without a network
    timeout : seconds of silence after which a request is given up; an upload may take longer
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, transport=transport, timeout=timeout)
        self.datasets = Datasets(self)
        self.jobs = Jobs(self)
        self.tokens = Tokens(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def quote(self, *, dataset: str, target: str, privacy: object, **rest: Any) -> Quote:
        """What a job would cost; touches no data and charges nothing."""
        return self.send(calls.quote(calls.request(dataset, target, privacy, rest)))

    def ledger(self, dataset: str) -> list[LedgerEntry]:
        """The dataset's hash chain, from its first entry."""
        return self.all(lambda cursor: calls.ledger(dataset, cursor))

    def keys(self) -> KeySet:
        """The server's public keys. Save them: an offline verifier trusts nothing else."""
        return self.send(calls.keys())

    def predict(self, model: Model, rows: Sequence[Mapping[str, object]]) -> NDArray[Any]:
        """Predictions, computed here; the model's link says of what: probabilities, classes, numbers."""
        return prediction.predict(model, rows)

    def verify(self, receipt: Receipt) -> VerificationReport:
        """What the server finds: signature, spend, and whether its ledger holds the release."""
        return self.send(calls.verify(receipt.document))

    def ready(self) -> None:
        """Returns if the server takes jobs now; `ProblemError` not_ready if it does not yet."""
        self.send(calls.ready())

    def send(self, call: Call[T]) -> T:
        """The answer to one call; a lost connection is tried again where that cannot do anything twice."""
        attempts = Attempts(call)
        while True:
            try:
                with opened(call) as request:
                    return checked(call, self._http.request(call.method, call.path, **request))
            except httpx.TransportError as error:
                time.sleep(attempts.failed(error))

    def all(self, page: Callable[[str | None], Call[Page[T]]]) -> list[T]:
        """Every entry of a list, page by page."""
        items: list[T] = []
        cursor: str | None = None
        while True:
            found = self.send(page(cursor))
            items += found.items
            cursor = found.next
            if cursor is None:
                return items

    def follow(self, stream: EventStream) -> Iterator[JobEvent]:
        """A job's events until it is finished, through lost connections."""
        while True:
            call = stream.call()
            try:
                with self._http.stream(
                    call.method, call.path, headers=dict(call.headers), timeout=stream.read_timeout()
                ) as response:
                    if response.is_error:
                        response.read()
                        checked(call, response)
                    for line in response.iter_lines():
                        event = stream.feed(line)
                        if event is not None:
                            yield event
                            if event.state in FINISHED:
                                return
            except httpx.TransportError:
                pass
            time.sleep(stream.lost())


@final
@dataclass(frozen=True, slots=True)
class Datasets:
    """Datasets and their budgets."""

    client: Client

    def upload(self, file: Source, *, spec: Spec) -> Dataset:
        """Registers a CSV or Parquet file under the declaration `spec`; the file is streamed."""
        return self.client.send(calls.upload(file, spec))

    def list(self) -> Sequence[Dataset]:
        """Every dataset's public metadata."""
        return self.client.all(calls.datasets)

    def get(self, dataset: str) -> Dataset:
        """One dataset's public metadata."""
        return self.client.send(calls.dataset(dataset))

    def budget(self, dataset: str) -> BudgetStatus:
        """What is spent and what remains."""
        return self.client.send(calls.budget(dataset))


@final
@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs: submitting them, and finding them again."""

    client: Client

    def submit(
        self, *, dataset: str, target: str, privacy: object, idempotency_key: str | None = None, **rest: Any
    ) -> "JobHandle":
        """Charges the budget and queues the job.

        Parameters
        ----------
        dataset, target, privacy, rest : the job request; what is left out has defaults
        idempotency_key : yours, if you keep it; else one is made before anything is sent

        Raises
        ------
        ProblemError
            budget_exhausted, with what `remaining` would admit; and others.
        """
        request = calls.request(dataset, target, privacy, rest)
        return JobHandle(self.client, self.client.send(calls.submit(request, idempotency_key)))

    def get(self, job: str) -> "JobHandle":
        """A job by its id, after a restart too."""
        return JobHandle(self.client, self.client.send(calls.job(job)))

    def list(self) -> Sequence[Job]:
        """The jobs that this token may see."""
        return self.client.all(calls.jobs)

    def model(self, job: str) -> Model:
        """The model that a job released."""
        return self.client.send(calls.model(job))

    def receipt(self, job: str) -> Receipt:
        """A job's signed receipt, and the keys that the server publishes now; for auditors too."""
        return Receipt(self.client.send(calls.receipt(job)), self.client.keys())


@final
@dataclass(slots=True)
class JobHandle:
    """One job; `job` is what the server said last."""

    client: Client
    job: Job

    @property
    def id(self) -> str:
        """The job's identifier."""
        return self.job.id

    @property
    def state(self) -> JobState:
        """The state as of the last answer."""
        return self.job.state

    def refresh(self) -> Job:
        """The job as it is now."""
        self.job = self.client.send(calls.job(self.id))
        return self.job

    def events(self, timeout: float | None = None) -> Iterator[JobEvent]:
        """Every change of state and progress until the end."""
        return self.client.follow(EventStream(self.id, timeout))

    def result(self, timeout: float | None = None, progress: bool | Watch | None = None) -> Model:
        """The model, when the job is done.

        Parameters
        ----------
        timeout : seconds to wait; None for as long as it takes
        progress : a function of each event; True or False for a bar or none; None for a bar on a terminal

        Raises
        ------
        JobNotReleased
            if the job failed or was cancelled.
        TimeoutError
            if it takes longer; the job goes on.
        """
        with watching(self.job.quote.method.name, progress) as watch:
            if self.state not in FINISHED:
                for event in self.events(timeout):
                    watch(event)
                self.refresh()
            else:
                watch(as_event(self.job))
        if self.state != "done":
            raise JobNotReleased(self.id, self.state, self.job.error)
        return self.model()

    def model(self) -> Model:
        """The released model."""
        return self.client.jobs.model(self.id)

    def receipt(self) -> Receipt:
        """The signed receipt, and the keys that the server publishes now."""
        return self.client.jobs.receipt(self.id)

    def cancel(self) -> Job:
        """Cancels; refunds only if the job has not started."""
        self.job = self.client.send(calls.cancel(self.id))
        return self.job


@final
@dataclass(frozen=True, slots=True)
class Tokens:
    """Bearer tokens, for stewards."""

    client: Client

    def create(self, name: str, role: Role) -> NewToken:
        """A new token; its secret is shown this once."""
        return self.client.send(calls.create_token(name, role))

    def list(self) -> Sequence[Token]:
        """Every live token, without its secret."""
        return self.client.all(calls.tokens)

    def revoke(self, token: str) -> None:
        """Makes a token invalid, for good."""
        self.client.send(calls.revoke_token(token))


__all__ = ["Client", "JobHandle"]
