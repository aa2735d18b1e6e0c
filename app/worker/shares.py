"""A job's partitions on the workers of a cluster: each worker has a share (consecutive partitions) and sums over it.

The task of the attempt draws all noise and requests sums. It first gives its thread back (`secede`), so that tasks of
shares can run on its worker too, and no waiting task blocks the task that it waits for. The result of a share's task
depends only on the stored values and on the request. If a worker is lost, another worker opens the share and gets the
same request, and the sum is the same to the last bit. These tasks never raise and never log: they return sums, or one
word. See docs/decisions/0023.
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
from app.worker.engine import VANISHED
from app.worker.execute import Payload, SumFailed, word_of
from solvers.data_access.data import Data, Work
from solvers.data_access.partitioned import Part, Partitions, RecordsView, sum_of

_PULSE_SECONDS = 0.25  # between two calls of `pulse` while sums are calculated
_MOST_LOST_WORKERS = 8  # during sums of one run, before the run itself counts as lost
_PRIORITY = 10  # sums run before attempts, because a running attempt waits for them
_RESULT_TIMEOUT_SECONDS = 10.0  # time that the transfer of a result may take


class Share:
    """Consecutive partitions, opened at first use. A share that is sent to another worker is opened there again.

    Parameters
    ----------
    payload : JSON of `Payload`
    numbers : numbers of the partitions
    """

    def __init__(self, payload: str, numbers: range) -> None:
        self._payload, self._numbers = payload, numbers
        self._opened: dict[int, Data] = {}

    def data(self, number: int) -> Data:
        """Return a partition. Raise as `partitions.prepared` does."""
        if number not in self._opened:
            job = Payload.model_validate_json(self._payload)
            assert job.partitions is not None
            self._opened[number] = prepared(job.spec, job.partitions, number, Path(get_worker().local_directory))
        return self._opened[number]

    def __reduce__(self) -> tuple[type["Share"], tuple[str, range]]:
        return Share, (self._payload, self._numbers)

    def __sizeof__(self) -> int:
        """Return the size of the records, although they are not sent, so that Dask moves the work and not the share."""
        return 2**20 + sum(
            sum(a.nbytes for a in (d.records.numbers, d.records.codes, d.y, d.scale)) for d in self._opened.values()
        )


def opened(payload: str, numbers: range) -> Share | str:
    """Return a share with all its partitions opened, or the word for the failure."""
    share = Share(payload, numbers)
    try:
        for number in numbers:
            share.data(number)
    except BaseException as error:
        return word_of(error)
    return share


def summed(share: Share | str, view: RecordsView, work: Work, parts: Sequence[Part]) -> list[NDArray[Any]] | str:
    """Return the sum over each part, or the word for the failure."""
    if isinstance(share, str):
        return share
    try:
        return [sum_of(share.data(number), view, work, slots) for number, slots in parts]
    except BaseException as error:
        return word_of(error)


@contextmanager
def spread(payload: str, count: int) -> Iterator[Partitions]:
    """Yield the partitions, spread over the workers of the cluster on which this task runs."""
    secede()
    shares = Shares(get_client(), payload, count)
    try:
        yield shares
    finally:
        shares.close()


class Shares:
    """The partitions of one run, in the order of their numbers.

    Parameters
    ----------
    client : client of the cluster
    payload : JSON of `Payload`
    count : number of partitions
    """

    def __init__(self, client: Client, payload: str, count: int) -> None:
        self._client, self._payload = client, payload
        self._workers = sorted(client.nthreads())
        many = min(count, len(self._workers))
        self._numbers = [range(count * i // many, count * (i + 1) // many) for i in range(many)]
        self._share_of = {number: i for i, numbers in enumerate(self._numbers) for number in numbers}
        self._shares = [self._open(i) for i in range(many)]
        self._requests: list[Future[Any]] = []
        self._woken, self._lost_workers = threading.Event(), 0

    def sums(
        self, view: RecordsView, work: Work, parts: Sequence[Part], pulse: Callable[[], object]
    ) -> Iterator[NDArray[Any]]:
        """See `Partitions`; raise `SumFailed` if a share cannot be opened, or too many workers were lost."""
        mine = {i: list(own) for i, own in groupby(parts, lambda part: self._share_of[part[0]])}
        sums: dict[int, list[NDArray[Any]]] = {}
        waiting = {i: self._ask(i, view, work, own) for i, own in mine.items()}
        while waiting:
            self._woken.wait(_PULSE_SECONDS)
            self._woken.clear()
            pulse()
            for i in [i for i, future in waiting.items() if future.done()]:
                answer = _answer(waiting.pop(i))
                if isinstance(answer, str):
                    raise SumFailed(answer)
                if answer is None:
                    self._reopen(i)
                    waiting[i] = self._ask(i, view, work, mine[i])
                else:
                    sums[i] = answer
        for i in mine:
            yield from sums[i]

    def close(self) -> None:
        """Cancel all tasks, so that the workers release the shares and the sums."""
        self._client.cancel([*self._shares, *self._requests])
        self._shares, self._requests = [], []

    def _open(self, i: int) -> "Future[Any]":
        """Open a share on a worker of its own, or on another one if that worker is lost."""
        return self._client.submit(
            opened,
            self._payload,
            self._numbers[i],
            pure=False,
            workers=[self._workers[i]],
            allow_other_workers=True,
            priority=_PRIORITY,
        )

    def _ask(self, i: int, view: RecordsView, work: Work, parts: list[Part]) -> "Future[Any]":
        future = self._client.submit(summed, self._shares[i], view, work, parts, pure=False, priority=_PRIORITY)
        self._requests = [request for request in self._requests if not request.done()] + [future]
        future.add_done_callback(lambda _: self._woken.set())
        return future

    def _reopen(self, i: int) -> None:
        self._lost_workers += 1
        if self._lost_workers > _MOST_LOST_WORKERS:
            raise SumFailed(VANISHED)
        if self._shares[i].status not in ("finished", "pending"):
            self._shares[i] = self._open(i)


def _answer(future: "Future[Any]") -> list[NDArray[Any]] | str | None:
    """Return the result of a task, or None if the task was lost with its worker."""
    try:
        answer: list[NDArray[Any]] | str = future.result(timeout=_RESULT_TIMEOUT_SECONDS)
    except (KilledWorker, FutureCancelledError, CommClosedError, OSError, TimeoutError):
        return None
    return answer
