"""The service from Python.

    with Client("http://127.0.0.1:8000", token="...") as purse:
        job = purse.jobs.submit(dataset="people", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
        model = job.result()
        job.receipt().verify()

Every method has the name, parameters and guarantees of its counterpart in `purse.client.aio`, `.datasets`, `.jobs` and
`.sessions`.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, final

import httpx

from purse.client.aio import AsyncClient, AsyncTokens, AsyncWebhooks, http_settings
from purse.client.datasets import AsyncDatasets
from purse.client.jobs import AsyncJobHandle, AsyncJobs
from purse.client.requests import EvaluationOptions, check_arguments, completed, explicit_signature
from purse.client.sending import TIMEOUT, Blocking, each, run
from purse.client.sessions import AsyncSessionHandle, AsyncSessions
from purse.client.statistics import AsyncStatistics
from purse.wire.jobs import Job, JobEvent, JobState
from purse.wire.sessions import PlannedEvent, Session, SessionState

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)


class _Face(Generic[A_co]):
    """A blocking object that holds its asynchronous counterpart."""

    def __init__(self, awaited: A_co) -> None:
        self._awaited = awaited


def _blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]], convert: Callable[[T], R], returns: object
) -> Callable[Concatenate[_Face[A], P], R]:
    """Return the method as one that blocks and converts its result. Errors name the blocking class."""
    expected = explicit_signature(method)
    name = method.__qualname__.removeprefix("Async")

    @wraps(method)
    def call(self: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        check_arguments(name, expected, self, *args, **kwargs)
        return convert(run(method(self._awaited, *args, **kwargs)))

    call.__signature__ = expected.replace(return_annotation=returns)  # type: ignore[attr-defined]
    call.__qualname__ = name
    return call


def _run(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Face[A], P], T]:
    """Return the method as one that blocks."""
    return _blocking(method, lambda result: result, explicit_signature(method).return_annotation)


def _handle(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]], handle: Callable[[T], R]
) -> Callable[Concatenate[_Face[A], P], R]:
    """Return the method as one that blocks and returns a handle of this class."""
    return _blocking(method, handle, handle)


@final
class JobHandle(_Face[AsyncJobHandle]):
    """One job; `job` is its state as of the server's last response."""

    def __repr__(self) -> str:
        return repr(self._awaited)

    @property
    def job(self) -> Job:
        """The job as of the last response."""
        return self._awaited.job

    @property
    def id(self) -> str:
        """The job's id."""
        return self._awaited.id

    @property
    def state(self) -> JobState:
        """The state as of the last response."""
        return self._awaited.state

    def events(self, timeout: float | None = None) -> Iterator[JobEvent]:
        """Yield every change of state and progress until the job is finished."""
        return each(self._awaited.events(timeout))

    @completed
    def evaluate(self, *, privacy: object, **options: Unpack[EvaluationOptions]) -> "JobHandle":
        """Submit an evaluation of this job's model on the holdout set: see `Jobs.evaluate`."""
        return JobHandle(run(self._awaited.evaluate(privacy=privacy, **options)))

    refresh = _run(AsyncJobHandle.refresh)
    result = _run(AsyncJobHandle.result)
    profile = _run(AsyncJobHandle.profile)
    statistic = _run(AsyncJobHandle.statistic)
    evaluation = _run(AsyncJobHandle.evaluation)
    wait = _run(AsyncJobHandle.wait)
    model = _run(AsyncJobHandle.model)
    receipt = _run(AsyncJobHandle.receipt)
    cancel = _run(AsyncJobHandle.cancel)


@final
class SessionHandle(_Face[AsyncSessionHandle]):
    """One session; `session` is its state as of the server's last response. A context manager that closes it.

    After an exception inside the block the session stays open, because the exception may depend on the data.
    """

    def __repr__(self) -> str:
        return repr(self._awaited)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self._awaited.__aexit__(kind, error, trace))

    @property
    def session(self) -> Session:
        """The session as of the last response."""
        return self._awaited.session

    @property
    def id(self) -> str:
        """The session's id."""
        return self._awaited.id

    @property
    def state(self) -> SessionState:
        """The state as of the last response."""
        return self._awaited.state

    @property
    def noise_multiplier(self) -> float | None:
        """Noise std over the largest contribution of one record; None if the session was opened for events."""
        return self._awaited.noise_multiplier

    @property
    def plan(self) -> Sequence[PlannedEvent]:
        """The planned answers, with the number of those that were recorded."""
        return self._awaited.plan

    record = _run(AsyncSessionHandle.record)
    close = _run(AsyncSessionHandle.close)
    refresh = _run(AsyncSessionHandle.refresh)
    receipt = _run(AsyncSessionHandle.receipt)


@final
class Datasets(_Face[AsyncDatasets]):
    """Datasets and their budgets."""

    upload = _run(AsyncDatasets.upload)
    import_file = _run(AsyncDatasets.import_file)
    declare = _run(AsyncDatasets.declare)
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
class Jobs(_Face[AsyncJobs]):
    """Jobs of a server."""

    submit = _handle(AsyncJobs.submit, JobHandle)
    tune = _handle(AsyncJobs.tune, JobHandle)
    get = _handle(AsyncJobs.get, JobHandle)
    list = _run(AsyncJobs.list)
    model = _run(AsyncJobs.model)
    profile = _run(AsyncJobs.profile)
    statistic = _run(AsyncJobs.statistic)
    evaluate = _handle(AsyncJobs.evaluate, JobHandle)
    evaluation = _run(AsyncJobs.evaluation)
    receipt = _run(AsyncJobs.receipt)


@final
class Sessions(_Face[AsyncSessions]):
    """Sessions of a server."""

    open = _handle(AsyncSessions.open, SessionHandle)
    get = _handle(AsyncSessions.get, SessionHandle)
    list = _run(AsyncSessions.list)


@final
class Statistics(_Face[AsyncStatistics]):
    """Statistics of a server's datasets."""

    table1 = _handle(AsyncStatistics.table1, JobHandle)


@final
class Tokens(_Face[AsyncTokens]):
    """Bearer tokens, for stewards."""

    create = _run(AsyncTokens.create)
    rotate = _run(AsyncTokens.rotate)
    list = _run(AsyncTokens.list)
    revoke = _run(AsyncTokens.revoke)


@final
class Webhooks(_Face[AsyncWebhooks]):
    """Addresses that receive a message when a job finishes."""

    create = _run(AsyncWebhooks.create)
    list = _run(AsyncWebhooks.list)
    get = _run(AsyncWebhooks.get)
    delete = _run(AsyncWebhooks.delete)


@final
class Client(_Face[AsyncClient]):
    """A client of one server with one token; a context manager. Several threads may share it.

    Parameters
    ----------
    url : the server's address; if None, PURSE_URL, or else http://127.0.0.1:8000
    token : the bearer token; if both url and token are None, PURSE_TOKEN. Without a token, only public routes work
    transport : a transport of httpx, to reach the service without a network
    timeout : seconds without data after which a request fails; an upload may take longer
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        http = httpx.Client(transport=transport, **http_settings(url, token, timeout))
        super().__init__(AsyncClient(str(http.base_url), driver=Blocking(http)))
        self.datasets = Datasets(self._awaited.datasets)
        self.jobs = Jobs(self._awaited.jobs)
        self.sessions = Sessions(self._awaited.sessions)
        self.statistics = Statistics(self._awaited.statistics)
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
