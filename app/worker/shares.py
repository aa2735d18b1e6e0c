"""A job's partitions over the workers of a cluster: each holds a share, a run of partitions, and sums over it.

The attempt's own task draws all noise and asks for sums; it gives its thread back first (`secede`), so that the shares'
tasks run on its worker too, and nothing that waits holds what it waits for. A share's task is a function of what was
stored and of what it is asked: where a worker is lost, the share is opened by another and asked again, and the answer
is the same to the last bit. It never raises and never logs: what goes back is sums, or one word. Docs/decisions/0023.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from distributed import Client, Future, get_client, get_worker, secede
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker
from numpy.typing import NDArray

from app.sources.partitions import prepared
from app.worker.engine import AWAY
from app.worker.execute import Ended, Payload, word_of
from solvers.data_access.data import Data, Work
from solvers.data_access.partitioned import Part, Partitions, View, sum_of

_PULSE = 0.25  # seconds between two heartbeats while sums are waited for
_LOSSES = 8  # workers that a run may lose while they sum, before it is given up as lost itself
_FIRST = 10  # priority: a sum is waited for by an attempt that has begun, an attempt by nobody that has


class Share:
    """Some partitions, opened here when they are first asked for; sent elsewhere, it is opened there anew.

    Parameters
    ----------
    payload : JSON of `Payload`
    numbers : the partitions'
    """

    def __init__(self, payload: str, numbers: range) -> None:
        self._payload, self._numbers = payload, numbers
        self._held: dict[int, Data] = {}

    def data(self, number: int) -> Data:
        """A partition; raises as `partitions.prepared`."""
        if number not in self._held:
            job = Payload.model_validate_json(self._payload)
            assert job.partitions is not None
            self._held[number] = prepared(job.spec, job.partitions, number, Path(get_worker().local_directory))
        return self._held[number]

    def __reduce__(self) -> tuple[type["Share"], tuple[str, range]]:
        return Share, (self._payload, self._numbers)

    def __sizeof__(self) -> int:
        """As if its records came with it: Dask then moves the work and not the share."""
        return 2**20 + sum(sum(a.nbytes for a in (*d.records[:2], d.y, d.scale)) for d in self._held.values())


def opened(payload: str, numbers: range) -> Share | str:
    """A share, all of it opened; or the word for why not."""
    share = Share(payload, numbers)
    try:
        for number in numbers:
            share.data(number)
    except BaseException as error:
        return word_of(error)
    return share


def summed(share: Share | str, view: View, work: Work, parts: Sequence[Part]) -> list[NDArray[Any]] | str:
    """The sum over each part; or the word for why not."""
    if isinstance(share, str):
        return share
    try:
        return [sum_of(share.data(number), view, work, places) for number, places in parts]
    except BaseException as error:
        return word_of(error)


@contextmanager
def spread(payload: str, count: int) -> Iterator[Partitions]:
    """So many partitions on the workers of the cluster on which this task runs."""
    secede()
    shares = Shares(get_client(), payload, count)
    try:
        yield shares
    finally:
        shares.close()


class Shares:
    """The partitions of one run. Their order is that of their numbers, whoever has them.

    Parameters
    ----------
    client : a cluster's
    payload : JSON of `Payload`
    count : of partitions
    """

    def __init__(self, client: Client, payload: str, count: int) -> None:
        self._client, self._payload = client, payload
        self._workers = sorted(client.nthreads())
        many = min(count, len(self._workers))
        self._numbers = [range(count * i // many, count * (i + 1) // many) for i in range(many)]
        self._whose = {number: i for i, numbers in enumerate(self._numbers) for number in numbers}
        self._shares = [self._open(i) for i in range(many)]
        self._asked: list[Future[Any]] = []
        self._woken, self._lost = threading.Event(), 0

    def sums(
        self, view: View, work: Work, parts: Sequence[Part], pulse: Callable[[], object]
    ) -> Iterator[NDArray[Any]]:
        """See `Partitions`; `Ended` if a share cannot be had, or too many workers were lost."""
        mine = {i: list(own) for i, own in groupby(parts, lambda part: self._whose[part[0]])}
        found: dict[int, list[NDArray[Any]]] = {}
        waiting = {i: self._ask(i, view, work, own) for i, own in mine.items()}
        while waiting:
            self._woken.wait(_PULSE)
            self._woken.clear()
            pulse()
            for i in [i for i, future in waiting.items() if future.done()]:
                answer = _answer(waiting.pop(i))
                if isinstance(answer, str):
                    raise Ended(answer)
                if answer is None:
                    self._reopen(i)
                    waiting[i] = self._ask(i, view, work, mine[i])
                else:
                    found[i] = answer
        for i in mine:
            yield from found[i]

    def close(self) -> None:
        """Nothing of it is kept anywhere."""
        self._client.cancel([*self._shares, *self._asked])
        self._shares, self._asked = [], []

    def _open(self, i: int) -> "Future[Any]":
        """On a worker of its own, if that is there."""
        worker = [self._workers[i]]
        where: dict[str, Any] = {"workers": worker, "allow_other_workers": True, "priority": _FIRST}
        return self._client.submit(opened, self._payload, self._numbers[i], pure=False, **where)

    def _ask(self, i: int, view: View, work: Work, parts: list[Part]) -> "Future[Any]":
        future = self._client.submit(summed, self._shares[i], view, work, parts, pure=False, priority=_FIRST)
        self._asked = [other for other in self._asked if not other.done()] + [future]
        future.add_done_callback(lambda _: self._woken.set())
        return future

    def _reopen(self, i: int) -> None:
        self._lost += 1
        if self._lost > _LOSSES:
            raise Ended(AWAY)
        if self._shares[i].status not in ("finished", "pending"):
            self._shares[i] = self._open(i)


def _answer(future: "Future[Any]") -> list[NDArray[Any]] | str | None:
    """What a task came to; None if it was lost with its worker."""
    try:
        found: list[NDArray[Any]] | str = future.result(timeout=10)
    except (KilledWorker, FutureCancelledError, CommClosedError, OSError, TimeoutError):
        return None
    return found
