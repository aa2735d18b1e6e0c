"""Jobs from asyncio: submitting them, finding them again, and reading their releases."""

import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Unpack, final

from purse.client.calls import act, api_path, get, post_once, reference
from purse.client.events import FINISHED, EventStream, as_event
from purse.client.requests import (
    EvaluationOptions,
    JobOptions,
    TuningOptions,
    completed,
    expanded,
    job_request,
    privacy_of,
)
from purse.client.sending import CallGroup, Sender
from purse.errors import JobNotReleased
from purse.model import Model
from purse.receipts import Receipt
from purse.results import Evaluation, Statistic
from purse.wire.base import Order, Page
from purse.wire.datasets import Dataset
from purse.wire.jobs import Job, JobEvent, JobKind, JobState
from purse.wire.profiles import DatasetProfile
from purse.wire.receipts import KeySet, ReceiptDocument

Watch = Callable[[JobEvent], None]


@contextmanager
def watching(label: str, progress: bool | Watch | None) -> Iterator[Watch]:
    """Yield the function to call with each event: the caller's own, or one that draws a bar on stderr or nothing.

    Parameters
    ----------
    label : text before the bar
    progress : a function; True for a bar, False for none; None for a bar if stderr is a terminal
    """
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda _event: None
        return
    from rich.console import Console  # late: the larger part of an import of the client
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None, state="waiting")

        def show(event: JobEvent) -> None:
            total = event.progress.total if event.progress.done else None  # a running job reports no progress
            bar.update(task, completed=event.progress.done, total=total, state=event.state)

        yield show


