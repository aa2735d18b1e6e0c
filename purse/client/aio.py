"""The service from asyncio.

async with AsyncClient("http://127.0.0.1:8000", token="...") as purse:
    job = await purse.jobs.submit(dataset="people", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
    model = await job.result()
    (await job.receipt()).verify()
"""

import os
import ssl
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, final

import httpx

from purse.client.calls import Call, act, api_path, dataset_path, delete, get, ignore, post
from purse.client.datasets import AsyncDatasets
from purse.client.jobs import AsyncJobs
from purse.client.requests import (
    CalibrationOptions,
    ForecastOptions,
    QuoteOptions,
    completed,
    job_request,
    privacy_of,
    without_none,
)
from purse.client.sending import TIMEOUT, CallGroup, Driver, Sender, Waiting
from purse.client.sessions import AsyncSessions
from purse.client.statistics import AsyncStatistics
from purse.errors import ProblemError
from purse.model import Model
from purse.receipts import Receipt
from purse.results import Forecast
from purse.wire.base import Order, Page
from purse.wire.datasets import Dataset
from purse.wire.forecasts import EPSILONS
from purse.wire.jobs import Quote
from purse.wire.outside import Calibration
from purse.wire.receipts import KeySet, LedgerEntry, LedgerHead, VerificationReport
from purse.wire.tokens import NewToken, Role, Scope, Token
from purse.wire.webhooks import Webhook

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from purse.frames import Rows

DEFAULT_URL: Final = "http://127.0.0.1:8000"
_FORECAST_SECONDS: Final = 600.0  # without data: a forecast may wait for other ones, and then take a minute


@final
class AsyncClient:
    """A client of one server with one token; an async context manager.

    Parameters
    ----------
    url : the server's address; if None, PURSE_URL, or else http://127.0.0.1:8000
    token : the bearer token; if both url and token are None, PURSE_TOKEN. Without a token, only public routes work
    transport : a transport of httpx, to reach the service without a network
    timeout : seconds without data after which a request fails; an upload may take longer
    driver : carries the requests; the other parameters are then not used
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float = TIMEOUT,
        driver: Driver | None = None,
    ) -> None:
        settings = http_settings(url, token, timeout)
        self._sender = Sender(driver or Waiting(httpx.AsyncClient(transport=transport, **settings)))
        self.datasets = AsyncDatasets(self._sender)
        self.jobs = AsyncJobs(self._sender)
        self.sessions = AsyncSessions(self._sender)
        self.statistics = AsyncStatistics(self._sender)
        self.tokens = AsyncTokens(self._sender)
        self.webhooks = AsyncWebhooks(self._sender)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.driver.close()

    @completed
    async def quote(
        self,
        /,
        *,
        dataset: Dataset | str | None = None,
        target: str | None = None,
        privacy: object,
        **options: Unpack[QuoteOptions],
    ) -> Quote:
        """Return the price of a job. Reads no data and charges nothing.

        With `model` in place of a dataset, return the price of an evaluation of that model.
        """
        if dataset is None:
            request = {"privacy": privacy_of(privacy), **options}
        else:
            request = job_request(dataset, target, privacy, options)
        return await self._sender.send(post(api_path("quotes"), request, Quote, repeatable=True))

    @completed
    async def forecast(
        self,
        /,
        *,
        dataset: Dataset | str,
        target: str,
        epsilons: Sequence[float] | None = None,
        delta: float | None = None,
        **options: Unpack[ForecastOptions],
    ) -> Forecast:
        """Return the expected accuracy at each epsilon, from many runs of the job on a public twin. Reads no data.

        If all epsilons together exceed the work limit of one request, each epsilon gets a request of its own.

        Parameters
        ----------
        epsilons : the epsilons to try; six from 0.1 to 4 if None
        options : other fields of the job, as for `quote`. Also `source`, `signal`, `runs`, `twin` and `wanted`
        """
        privacy = without_none(epsilons=None if epsilons is None else list(epsilons), delta=delta)
        request = job_request(dataset, target, privacy, options)
        try:
            return await self._forecast(request)
        except ProblemError as error:
            each = sorted(set(EPSILONS if epsilons is None else epsilons))
            if error.code != "out_of_range" or error.violations or len(each) < 2:
                raise
        parts = [await self._forecast(request | {"privacy": privacy | {"epsilons": [epsilon]}}) for epsilon in each]
        return Forecast.joined(parts)

    async def _forecast(self, request: object) -> Forecast:
        call = post(api_path("forecasts"), request, Forecast, repeatable=True)
        return await self._sender.send(replace(call, timeout=_FORECAST_SECONDS))

    @completed
    async def calibrate(
        self, /, mechanism: object, *, epsilon: float, **options: Unpack[CalibrationOptions]
    ) -> Calibration:
        """Return the smallest noise for a privacy target. This needs no dataset.

        Parameters
        ----------
        mechanism : such as `{"name": "gaussian"}` or `{"name": "poisson_gaussian", "rate": 0.01}`
        options : `delta`, `count` (number of answers) and `neighbors`
        """
        request = {"mechanism": mechanism, "epsilon": epsilon, **options}
        return await self._sender.send(post(api_path("calibrations"), request, Calibration, repeatable=True))

    async def ledger(
        self, dataset: Dataset | str, *, analyst: str | None = None, kind: str | None = None, order: Order = "asc"
    ) -> list[LedgerEntry]:
        """Return the entries of a dataset's ledger in order: all, or those of one analyst or kind."""
        path = dataset_path(dataset, "ledger")
        return await self._sender.all(path, Page[LedgerEntry], analyst=analyst, kind=kind, order=order)

    async def ledger_head(self, dataset: Dataset | str) -> LedgerHead:
        """Return the signed head of the ledger. Keep it: a later ledger that lacks it was cut or rewritten."""
        return await self._sender.send(get(dataset_path(dataset, "ledger", "head"), LedgerHead))

    async def keys(self) -> KeySet:
        """Return the server's public keys. Save them: offline verification trusts no other keys."""
        return await self._sender.send(get(api_path("keys"), KeySet))

    @staticmethod
    def predict(model: Model, rows: "Rows") -> "NDArray[Any]":
        """Return a model's predictions for rows: see `purse.predict`."""
        from purse.prediction import predict  # late: NumPy

        return predict(model, rows)

    async def verify(self, receipt: Receipt) -> VerificationReport:
        """Return the server's check of the signature, the recomputed epsilon, and the release in its ledger."""
        call = post(api_path("receipts", "verify"), receipt.document, VerificationReport, repeatable=True)
        return await self._sender.send(call)

    async def metrics(self) -> str:
        """Return the server's metrics in the format of Prometheus."""
        return await self._sender.send(Call("GET", "/metrics", bytes.decode, repeatable=True))

    async def ready(self) -> None:
        """Raise the `ProblemError` not_ready if the server does not accept jobs yet."""
        await self._sender.send(Call("GET", "/health/ready", ignore))


