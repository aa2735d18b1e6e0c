"""The service from asyncio.

async with AsyncClient("http://127.0.0.1:8000", token="...") as purse:
    job = await purse.jobs.submit(dataset="ds_...", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
    model = await job.result()
    (await job.receipt()).verify()
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, final

import httpx

from purse.client.calls import Call, act, at, get, nothing, post
from purse.client.datasets import AsyncDatasets
from purse.client.jobs import AsyncJobs, in_full, request_of
from purse.client.sending import TIMEOUT, Driver, Sender, Waiting
from purse.model import Model
from purse.receipts import Receipt
from purse.wire.base import Order, Page
from purse.wire.datasets import Dataset
from purse.wire.forecasts import AccuracyForecast
from purse.wire.jobs import Quote
from purse.wire.outside import Calibration
from purse.wire.receipts import KeySet, LedgerEntry, LedgerHead, VerificationReport
from purse.wire.tokens import NewToken, Role, Scope, Token
from purse.wire.webhooks import Webhook

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from purse.frames import Rows

_FORECAST = 600.0  # seconds of silence: it may wait for others' and take a minute


@final
class AsyncClient:
    """One server and one token; an async context manager.

    Parameters
    ----------
    url : the server's address
    token : the bearer secret; without one, only what is public
    transport : httpx's, to reach the service without a network
    timeout : seconds of silence after which a request is given up; an upload may take longer
    driver : carries the requests instead of all the above
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float = TIMEOUT,
        driver: Driver | None = None,
    ) -> None:
        self._sender = Sender(
            driver
            or Waiting(
                httpx.AsyncClient(
                    base_url=url, headers=bearer(token), transport=transport, timeout=timeout, verify=trusted(url)
                )
            )
        )
        self.datasets = AsyncDatasets(self._sender)
        self.jobs = AsyncJobs(self._sender)
        self.tokens = AsyncTokens(self._sender)
        self.webhooks = AsyncWebhooks(self._sender)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._sender.driver.close()

    async def quote(
        self, /, *, dataset: Dataset | str | None = None, target: str | None = None, privacy: object, **rest: Any
    ) -> Quote:
        """What a job would cost; touches no data and charges nothing. With `model` in place of a dataset, what an
        evaluation of that would.
        """
        if dataset is None:
            request = {"privacy": in_full(privacy), **rest}
        else:
            request = request_of(await self._sender.identify(dataset), target, privacy, rest)
        return await self._sender.send(post(at("quotes"), request, Quote, repeatable=True))

    async def forecast(
        self,
        /,
        *,
        dataset: Dataset | str,
        target: str,
        epsilons: Sequence[float] | None = None,
        delta: float | None = None,
        **rest: Any,
    ) -> AccuracyForecast:
        """What accuracy to expect at which epsilon: the job runs many times on a public twin; no data is touched.

        Parameters
        ----------
        epsilons : six from 0.1 to 4 if None
        rest : more of the job, as for `quote`; source, signal, runs, twin, wanted
        """
        asked = {"epsilons": None if epsilons is None else list(epsilons), "delta": delta}
        privacy = {key: value for key, value in asked.items() if value is not None}
        request = request_of(await self._sender.identify(dataset), target, privacy, rest)
        call = post(at("forecasts"), request, AccuracyForecast, repeatable=True)
        return await self._sender.send(replace(call, timeout=_FORECAST))

    async def calibrate(self, /, mechanism: object, *, epsilon: float, **rest: Any) -> Calibration:
        """The least noise for a target; no dataset has a part in it.

        Parameters
        ----------
        mechanism : such as `{"name": "gaussian"}` or `{"name": "poisson_gaussian", "rate": 0.01}`
        rest : delta, count, neighbors
        """
        request = {"mechanism": mechanism, "epsilon": epsilon, **rest}
        return await self._sender.send(post(at("calibrations"), request, Calibration, repeatable=True))

    async def ledger(
        self, dataset: Dataset | str, *, analyst: str | None = None, kind: str | None = None, order: Order = "asc"
    ) -> list[LedgerEntry]:
        """The dataset's hash chain, from its first entry; or its entries of an analyst's jobs and of a kind alone."""
        path = await self._sender.of(dataset, "ledger")
        return await self._sender.all(path, Page[LedgerEntry], analyst=analyst, kind=kind, order=order)

    async def ledger_head(self, dataset: Dataset | str) -> LedgerHead:
        """How far that chain goes now, signed. Keep it: a ledger that lacks it later was cut or rewritten."""
        return await self._sender.send(get(await self._sender.of(dataset, "ledger", "head"), LedgerHead))

    async def keys(self) -> KeySet:
        """The server's public keys. Save them: an offline verifier trusts nothing else."""
        return await self._sender.send(get(at("keys"), KeySet))

    @staticmethod
    def predict(model: Model, rows: "Rows") -> "NDArray[Any]":
        """See `purse.predict`."""
        from purse.prediction import predict  # late: NumPy

        return predict(model, rows)

    async def verify(self, receipt: Receipt) -> VerificationReport:
        """What the server finds: signature, spend, and whether its ledger holds the release."""
        call = post(at("receipts", "verify"), receipt.document, VerificationReport, repeatable=True)
        return await self._sender.send(call)

    async def metrics(self) -> str:
        """The server's figures, as Prometheus reads them."""
        return await self._sender.send(Call("GET", "/metrics", bytes.decode, repeatable=True))

    async def ready(self) -> None:
        """Returns if the server takes jobs now; `ProblemError` not_ready if it does not yet."""
        await self._sender.send(Call("GET", "/health/ready", nothing))


