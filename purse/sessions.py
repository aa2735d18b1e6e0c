"""`purse.session`: reserve budget, and add exact Gaussian noise to your own answers on this machine."""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from purse.client import Client, SessionHandle
from purse.extras import needing
from purse.receipts import Receipt
from purse.wire.datasets import Dataset


def session(
    dataset: Dataset | str,
    privacy: object = 1.0,
    *,
    steps: int = 1,
    sampling_probability: float = 1.0,
    title: str | None = None,
    lifetime: int | None = None,
    url: str | None = None,
    token: str | None = None,
) -> "LocalSession":
    """Reserve budget for answers of your own code, and return a session that adds their noise, for a `with` block.

        with purse.session("people", privacy=1.0, steps=2) as session:
            total = session.gaussian(incomes.sum(), sensitivity=100_000)
            count = session.gaussian(len(incomes), sensitivity=1)

    Parameters
    ----------
    dataset : a dataset, its id or its name
    privacy : epsilon at the dataset's delta, or `{"epsilon": ..., "delta": ...}`, of all answers together
    steps : planned number of answers; those that are not used are refunded at the end of the block
    sampling_probability : probability with which each record takes part in an answer, if your code samples them
    title : your name for the session
    lifetime : seconds after which an open session expires, with its whole reservation charged; a day if None
    url, token : the server and your token; PURSE_URL and PURSE_TOKEN by default, as for `Client`

    Raises
    ------
    NotInstalled
        without the extra `solvers`, which has the noise.
    ProblemError
        with the code `budget_exhausted` if the plan does not fit the budget.
    """
    with needing("purse.session", "solvers"):
        from accounting.noise import Noise  # late: an extra
    connect = partial(Client, url, token)
    client = connect()
    try:
        handle = client.sessions.open(
            dataset=dataset,
            privacy=privacy,
            steps=steps,
            sampling_probability=sampling_probability,
            title=title,
            lifetime=lifetime,
        )
    except BaseException:
        client.close()
        raise
    return LocalSession(client, handle, Noise(), connect)


@final
class LocalSession:
    """A session whose noise is drawn on this machine; a context manager that closes the session at its normal end.

    After an exception the session stays open, because an error may depend on the data.

    Parameters
    ----------
    client : the client that opened the session; it is closed with it
    handle : the open session; its plan has Gaussian events
    noise : an `accounting.noise.Noise`
    connect : opens another client for the receipt
    """

    def __init__(self, client: Client, handle: SessionHandle, noise: Any, connect: Callable[[], Client]) -> None:
        self.handle = handle
        self._client, self._noise, self._connect = client, noise, connect

    def __repr__(self) -> str:
        return repr(self.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.handle.__exit__(kind, error, trace)
        finally:
            self._client.close()

    @property
    def id(self) -> str:
        """The session's id."""
        return self.handle.id

    def gaussian(self, value: ArrayLike, *, sensitivity: float, event: int = 0) -> Any:
        """Record one answer, then return it with Gaussian noise.

        The noise is exact on a lattice: `value` is rounded to it, and the noise covers the rounding
        (docs/proofs/noise.md). Your code must bound each record's part of `value`, also in its own rounding.

        Parameters
        ----------
        value : the exact answer, a number or an array
        sensitivity : the most that one record (or one person) adds to `value`, in l2 and in its unit
        event : position of the answer's kind in the plan

        Returns
        -------
        float or array, as `value`.

        Raises
        ------
        OutOfRange
            if the sensitivity is not a positive number, or if `value` is not finite; its answer is then recorded.
        ProblemError
            session_exhausted or session_ended; then no noise is drawn.
        """
        from accounting.mechanisms import Gaussian  # late: an extra

        answer: NDArray[np.float64] = np.asarray(value, dtype=np.float64)
        planned = self.handle.plan[event].event
        multiplier = float(planned.get("event", planned)["noise_multiplier"])
        Gaussian().std(multiplier, sensitivity, max(answer.size, 1))  # refuses a sensitivity before it is recorded
        self.handle.record(1, event)
        noisy = Gaussian().perturb(answer.ravel(), multiplier, sensitivity, self._noise).reshape(answer.shape)
        return noisy if answer.ndim else float(noisy)

    def close(self) -> None:
        """End the session and close the client. Unrecorded answers are refunded unless the rule forbids it."""
        self.__exit__(None, None, None)

    def receipt(self) -> Receipt:
        """Return the signed receipt of the ended session."""
        with self._connect() as client:
            return client.sessions.get(self.id).receipt()
