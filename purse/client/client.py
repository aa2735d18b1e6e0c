"""The service from Python.

    with Client("http://127.0.0.1:8000", token="...") as purse:
        job = purse.jobs.submit(dataset="ds_...", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
        model = job.result()
        job.receipt().verify()

Names, parameters and promises are those of `purse.client.aio`, `.datasets` and `.jobs`, run to their end.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, final

import httpx

from purse.client.aio import AsyncClient, AsyncTokens, AsyncWebhooks, bearer, trusted
from purse.client.datasets import AsyncDatasets
from purse.client.jobs import AsyncJobHandle, AsyncJobs
from purse.client.sending import TIMEOUT, Blocking, each, run
from purse.wire.jobs import Job, JobEvent, JobState

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)


class _Face(Protocol[A_co]):
    @property
    def _awaited(self) -> A_co: ...


def _run(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Face[A], P], T]:
    """The method, run to its end."""

    @wraps(method)
    def call(self: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._awaited, *args, **kwargs))

    return call


@final
@dataclass(frozen=True, slots=True)
class JobHandle:
    """One job; `job` is what the server said last."""

    _awaited: AsyncJobHandle

    def __repr__(self) -> str:
        return repr(self._awaited)

    @property
    def job(self) -> Job:
        """The job as of the last answer."""
        return self._awaited.job

    @property
    def id(self) -> str:
        """The job's identifier."""
        return self._awaited.id

    @property
    def state(self) -> JobState:
        """The state as of the last answer."""
        return self._awaited.state

    def events(self, timeout: float | None = None) -> Iterator[JobEvent]:
        """Every change of state and progress until the end."""
        return each(self._awaited.events(timeout))

    def evaluate(self, *, privacy: object, **rest: Any) -> "JobHandle":
        """A job for how well this job's model does on what was kept out of its dataset: see `AsyncJobs.evaluate`."""
        return JobHandle(run(self._awaited.evaluate(privacy=privacy, **rest)))

    refresh = _run(AsyncJobHandle.refresh)
    result = _run(AsyncJobHandle.result)
    profile = _run(AsyncJobHandle.profile)
    statistic = _run(AsyncJobHandle.statistic)
    evaluation = _run(AsyncJobHandle.evaluation)
    wait = _run(AsyncJobHandle.wait)
    model = _run(AsyncJobHandle.model)
    receipt = _run(AsyncJobHandle.receipt)
    cancel = _run(AsyncJobHandle.cancel)


def _handle(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, AsyncJobHandle]],
) -> Callable[Concatenate[_Face[A], P], JobHandle]:
    @wraps(method)
    def call(self: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        return JobHandle(run(method(self._awaited, *args, **kwargs)))

    call.__signature__ = signature(method).replace(return_annotation=JobHandle)  # type: ignore[attr-defined]
    return call


@final
@dataclass(frozen=True, slots=True)
class Datasets:
    """Datasets and their budgets."""

    _awaited: AsyncDatasets

    upload = _run(AsyncDatasets.upload)
    list = _run(AsyncDatasets.list)
    get = _run(AsyncDatasets.get)
    budget = _run(AsyncDatasets.budget)
    twin = _run(AsyncDatasets.twin)
    attach_sample = _run(AsyncDatasets.attach_sample)
    sample = _run(AsyncDatasets.sample)
    delete_sample = _run(AsyncDatasets.delete_sample)
    grant = _run(AsyncDatasets.grant)
    grants = _run(AsyncDatasets.grants)
    allot = _run(AsyncDatasets.allot)
    allotments = _run(AsyncDatasets.allotments)
    deallot = _run(AsyncDatasets.deallot)
    revoke = _run(AsyncDatasets.revoke)
    charge = _run(AsyncDatasets.charge)
    amend = _run(AsyncDatasets.amend)
    erase = _run(AsyncDatasets.erase)


@final
@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs: submitting them, and finding them again."""

    _awaited: AsyncJobs

    submit = _handle(AsyncJobs.submit)
    tune = _handle(AsyncJobs.tune)
    get = _handle(AsyncJobs.get)
    list = _run(AsyncJobs.list)
    model = _run(AsyncJobs.model)
    profile = _run(AsyncJobs.profile)
    statistic = _run(AsyncJobs.statistic)
    evaluate = _handle(AsyncJobs.evaluate)
    evaluation = _run(AsyncJobs.evaluation)
    receipt = _run(AsyncJobs.receipt)


@final
@dataclass(frozen=True, slots=True)
class Tokens:
    """Bearer tokens, for stewards."""

    _awaited: AsyncTokens

    create = _run(AsyncTokens.create)
    rotate = _run(AsyncTokens.rotate)
    list = _run(AsyncTokens.list)
    revoke = _run(AsyncTokens.revoke)


@final
@dataclass(frozen=True, slots=True)
class Webhooks:
    """Where to be told that a job is over."""

    _awaited: AsyncWebhooks

    create = _run(AsyncWebhooks.create)
    list = _run(AsyncWebhooks.list)
    get = _run(AsyncWebhooks.get)
    delete = _run(AsyncWebhooks.delete)


@final
class Client:
    """One server and one token; a context manager. May be used from several threads, and beside a running event loop.

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
        http = httpx.Client(
            base_url=url, headers=bearer(token), transport=transport, timeout=timeout, verify=trusted(url)
        )
        self._awaited = AsyncClient(url, driver=Blocking(http))
        self.datasets = Datasets(self._awaited.datasets)
        self.jobs = Jobs(self._awaited.jobs)
        self.tokens = Tokens(self._awaited.tokens)
        self.webhooks = Webhooks(self._awaited.webhooks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    close = _run(AsyncClient.close)
    quote = _run(AsyncClient.quote)
    forecast = _run(AsyncClient.forecast)
    calibrate = _run(AsyncClient.calibrate)
    ledger = _run(AsyncClient.ledger)
    ledger_head = _run(AsyncClient.ledger_head)
    keys = _run(AsyncClient.keys)
    verify = _run(AsyncClient.verify)
    metrics = _run(AsyncClient.metrics)
    ready = _run(AsyncClient.ready)
    predict = staticmethod(AsyncClient.predict)