@final
@dataclass(frozen=True, slots=True)
class AsyncTokens:
    """Bearer tokens, for stewards."""

    _sender: Sender

    async def create(
        self, name: str, role: Role, *, scopes: Sequence[Scope] | None = None, lifetime: int | None = None
    ) -> NewToken:
        """A new token, another one of whoever goes by this name; its secret is shown this once.

        Parameters
        ----------
        scopes : part of what the role may do; all of it if None
        lifetime : seconds until it expires; never, if None
        """
        asked = {"name": name, "role": role, "scopes": None if scopes is None else list(scopes), "lifetime": lifetime}
        return await self._sender.send(post(at("tokens"), {k: v for k, v in asked.items() if v is not None}, NewToken))

    async def rotate(self, token: str) -> NewToken:
        """A new secret in the place of a token, which ends now."""
        return await self._sender.send(act("POST", at("tokens", token, "rotate"), NewToken))

    async def list(
        self, *, name: str | None = None, role: Role | None = None, order: Order = "desc"
    ) -> Sequence[Token]:
        """The live tokens that suit all that is said, without their secrets, the newest first."""
        return await self._sender.all(at("tokens"), Page[Token], name=name, role=role, order=order)

    async def revoke(self, token: str) -> None:
        """Makes a token invalid, for good."""
        await self._sender.send(Call("DELETE", at("tokens", token), nothing))


@final
@dataclass(frozen=True, slots=True)
class AsyncWebhooks:
    """Where to be told that a job is over; `purse.webhooks.verify` reads what comes there."""

    _sender: Sender

    async def create(self, url: str) -> Webhook:
        """From now on this address is told of each of your jobs that is over."""
        return await self._sender.send(post(at("webhooks"), {"url": url}, Webhook, repeatable=True))

    async def list(self, *, analyst: str | None = None, order: Order = "desc") -> Sequence[Webhook]:
        """Your webhooks, to a steward all, the newest first."""
        return await self._sender.all(at("webhooks"), Page[Webhook], analyst=analyst, order=order)

    async def get(self, webhook: str) -> Webhook:
        """A webhook by its id, and whether its messages are taken."""
        return await self._sender.send(get(at("webhooks", webhook), Webhook))

    async def delete(self, webhook: str) -> None:
        """It is told of nothing more."""
        await self._sender.send(Call("DELETE", at("webhooks", webhook), nothing))


def bearer(token: str | None) -> dict[str, str]:
    """The header that a token travels in."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def trusted(url: str) -> ssl.SSLContext | bool:
    """Whose certificates hold: nobody's where none is shown, and no list of authorities is read."""
    return httpx.URL(url).scheme != "http" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
