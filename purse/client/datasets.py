"""Datasets from asyncio: registering them, their budgets, samples and twins, and who may spend on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

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
from purse.client.sending import Sender
from purse.wire.allotments import Allotment
from purse.wire.base import Order, Page
from purse.wire.datasets import BudgetStatus, Dataset, DatasetState, Registered
from purse.wire.grants import Grant
from purse.wire.outside import ExternalCharged
from purse.wire.twins import AttachedSample, PublicSample, TwinSource


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

    async def attach_sample(
        self,
        dataset: Dataset | str,
        file: Source,
        *,
        published: str,
        spec: Spec | None = None,
        sheet: str | None = None,
    ) -> AttachedSample:
        """Rows of a public file, a frame or a workbook's sheet as well, that twins and forecasts are drawn from now on.

        You vouch for it.

        Parameters
        ----------
        published : where; every analyst with a grant is told, and may have the rows
        spec : the dataset's, where it has a dialect: a frame or a sheet is sent in that one
        sheet : of a workbook that has several, the one that is meant
        """
        with parts.opened(file, dialect_of(spec or {}), sheet) as source:
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