@final
class AsyncTokens(CallGroup):
    """Bearer tokens, for stewards."""

    async def create(
        self, name: str, role: Role, *, scopes: Sequence[Scope] | None = None, lifetime: int | None = None
    ) -> NewToken:
        """Create a token of the person or program with this name. Its secret is shown only in this response.

        Parameters
        ----------
        scopes : part of what the role may do; all of it if None
        lifetime : seconds until the token expires; unlimited if None
        """
        chosen = None if scopes is None else list(scopes)
        request = without_none(name=name, role=role, scopes=chosen, lifetime=lifetime)
        return await self._sender.send(post(api_path("tokens"), request, NewToken))

    async def rotate(self, token: str) -> NewToken:
        """Replace a token's secret. The old secret is invalid from now on."""
        return await self._sender.send(act("POST", api_path("tokens", token, "rotate"), NewToken))

    async def list(
        self, *, name: str | None = None, role: Role | None = None, order: Order = "desc"
    ) -> Sequence[Token]:
        """Return the valid tokens, filtered and without their secrets, the newest first."""
        return await self._sender.all(api_path("tokens"), Page[Token], name=name, role=role, order=order)

    async def revoke(self, token: str) -> None:
        """Make a token permanently invalid."""
        await self._sender.send(delete(api_path("tokens", token)))


@final
class AsyncWebhooks(CallGroup):
    """Addresses that receive a message when a job finishes; `purse.webhooks.verify` checks the messages."""

    async def create(self, url: str) -> Webhook:
        """Register an address that receives a message about each of your jobs that finishes."""
        return await self._sender.send(post(api_path("webhooks"), {"url": url}, Webhook, repeatable=True))

    async def list(self, *, analyst: str | None = None, order: Order = "desc") -> Sequence[Webhook]:
        """Return your webhooks, or all of them for a steward, the newest first."""
        return await self._sender.all(api_path("webhooks"), Page[Webhook], analyst=analyst, order=order)

    async def get(self, webhook: str) -> Webhook:
        """Return a webhook by its id, with the state of its deliveries."""
        return await self._sender.send(get(api_path("webhooks", webhook), Webhook))

    async def delete(self, webhook: str) -> None:
        """Stop sending messages to a webhook."""
        await self._sender.send(delete(api_path("webhooks", webhook)))


def http_settings(url: str | None, token: str | None, timeout: float) -> dict[str, Any]:
    """Return the settings of an httpx client, from PURSE_URL and PURSE_TOKEN if neither url nor token is passed.

    PURSE_TOKEN is never sent to an address that the caller passes, which may be another server.
    """
    if url is None:
        url = os.environ.get("PURSE_URL") or DEFAULT_URL
        token = (os.environ.get("PURSE_TOKEN") or None) if token is None else token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {"base_url": url, "headers": headers, "timeout": timeout, "verify": certificates(url)}


def certificates(url: str) -> ssl.SSLContext | bool:
    """Return httpx's `verify`: the usual certificates for https, and an empty context for http, which needs none."""
    return httpx.URL(url).scheme != "http" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
