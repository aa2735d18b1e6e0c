"""Sessions from asyncio: budget that is reserved for answers which your own program computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, final

from purse.client.calls import Call, api_path, dataset_path, get, post_once, reader, reference
from purse.client.requests import privacy_of, without_none
from purse.client.sending import CallGroup, Sender
from purse.receipts import Receipt
from purse.wire.base import Order, Page
from purse.wire.datasets import Dataset
from purse.wire.receipts import KeySet, ReceiptDocument
from purse.wire.sessions import PlannedEvent, Session, SessionState


@final
class AsyncSessions(CallGroup):
    """Sessions of a server."""

    async def open(
        self,
        *,
        dataset: Dataset | str,
        events: Sequence[Mapping[str, Any]] | None = None,
        privacy: object = None,
        steps: int | None = None,
        sampling_probability: float | None = None,
        title: str | None = None,
        lifetime: int | None = None,
        idempotency_key: str | None = None,
    ) -> "AsyncSessionHandle":
        """Reserve the budget for answers that your own program computes. Use the handle in an `async with` block.

        Pass `events`, or pass `privacy` and `steps` for the noise of that many answers.

        Parameters
        ----------
        dataset : a dataset, its id or its name
        events : the planned answers, with dp-accounting's names, such as
            `{"type": "GaussianDpEvent", "noise_multiplier": 4.0}`
        privacy : `{"epsilon": ..., "delta": ...}`, or an epsilon at the dataset's delta
        steps : number of answers
        sampling_probability : with `steps`, the probability that a record takes part in an answer; 1 if None
        title : your name for the session
        lifetime : seconds until an open session expires, with its whole reservation charged; a day if None
        idempotency_key : key of your own; by default the client makes one, so that a lost response never charges twice

        Raises
        ------
        ProblemError
            budget_exhausted, whose `remaining` states what is left; and others.
        """
        target = None if privacy is None else privacy_of(privacy)
        planned = None if events is None else list(events)
        request = without_none(
            events=planned,
            privacy=target,
            steps=steps,
            sampling_probability=sampling_probability,
            title=title,
            lifetime=lifetime,
        )
        path = dataset_path(dataset, "sessions")
        call = post_once(path, request, Session, idempotency_key)
        return AsyncSessionHandle(self._sender, await self._sender.send(call))

    async def get(self, session: str) -> "AsyncSessionHandle":
        """Return the session with this id, also in a later process."""
        return AsyncSessionHandle(self._sender, await self._sender.send(get(api_path("sessions", session), Session)))

    async def list(self, *, dataset: Dataset | str | None = None, order: Order = "desc") -> Sequence[Session]:
        """Return the sessions that this token can see, on one dataset or all, the newest first."""
        named = None if dataset is None else reference(dataset)
        return await self._sender.all(api_path("sessions"), Page[Session], dataset=named, order=order)


@final
@dataclass(slots=True)
class AsyncSessionHandle:
    """One session; `session` is its state as of the server's last response. An async context manager that closes it.

    After an exception inside the block the session stays open, because the exception may depend on the data.
    """

    _sender: Sender
    session: Session

    def __repr__(self) -> str:
        return repr(self.session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        error.add_note(
            f"The session {self.id} stays open, and is charged as a whole when it expires: if the error depends on the "
            "data, a refund would reveal it."
        )

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def state(self) -> SessionState:
        """The state as of the last response."""
        return self.session.state

    @property
    def noise_multiplier(self) -> float | None:
        """Noise std over the largest contribution of one record; None if the session was opened for events."""
        return self.session.noise_multiplier

    @property
    def plan(self) -> Sequence[PlannedEvent]:
        """The planned answers, with the number of those that were recorded."""
        return self.session.plan

    async def record(self, steps: int = 1, event: int = 0) -> Session:
        """Record answers of the plan's event at this position. Call it before you compute them.

        Raises
        ------
        ProblemError
            session_exhausted or session_ended: compute no answer then; and others.
        """
        path = api_path("sessions", self.id, "steps")
        self.session = await self._sender.send(post_once(path, {"steps": steps, "event": event}, Session))
        return self.session

    async def close(self) -> Session:
        """End the session; answers that were not recorded are refunded unless its rule forbids that."""
        path = api_path("sessions", self.id, "close")
        self.session = await self._sender.send(Call("POST", path, reader(Session), repeatable=True))
        return self.session

    async def refresh(self) -> Session:
        """Read the session again and return it."""
        self.session = await self._sender.send(get(api_path("sessions", self.id), Session))
        return self.session

    async def receipt(self) -> Receipt:
        """Return the signed receipt of an ended session, and the server's current keys."""
        document = await self._sender.send(get(api_path("sessions", self.id, "receipt"), ReceiptDocument))
        return Receipt(document, await self._sender.send(get(api_path("keys"), KeySet)))
