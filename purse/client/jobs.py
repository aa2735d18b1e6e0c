"""Jobs from asyncio: submitting them, finding them again, and what they released."""

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat, final

from purse.client.calls import act, at, get, post
from purse.client.events import FINISHED, EventStream, as_event
from purse.client.progress import Watch, watching
from purse.client.sending import Sender
from purse.errors import JobNotReleased
from purse.model import Model
from purse.receipts import Receipt
from purse.wire.base import Order, Page
from purse.wire.datasets import Dataset
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.jobs import Job, JobEvent, JobKind, JobState
from purse.wire.profiles import DatasetProfile
from purse.wire.receipts import KeySet, ReceiptDocument
from purse.wire.statistics import ReleasedStatistic


@final
@dataclass(frozen=True, slots=True)
class AsyncJobs:
    """Jobs: submitting them, and finding them again."""

    _sender: Sender

    async def submit(
        self,
        /,
        *,
        dataset: Dataset | str,
        target: str | None = None,
        privacy: object,
        idempotency_key: str | None = None,
        **rest: Any,
    ) -> "AsyncJobHandle":
        """Charges the budget and queues the job: a model of a target, or, with the `method` of one, a statistic of
        `columns`: counts, means, quantiles, covariance, profile.

        Parameters
        ----------
        dataset : its id, its name, or itself
        privacy : `{"epsilon": ..., "delta": ...}`, or an epsilon, at the dataset's delta
        target, rest : of the job request; `method="dp_gd"` is `method={"name": "dp_gd"}`, and so for a loss, a
            regularizer, a domain and a preparation; what is left out has defaults, filled in by the server
        idempotency_key : yours, if you keep it; else one is made before anything is sent, so that an answer that is
            lost never charges twice

        Raises
        ------
        ProblemError
            budget_exhausted, with what `remaining` would admit; and others.
        """
        request = request_of(await self._sender.identify(dataset), target, privacy, rest)
        call = post(at("jobs"), request, Job, key=idempotency_key or secrets.token_hex(16))
        return AsyncJobHandle(self._sender, await self._sender.send(call))

    async def tune(
        self,
        /,
        *,
        dataset: Dataset | str,
        target: str,
        candidates: Sequence[dict[str, Any] | str],
        privacy: object,
        idempotency_key: str | None = None,
        **rest: Any,
    ) -> "AsyncJobHandle":
        """Charges the budget and queues a tuning: models made in several ways, of which the best is released.

        Parameters
        ----------
        candidates : of each what a job request says of `method`, `regularizer`, `domain`, `preparation` and
            `slope_limit`; "dp_gd" is `{"method": {"name": "dp_gd"}}`. A public list: nothing in it from the data
        rest : of the request; `repeats`, how often each is tried, is 2 if left out
        dataset, target, privacy, idempotency_key : as `submit`

        Raises
        ------
        ProblemError
            as `submit`.
        """
        tried = [short({"method": each} if isinstance(each, str) else each) for each in candidates]
        request = request_of(await self._sender.identify(dataset), target, privacy, rest | {"candidates": tried})
        call = post(at("tunings"), request, Job, key=idempotency_key or secrets.token_hex(16))
        return AsyncJobHandle(self._sender, await self._sender.send(call))

    async def get(self, job: str) -> "AsyncJobHandle":
        """A job by its id, after a restart too."""
        return AsyncJobHandle(self._sender, await self._sender.send(get(at("jobs", job), Job)))

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
        """The jobs that this token may see and that suit all that is said, the newest first.

        Parameters
        ----------
        since, until : submitted from this UTC time on, and before this one: "2026-11-22" or "2026-11-22T17:00:00Z"
        """
        named = None if dataset is None else await self._sender.identify(dataset)
        said = {"state": state, "method": method, "kind": kind, "analyst": analyst, "since": since, "until": until}
        return await self._sender.all(at("jobs"), Page[Job], dataset=named, order=order, **said)

    async def model(self, job: str) -> Model:
        """The model that a job released."""
        return await self._sender.send(get(at("jobs", job, "model"), Model))

    async def profile(self, job: str) -> DatasetProfile:
        """The profile that a job released, whoever submitted it; `Dataset.profile` names the latest."""
        return await self._sender.send(get(at("jobs", job, "profile"), DatasetProfile))

    async def statistic(self, job: str) -> ReleasedStatistic:
        """The statistic that a job released."""
        return await self._sender.send(get(at("jobs", job, "statistic"), ReleasedStatistic))

    async def evaluate(
        self, model: str, /, *, privacy: object, idempotency_key: str | None = None, **rest: Any
    ) -> "AsyncJobHandle":
        """Charges the budget of what was kept out of a dataset, and queues an evaluation of a model of the rest.

        Parameters
        ----------
        model : the job that released it
        privacy, idempotency_key : as `submit`
        rest : `bins` of scores or residuals; `clip` of residuals, in halves of the target's range
        """
        request = {"privacy": in_full(privacy), **rest}
        call = post(at("models", model, "evaluations"), request, Job, key=idempotency_key or secrets.token_hex(16))
        return AsyncJobHandle(self._sender, await self._sender.send(call))

    async def evaluation(self, job: str) -> ReleasedEvaluation:
        """The evaluation that a job released."""
        return await self._sender.send(get(at("jobs", job, "evaluation"), ReleasedEvaluation))

    async def receipt(self, job: str) -> Receipt:
        """A job's signed receipt, and the keys that the server publishes now; for auditors too."""
        document = await self._sender.send(get(at("jobs", job, "receipt"), ReceiptDocument))
        return Receipt(document, await self._sender.send(get(at("keys"), KeySet)))


