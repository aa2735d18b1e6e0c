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

from purse.client import parts
from purse.client.calls import (
    Call,
    Source,
    Spec,
    act,
    at,
    dialect_of,
    get,
    naming,
    nothing,
    post,
    reader,
    register,
    say,
    upload,
)
from purse.client.jobs import AsyncJobs, in_full, request_of
from purse.client.sending import TIMEOUT, Driver, Sender, Waiting
from purse.model import Model
from purse.receipts import Receipt
from purse.wire.allotments import Allotment
from purse.wire.base import Order, Page
from purse.wire.datasets import BudgetStatus, Dataset, DatasetState, Registered
from purse.wire.forecasts import AccuracyForecast
from purse.wire.grants import Grant
from purse.wire.jobs import Quote
from purse.wire.outside import Calibration, ExternalCharged
from purse.wire.receipts import KeySet, LedgerEntry, LedgerHead, VerificationReport
from purse.wire.tokens import NewToken, Role, Scope, Token
from purse.wire.twins import AttachedSample, PublicSample, TwinSource
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
class AsyncDatasets:
    """Datasets and their budgets."""

    _sender: Sender

    async def upload(
        self, file: Source, *, spec: Spec, resume: str | None = None, sheet: str | None = None
    ) -> Registered:
        """Registers a CSV or Parquet file under the declaration `spec`; a large one in parts, through lost connections.

        A frame of pandas, Polars or Arrow is sent as a CSV file in the declaration's dialect, and so is a sheet of an
        Excel workbook.

        The answer's `report` says what became of its values: nothing will say it again.

        Parameters
        ----------
        resume : the upload of an earlier call that did not end well, as the note on its error named it: what the server
            has of the file is not sent again
        sheet : of a workbook that has several, the one that is meant
        """
        with parts.opened(file, dialect_of(spec), sheet) as source, naming(spec):
            size = parts.length(source)
            if resume is None and (size is None or size <= parts.PART):
                return await self._sender.send(upload(source, spec))
            if size is None:
                raise ValueError("a file that is to go on must be one that can be read from any place")
            begun = resume or await parts.begin(self._sender, size)
            try:
                await parts.fill(self._sender, begun, source, size)
                return await self._sender.send(register(begun, spec))
            except BaseException as error:
                error.add_note(f"The server keeps what it has of the file as {begun}: resume it.")
                raise

    async def list(
        self,
        *,
        name: str | None = None,
        family: str | None = None,
        state: DatasetState | None = None,
        order: Order = "desc",
    ) -> Sequence[Dataset]:
        """The public metadata of the datasets that suit all that is said, the newest first."""
        said = {"name": name, "family": family, "state": state}
        return await self._sender.all(at("datasets"), Page[Dataset], order=order, **said)

    async def get(self, dataset: Dataset | str) -> Dataset:
        """One dataset's public metadata."""
        return await self._sender.send(get(await self._sender.of(dataset), Dataset))

    async def budget(self, dataset: Dataset | str) -> BudgetStatus:
        """What is spent and what remains."""
        return await self._sender.send(get(await self._sender.of(dataset, "budget"), BudgetStatus))

    async def twin(
        self, dataset: Dataset | str, *, rows: int = 1000, number: int = 0, source: TwinSource | None = None
    ) -> bytes:
        """A CSV file, in the dialect declared, of rows to try code on: drawn by what is public, no data has a part.

        Parameters
        ----------
        number : which of the twins: the same number gives the same rows
        source : "sample", the public one that the steward attached; "profile", the latest that was released;
            "declaration"; the first of these that there is, if None
        """
        asked = {"rows": str(rows), "number": str(number)} | ({"source": source} if source else {})
        path = await self._sender.of(dataset, "twin")
        return await self._sender.send(Call("GET", path, bytes, params=asked, repeatable=True))

    async def attach_sample(self, dataset: Dataset | str, file: Source, *, published: str) -> AttachedSample:
        """Rows of a public file, a frame as well, that twins and forecasts are drawn from now on. You vouch for it.

        Parameters
        ----------
        published : where; every analyst with a grant is told, and may have the rows
        """
        with parts.opened(file) as source:
            body, path = source.read(), await self._sender.of(dataset, "sample")
        headers, params = {"Content-Type": "application/octet-stream"}, {"published": published}
        return await self._sender.send(
            Call("PUT", path, reader(AttachedSample), body, params, headers, repeatable=True)
        )

    async def sample(self, dataset: Dataset | str) -> PublicSample:
        """What the steward says of the public sample that is attached; its rows are a `twin`'s."""
        return await self._sender.send(get(await self._sender.of(dataset, "sample"), PublicSample))

    async def delete_sample(self, dataset: Dataset | str) -> None:
        """From now on there is none."""
        await self._sender.send(Call("DELETE", await self._sender.of(dataset, "sample"), nothing))

    async def grant(self, dataset: Dataset | str, analyst: str) -> Grant:
        """From now on the analyst of this name or id sees the dataset and spends on it."""
        return await self._sender.send(act("PUT", await self._sender.of(dataset, "grants", analyst), Grant))

    async def grants(self, dataset: Dataset | str, *, order: Order = "desc") -> Sequence[Grant]:
        """Which analysts know of the dataset, the newest first."""
        return await self._sender.all(await self._sender.of(dataset, "grants"), Page[Grant], order=order)

    async def allot(self, dataset: Dataset | str, analyst: str, /, **said: Any) -> Allotment:
        """From now on the analyst's jobs together spend at most this of the budget: see `AllotmentRequest`.

        Parameters
        ----------
        said : `share`, or `epsilon` and perhaps `delta`; and `mode`, "shared" or "reserved"
        """
        return await self._sender.send(
            say("PUT", await self._sender.of(dataset, "allotments", analyst), said, Allotment)
        )

    async def allotments(self, dataset: Dataset | str, *, order: Order = "desc") -> Sequence[Allotment]:
        """What each analyst may spend of the budget, the newest first."""
        return await self._sender.all(await self._sender.of(dataset, "allotments"), Page[Allotment], order=order)

    async def deallot(self, dataset: Dataset | str, analyst: str) -> None:
        """From now on the analyst spends of what nobody has reserved."""
        await self._sender.send(Call("DELETE", await self._sender.of(dataset, "allotments", analyst), nothing))

    async def revoke(self, dataset: Dataset | str, analyst: str) -> None:
        """From now on the dataset is not there for the analyst; own jobs, and what they release, remain."""
        await self._sender.send(Call("DELETE", await self._sender.of(dataset, "grants", analyst), nothing))

    async def charge(
        self, dataset: Dataset | str, *, label: str, event: object, exceeds: bool = False
    ) -> ExternalCharged:
        """Charges what ran elsewhere on the same people, once for each label.

        Parameters
        ----------
        event : such as `{"type": "GaussianDpEvent", "noise_multiplier": 12.0}`
        exceeds : record it also if it does not fit; the ledger is frozen by that
        """
        body = {"label": label, "event": event, "exceeds": exceeds}
        return await self._sender.send(
            post(await self._sender.of(dataset, "charges"), body, ExternalCharged, repeatable=True)
        )

    async def amend(
        self, dataset: Dataset | str, *, name: str | None = None, budget: object = None, frozen: bool | None = None
    ) -> Dataset:
        """Changes what is given: name and budget while nothing is charged; a larger budget, a freeze at any time.

        Parameters
        ----------
        budget : `{"epsilon": ..., "delta": ...}`; after the first charge a new promise, beside those before it
        frozen : True stops all spending at once; False lifts that
        """
        asked = {"name": name, "budget": budget, "frozen": frozen}
        changes = {key: value for key, value in asked.items() if value is not None}
        return await self._sender.send(say("PATCH", await self._sender.of(dataset), changes, Dataset))

    async def erase(self, dataset: Dataset | str) -> Dataset:
        """Ends the dataset's jobs and deletes its values; `data` says whether its ledger stays or it is withdrawn."""
        return await self._sender.send(act("DELETE", await self._sender.of(dataset), Dataset))


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
    """Whose certificates hold: nobody's where none is shown, and no list of authorities is read (1/40 CPU second)."""
    return httpx.URL(url).scheme != "http" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
