"""Datasets from asyncio: registering them, their budgets, samples and twins, grants and allotments."""

from collections.abc import Sequence
from typing import Unpack, final

from purse.client import calls, parts
from purse.client.calls import Call, Source, Spec, act, api_path, dataset_path, delete, get, post, reader
from purse.client.requests import AllotmentOptions, completed, without_none
from purse.client.sending import CallGroup
from purse.results import BudgetReport, Twin
from purse.wire.allotments import Allotment
from purse.wire.base import Order, Page
from purse.wire.datasets import Dataset, DatasetSpec, DatasetState, Registered, SessionPolicy
from purse.wire.grants import Grant
from purse.wire.outside import ExternalCharged
from purse.wire.twins import AttachedSample, PublicSample, TwinSource


@final
class AsyncDatasets(CallGroup):
    """Datasets and their budgets."""

    async def upload(
        self, file: Source, *, spec: Spec, resume: str | None = None, sheet: str | None = None
    ) -> Registered:
        """Register a CSV or Parquet file under the declaration `spec`; a large one is sent in parts.

        A frame of pandas, Polars or Arrow is sent as a CSV file in the declaration's dialect, and so is a sheet of an
        Excel workbook. The `report` of the response describes the file's values. Keep it, because the server does not.

        Parameters
        ----------
        resume : id of an upload that an earlier call did not finish, from the note on its error; only the missing part
            is sent
        sheet : name of a sheet, if the workbook has several
        """
        with parts.opened(file, calls.dialect_of(spec), sheet) as source, calls.naming_columns(spec):
            size = parts.length(source)
            if resume is None and (size is None or size <= parts.PART_BYTES):
                return await self._sender.send(calls.register(spec, Registered, file=calls.file_part(source)))
            if size is None:
                raise ValueError("resume needs a file that can be read from any position. Pass its path")
            upload = resume or await parts.begin(self._sender, size)
            try:
                await parts.fill(self._sender, upload, source, size)
                return await self._sender.send(calls.register(spec, Registered, upload=(None, upload, None)))
            except BaseException as error:
                error.add_note(f"The server keeps the received part of the file: call upload with resume={upload!r}.")
                raise

    async def import_file(self, path: str, *, spec: Spec) -> Registered:
        """Register a file that the server copies from the operator's folder or object storage, of any size.

        Parameters
        ----------
        path : path of the file below the server's PURSE_IMPORT_URL, such as "2026/visits.parquet"
        """
        with calls.naming_columns(spec):
            return await self._sender.send(calls.register(spec, Registered, path=(None, path, None)))

    async def declare(self, *, spec: Spec) -> Dataset:
        """Register a dataset whose records never reach the server, which accounts for answers computed elsewhere.

        Parameters
        ----------
        spec : a declaration with `name`, `budget`, and the public `rows`, or `unit` with `max_rows` and `persons`
        """
        document = spec if isinstance(spec, DatasetSpec) else {"data": "elsewhere", **spec}
        with calls.naming_columns(spec):
            return await self._sender.send(calls.register(document, Dataset))

    async def list(
        self,
        *,
        name: str | None = None,
        family: str | None = None,
        state: DatasetState | None = None,
        order: Order = "desc",
        columns: bool = True,
    ) -> Sequence[Dataset]:
        """Return the public metadata of datasets, filtered, the newest first.

        Parameters
        ----------
        columns : if false, the columns of each dataset are left out, because lists of categories can be long
        """
        filters = {"name": name, "family": family, "state": state, "columns": None if columns else "false"}
        return await self._sender.all(api_path("datasets"), Page[Dataset], order=order, **filters)

    async def get(self, dataset: Dataset | str) -> Dataset:
        """Return a dataset's public metadata."""
        return await self._sender.send(get(dataset_path(dataset), Dataset))

    async def budget(self, dataset: Dataset | str) -> BudgetReport:
        """Return what is spent and what remains."""
        return await self._sender.send(get(dataset_path(dataset, "budget"), BudgetReport))

    async def twin(
        self, dataset: Dataset | str, *, rows: int = 1000, number: int = 0, source: TwinSource | None = None
    ) -> Twin:
        """Return synthetic rows for trying out code, as a CSV file in the declared dialect. Reads no data.

        The result is bytes; its `to_frame()` is a frame of pandas.

        Parameters
        ----------
        number : number of the twin; the same number gives the same rows
        source : "sample" draws from the public sample that the steward attached, "profile" from the latest released
            profile, "declaration" from the declaration. By default the first of these that exists
        """
        params = without_none(rows=str(rows), number=str(number), source=source)
        path = dataset_path(dataset, "twin")
        return await self._sender.send(Call("GET", path, Twin, params=params, repeatable=True))

    async def attach_sample(
        self,
        dataset: Dataset | str,
        file: Source,
        *,
        published: str,
        spec: Spec | None = None,
        sheet: str | None = None,
    ) -> AttachedSample:
        """Attach rows of a public file, from which twins and forecasts are then drawn. You vouch that it is public.

        Parameters
        ----------
        published : where the file is published; every analyst with a grant can see this, and the rows
        spec : the dataset's declaration, if it has a dialect and `file` is a frame or a workbook
        sheet : name of a sheet, if the workbook has several
        """
        with parts.opened(file, calls.dialect_of(spec or {}), sheet) as source:
            body = source.read()
        return await self._sender.send(
            Call(
                "PUT",
                dataset_path(dataset, "sample"),
                reader(AttachedSample),
                body,
                params={"published": published},
                headers={"Content-Type": "application/octet-stream"},
                repeatable=True,
            )
        )

    async def sample(self, dataset: Dataset | str) -> PublicSample:
        """Return the facts of the attached public sample; `twin` returns its rows."""
        return await self._sender.send(get(dataset_path(dataset, "sample"), PublicSample))

    async def delete_sample(self, dataset: Dataset | str) -> None:
        """Delete the attached public sample."""
        await self._sender.send(delete(dataset_path(dataset, "sample")))

    async def grant(self, dataset: Dataset | str, analyst: str) -> Grant:
        """Let the analyst with this name or id see the dataset and spend its budget."""
        return await self._sender.send(act("PUT", dataset_path(dataset, "grants", analyst), Grant))

    async def grants(self, dataset: Dataset | str, *, order: Order = "desc") -> Sequence[Grant]:
        """Return the grants of a dataset, the newest first."""
        path = dataset_path(dataset, "grants")
        return await self._sender.all(path, Page[Grant], order=order)

    async def revoke(self, dataset: Dataset | str, analyst: str) -> None:
        """Hide the dataset from the analyst, whose own jobs and their releases stay visible."""
        await self._sender.send(delete(dataset_path(dataset, "grants", analyst)))

    @completed
    async def allot(self, dataset: Dataset | str, analyst: str, /, **options: Unpack[AllotmentOptions]) -> Allotment:
        """Limit what the analyst's jobs together may spend of the budget.

        Parameters
        ----------
        options : `share`, or `epsilon` with or without `delta`; and `mode`, "shared" or "reserved"
        """
        path = dataset_path(dataset, "allotments", analyst)
        return await self._sender.send(calls.replace("PUT", path, options, Allotment))

    async def allotments(self, dataset: Dataset | str, *, order: Order = "desc") -> Sequence[Allotment]:
        """Return what each analyst may spend of the budget, the newest first."""
        path = dataset_path(dataset, "allotments")
        return await self._sender.all(path, Page[Allotment], order=order)

    async def deallot(self, dataset: Dataset | str, analyst: str) -> None:
        """Remove the analyst's limit; the analyst then spends from the unreserved part of the budget."""
        await self._sender.send(delete(dataset_path(dataset, "allotments", analyst)))

    async def charge(
        self, dataset: Dataset | str, *, label: str, event: object, exceeds: bool = False
    ) -> ExternalCharged:
        """Charge a mechanism that ran elsewhere on the same people, once for each label.

        Parameters
        ----------
        label : your name for the charge; the same label and event again is the same charge
        event : the mechanism, such as `{"type": "GaussianDpEvent", "noise_multiplier": 12.0}`
        exceeds : if true, record the charge also if it exceeds the budget. The ledger is then frozen
        """
        body = {"label": label, "event": event, "exceeds": exceeds}
        path = dataset_path(dataset, "charges")
        return await self._sender.send(post(path, body, ExternalCharged, repeatable=True))

    async def amend(
        self,
        dataset: Dataset | str,
        *,
        name: str | None = None,
        budget: object = None,
        frozen: bool | None = None,
        sessions: SessionPolicy | None = None,
    ) -> Dataset:
        """Change a dataset: its name and budget before the first charge; a larger budget or a freeze at any time.

        Parameters
        ----------
        budget : `{"epsilon": ..., "delta": ...}`; after the first charge a new guarantee beside the earlier ones
        frozen : True stops all spending at once; False lifts that
        sessions : "refund", "no_refund" or "refused", whether sessions are accepted and refunded
        """
        changes = without_none(name=name, budget=budget, frozen=frozen, sessions=sessions)
        path = dataset_path(dataset)
        return await self._sender.send(calls.replace("PATCH", path, changes, Dataset))

    async def erase(self, dataset: Dataset | str) -> Dataset:
        """End the dataset's jobs and delete its values. The response's `data` states whether the ledger was kept."""
        return await self._sender.send(act("DELETE", dataset_path(dataset), Dataset))