@final
@dataclass(slots=True)
class AsyncJobHandle:
    """One job; `job` is what the server said last."""

    _sender: Sender
    job: Job

    def __repr__(self) -> str:
        return f"<{self.job.kind} {self.id}: {self.state}>"

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
        self.job = await self._sender.send(get(at("jobs", self.id), Job))
        return self.job

    def events(self, timeout: float | None = None) -> AsyncGenerator[JobEvent]:
        """Every change of state and progress until the end."""
        return self._sender.follow(EventStream(self.id, timeout))

    async def result(self, timeout: float | None = None, progress: bool | Watch | None = None) -> Model:
        """The model, when the job is done: see `wait`."""
        await self.wait(timeout, progress)
        return await self.model()

    async def profile(self, timeout: float | None = None, progress: bool | Watch | None = None) -> DatasetProfile:
        """The profile, when the job, which is for one, is done: see `wait`."""
        await self.wait(timeout, progress)
        return await AsyncJobs(self._sender).profile(self.id)

    async def statistic(self, timeout: float | None = None, progress: bool | Watch | None = None) -> ReleasedStatistic:
        """The statistic, when the job, which is for one, is done: see `wait`."""
        await self.wait(timeout, progress)
        return await AsyncJobs(self._sender).statistic(self.id)

    async def evaluation(
        self, timeout: float | None = None, progress: bool | Watch | None = None
    ) -> ReleasedEvaluation:
        """The evaluation, when the job, which is for one, is done: see `wait`."""
        await self.wait(timeout, progress)
        return await AsyncJobs(self._sender).evaluation(self.id)

    async def evaluate(self, *, privacy: object, **rest: Any) -> "AsyncJobHandle":
        """A job for how well this job's model does on what was kept out of its dataset: see `AsyncJobs.evaluate`."""
        return await AsyncJobs(self._sender).evaluate(self.id, privacy=privacy, **rest)

    async def wait(self, timeout: float | None = None, progress: bool | Watch | None = None) -> None:
        """Returns when the job is done.

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
                async for event in self.events(timeout):
                    watch(event)
                await self.refresh()
            else:
                watch(as_event(self.job))
        if self.state != "done":
            raise JobNotReleased(self.id, self.state, self.job.error)

    async def model(self) -> Model:
        """The released model."""
        return await AsyncJobs(self._sender).model(self.id)

    async def receipt(self) -> Receipt:
        """The signed receipt, and the keys that the server publishes now."""
        return await AsyncJobs(self._sender).receipt(self.id)

    async def cancel(self) -> Job:
        """Cancels; refunds only if the job has not started."""
        self.job = await self._sender.send(act("DELETE", at("jobs", self.id), Job))
        return self.job


_NAMED = ("loss", "regularizer", "domain", "method", "preparation")


def request_of(dataset: str, target: str | None, privacy: object, rest: dict[str, Any]) -> dict[str, Any]:
    """The request in full: a name stands for what goes by it, a number for an epsilon."""
    request = {"dataset": dataset, "privacy": in_full(privacy)} | ({} if target is None else {"target": target})
    return request | short(rest)


def short(given: dict[str, Any]) -> dict[str, Any]:
    """The same, where a name stands for what goes by it."""
    return given | {key: {"name": given[key]} for key in _NAMED if isinstance(given.get(key), str)}


def in_full(privacy: object) -> dict[str, Any]:
    """A number is an epsilon, at the dataset's delta; ValueError for what is neither one nor a mapping."""
    if isinstance(privacy, SupportsFloat) and not isinstance(privacy, bool):  # NumPy's, too
        return {"epsilon": privacy if isinstance(privacy, int) else float(privacy)}
    if isinstance(privacy, Mapping):
        return dict(privacy)
    said = "privacy is an epsilon, 0.5 say, or {'epsilon': 0.5, 'delta': 1e-6}"
    raise ValueError(f"{said}; this is of type {type(privacy).__name__}")