@final
class AsyncJobs(CallGroup):
    """Jobs of a server."""

    @completed
    async def submit(
        self,
        /,
        *,
        dataset: Dataset | str,
        target: str | None = None,
        privacy: object,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> "AsyncJobHandle":
        """Charge the budget and queue a job.

        The job trains a model of `target`. With `method="counts"`, "means", "quantiles", "covariance", "table1" or
        "profile" it releases this statistic of `columns` instead. With `inference=True` it releases a regression table.

        Parameters
        ----------
        dataset : a dataset, its id or its name
        privacy : `{"epsilon": ..., "delta": ...}`, or an epsilon at the dataset's delta
        options : other fields of the job request, with the server's defaults. `method="dp_gd"` is short for
            `method={"name": "dp_gd"}`; loss, regularizer, domain and preparation have the same short form
        idempotency_key : key of your own; by default the client makes one, so that a lost response never charges twice

        Raises
        ------
        ProblemError
            budget_exhausted, whose `remaining` states what is left; and others.
        """
        request = job_request(dataset, target, privacy, options)
        return await self._submitted(api_path("jobs"), request, idempotency_key)

    @completed
    async def tune(
        self,
        /,
        *,
        dataset: Dataset | str,
        target: str,
        candidates: Sequence[Mapping[str, Any] | str],
        privacy: object,
        idempotency_key: str | None = None,
        **options: Unpack[TuningOptions],
    ) -> "AsyncJobHandle":
        """Charge the budget and queue a tuning: several ways to train a model, of which the best is released.

        Parameters
        ----------
        candidates : the ways to train, as public facts: mappings with `method`, `regularizer`, `domain`, `preparation`
            and `slope_limit`; "dp_gd" is short for `{"method": {"name": "dp_gd"}}`
        options : other fields of the request; `repeats`, the number of tries of each candidate, is 2 by default
        dataset, target, privacy, idempotency_key : as in `submit`

        Raises
        ------
        ProblemError
            as `submit`.
        """
        ways = [expanded({"method": each} if isinstance(each, str) else each) for each in candidates]
        request = job_request(dataset, target, privacy, {**options, "candidates": ways})
        return await self._submitted(api_path("tunings"), request, idempotency_key)

    async def get(self, job: str) -> "AsyncJobHandle":
        """Return the job with this id, also in a later process."""
        return AsyncJobHandle(self._sender, await self._sender.send(get(api_path("jobs", job), Job)))

    async def list(
        self,
        *,
        dataset: Dataset | str | None = None,
        state: JobState | None = None,
        method: str | None = None,
        kind: JobKind | None = None,
        analyst: str | None = None,
        since: str | None = None,
        until: str | None = None,
        order: Order = "desc",
    ) -> Sequence[Job]:
        """Return the jobs that this token can see, filtered, the newest first.

        Parameters
        ----------
        since, until : jobs submitted from this UTC time on, and before this one: "2026-11-22" or "2026-11-22T17:00:00Z"
        """
        filters = {"state": state, "method": method, "kind": kind, "analyst": analyst, "since": since, "until": until}
        named = None if dataset is None else reference(dataset)
        return await self._sender.all(api_path("jobs"), Page[Job], dataset=named, order=order, **filters)

    async def model(self, job: str) -> Model:
        """Return the model that a job released."""
        return await self._sender.send(get(api_path("jobs", job, "model"), Model))

    async def profile(self, job: str) -> DatasetProfile:
        """Return the profile that a job of any analyst released; `Dataset.profile` is the id of the latest job."""
        return await self._sender.send(get(api_path("jobs", job, "profile"), DatasetProfile))

    async def statistic(self, job: str) -> Statistic:
        """Return the statistic that a job released."""
        return await self._sender.send(get(api_path("jobs", job, "statistic"), Statistic))

    @completed
    async def evaluate(
        self,
        model: str,
        /,
        *,
        privacy: object,
        idempotency_key: str | None = None,
        **options: Unpack[EvaluationOptions],
    ) -> "AsyncJobHandle":
        """Charge the budget of a dataset's holdout set and queue an evaluation of a model on it.

        Parameters
        ----------
        model : id of the job that released the model
        privacy, idempotency_key : as in `submit`
        options : `bins` of scores or residuals; `clip` of residuals, in halves of the target's range
        """
        request = {"privacy": privacy_of(privacy), **options}
        return await self._submitted(api_path("models", model, "evaluations"), request, idempotency_key)

    async def evaluation(self, job: str) -> Evaluation:
        """Return the evaluation that a job released."""
        return await self._sender.send(get(api_path("jobs", job, "evaluation"), Evaluation))

    async def receipt(self, job: str) -> Receipt:
        """Return a job's signed receipt and the server's current keys; auditors may read it too."""
        document = await self._sender.send(get(api_path("jobs", job, "receipt"), ReceiptDocument))
        return Receipt(document, await self._sender.send(get(api_path("keys"), KeySet)))

    async def _submitted(self, path: str, request: object, key: str | None) -> "AsyncJobHandle":
        """Send a request, with a new idempotency key if there is none, and return its job."""
        return AsyncJobHandle(self._sender, await self._sender.send(post_once(path, request, Job, key)))


@final
@dataclass(slots=True)
class AsyncJobHandle:
    """One job; `job` is its state as of the server's last response."""

    _sender: Sender
    job: Job

    def __repr__(self) -> str:
        return f"<{self.job.kind} {self.id}: {self.state}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def state(self) -> JobState:
        """The state as of the last response."""
        return self.job.state

    async def refresh(self) -> Job:
        """Read the job again and return it."""
        self.job = await self._sender.send(get(api_path("jobs", self.id), Job))
        return self.job

    def events(self, timeout: float | None = None) -> AsyncGenerator[JobEvent]:
        """Yield every change of state and progress until the job is finished."""
        return self._sender.follow(EventStream(self.id, timeout))

    async def result(self, timeout: float | None = None, progress: bool | Watch | None = None) -> Model:
        """Wait and return the model: see `wait`."""
        await self.wait(timeout, progress)
        return await self.model()

    async def profile(self, timeout: float | None = None, progress: bool | Watch | None = None) -> DatasetProfile:
        """Wait and return the profile: see `wait`."""
        await self.wait(timeout, progress)
        return await AsyncJobs(self._sender).profile(self.id)

    async def statistic(self, timeout: float | None = None, progress: bool | Watch | None = None) -> Statistic:
        """Wait and return the statistic: see `wait`."""
        await self.wait(timeout, progress)
        return await AsyncJobs(self._sender).statistic(self.id)

    async def evaluation(self, timeout: float | None = None, progress: bool | Watch | None = None) -> Evaluation:
        """Wait and return the evaluation: see `wait`."""
        await self.wait(timeout, progress)
        return await AsyncJobs(self._sender).evaluation(self.id)

    @completed
    async def evaluate(self, *, privacy: object, **options: Unpack[EvaluationOptions]) -> "AsyncJobHandle":
        """Submit an evaluation of this job's model on the holdout set: see `AsyncJobs.evaluate`."""
        return await AsyncJobs(self._sender).evaluate(self.id, privacy=privacy, **options)

    async def wait(self, timeout: float | None = None, progress: bool | Watch | None = None) -> None:
        """Return when the job is done.

        Parameters
        ----------
        timeout : seconds to wait; unlimited if None
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
                async for event in self.events(timeout):
                    watch(event)
                await self.refresh()
            else:
                watch(as_event(self.job))
        if self.state != "done":
            raise JobNotReleased(self.id, self.state, self.job.error)

    async def model(self) -> Model:
        """Return the released model."""
        return await AsyncJobs(self._sender).model(self.id)

    async def receipt(self) -> Receipt:
        """Return the signed receipt and the server's current keys."""
        return await AsyncJobs(self._sender).receipt(self.id)

    async def cancel(self) -> Job:
        """Cancel the job; the charge is refunded only if the job has not started."""
        self.job = await self._sender.send(act("DELETE", api_path("jobs", self.id), Job))
        return self.job
