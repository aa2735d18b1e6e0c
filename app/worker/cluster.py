"""Dask as the engine: an embedded cluster of local processes that die with this one, or a remote scheduler.

Its channel is mutually authenticated TLS even when embedded, since an open Dask scheduler runs anybody's code. A remote
scheduler, which several servers may share, also keeps count of the slots that each of them holds: it is one loop, so
that no two of them take the same one.
"""

import logging
import threading
import time
from contextlib import suppress
from typing import Any

import dask
from distributed import Client, Future, LocalCluster, scheduler
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from distributed.core import Status
from distributed.scheduler import KilledWorker
from distributed.security import Security

from app.calculation.calculators import ONE_THREAD
from app.settings import Settings, forget_secrets
from app.worker import orders
from app.worker.engine import Handle, Outcome, outcome

# Dask sets these as it is loaded, and `silence_logs` looks for a handler that a process with logs of its own lacks.
for _logger in ("distributed", "distributed.client"):
    logging.getLogger(_logger).setLevel(logging.CRITICAL)

_GRACE = 5.0  # seconds to stop by itself before the worker is restarted
_START = 120.0
_LOOK = 5.0  # seconds between two counts of the local workers
BEAT = 15.0  # seconds between two heartbeats of a local worker, whose end is seen by its connection and its nanny
QUIET: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],  # these pages ask nobody for a token
    "distributed.worker.http.routes": [],
    # An idle cluster does nothing: it neither profiles nor measures itself, and has no memory to move about.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.limit": "24h",
    "distributed.admin.tick.cycle": "1h",
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.client.scheduler-info-interval": "1h",
}


class DaskEngine:
    """Attempts as Dask tasks that are never retried by Dask: a lost worker is ours to count.

    Parameters
    ----------
    settings : `workers` local processes, or the remote `scheduler` with its TLS files
    """

    def __init__(self, settings: Settings) -> None:
        forget_secrets()  # for good: a worker that is replaced later inherits the environment too
        self._settings, self._local = settings, settings.workers
        self._looked, self._whole = 0.0, time.monotonic()
        dask.config.set(QUIET)  # for good, too: so does the configuration
        self._cluster = None if settings.scheduler is not None else _cluster(settings)
        try:
            self._client = self._connected(_START)
        except BaseException:
            if self._cluster is not None:
                self._cluster.close(timeout=_GRACE)
            raise

    def _connected(self, patience: float) -> Client:
        """Workers of a remote scheduler come and go, and are prepared by those who start them."""
        address = self._cluster or self._settings.scheduler
        client = Client(address, security=_security(self._settings), timeout=patience)
        if self._cluster is None:
            client.run_on_scheduler(_never_retry)
        else:
            client.wait_for_workers(1, timeout=_START)
            client.register_plugin(orders.Prepare())
        return client

    @property
    def slots(self) -> int:
        """One for each local process, or for each thread of the remote workers."""
        if self._client.status != "running":
            return 0
        if self._cluster is None:
            return sum(self._client.nthreads().values())
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self._replace_lost(self._cluster)
        return self._local

    def take(self, held: int) -> bool:
        """See `Engine`."""
        if self._cluster is not None:
            return held < self.slots
        if self._client.status == "closed":
            self._reconnect()
        return self.slots > 0 and bool(self._client.run_on_scheduler(_share, self._client.id, held, 1))

    def hold(self, held: int) -> None:
        """See `Engine`."""
        if self._cluster is None and self._client.status == "running":
            self._client.run_on_scheduler(_share, self._client.id, held, 0)

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Start an attempt on whichever worker is free."""
        key = f"{job_id}-{attempt}"
        if attempt > 1 and self._cluster is None:  # the one before may still run, for a server that is no more
            _ask(self._client, f"{job_id}-{attempt - 1}")
        future = self._client.submit(orders.attempt, payload, key, key=key, pure=False, retries=0)
        return _DaskHandle(self._client, future, key)

    def _reconnect(self) -> None:
        """A client that has given its scheduler up is replaced by another one, at most every few seconds."""
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            with suppress(OSError, TimeoutError):
                self._client = self._connected(_GRACE)

    def close(self) -> None:
        """Close the client; an embedded cluster goes with it. What does not end in time ends with this process."""
        for part, patience in ((self._client, 5), (self._cluster, 10)):
            try:
                if part is not None:
                    part.close(timeout=patience)
            except Exception as error:
                logging.getLogger(__name__).warning("engine_not_closed %s", type(error).__name__)

    def _replace_lost(self, cluster: LocalCluster) -> None:
        """Dask restarts a killed worker by itself, but closes its nanny if it is away again when it is looked for.

        A nanny that has brought no worker for as long as a start may take is given up, whatever it waits for.
        """
        loop, connected, now = cluster.loop, self._client.nthreads(), time.monotonic()
        if loop is None or len(connected) >= self._local:
            self._whole = now
            return
        given_up = now - self._whole > _START
        if given_up:
            self._whole = now

        async def replace() -> None:
            for name, nanny in list(cluster.workers.items()):
                stuck = given_up and nanny.worker_address not in connected
                if stuck or nanny.status in (Status.closed, Status.failed):
                    del cluster.workers[name]
                    if stuck:
                        await nanny.close(timeout=_GRACE)
            cluster.scale(self._local)

        loop.add_callback(replace)


class _DaskHandle:
    def __init__(self, client: Client, future: Future[str], key: str) -> None:
        self._client, self._future, self._key = client, future, key
        self._cancelled = threading.Event()
        self._said: Outcome | None = None
        self._asking = threading.Lock()

    def done(self) -> bool:
        return self._said is not None or bool(self._future.done())

    def result(self) -> Outcome:
        """What it said is its worker's no more, which may go: nobody calculates it again, or fetches it twice."""
        with self._asking:
            if self._said is None:
                self._said = self._fetched()
                self._future.release()
            return self._said

    def _fetched(self) -> Outcome:
        """An error of Dask's own is a lost worker, or code that never got to our function."""
        try:
            output = str(self._future.result(timeout=10))
        except (KilledWorker, FutureCancelledError, CommClosedError, OSError, TimeoutError):
            return Outcome("vanished")
        except Exception:
            return Outcome("raised")
        return outcome(output)

    def cancel(self) -> None:
        if self._said is not None or self._cancelled.is_set():
            return
        self._cancelled.set()
        threading.Thread(target=self._stop, name=f"stop {self._key}", daemon=True).start()

    def _stop(self) -> None:
        """Asked again until it is over: a scheduler may not know yet where it runs, a worker may be away just then."""
        waited = threading.Event()
        self._future.add_done_callback(lambda _: waited.set())
        while self._client.status == "running":
            try:
                _ask(self._client, self._key)
                if waited.wait(_GRACE):
                    return
                busy = [address for address, keys in self._client.processing().items() if self._key in keys]
                if busy:
                    self._client.restart_workers(busy, timeout=2 * _GRACE, raise_for_error=False)
            except Exception as error:
                logging.getLogger(__name__).warning("cannot stop %s: %s", self._key, type(error).__name__)
            if waited.wait(_GRACE):
                return


def _ask(client: Client, key: str) -> None:
    """Asks every worker to stop this attempt, if it has it; waits for none of them, since one may stand still."""

    def ask() -> None:
        with suppress(Exception):
            client.run(orders.stop, key, on_error="ignore")

    threading.Thread(target=ask, name=f"stop {key}", daemon=True).start()


def _cluster(settings: Settings) -> LocalCluster:
    """Local processes behind a throwaway certificate authority, without a dashboard.

    No memory limit of Dask's: it counts mapped pages of a dataset as used, and would kill a healthy worker.
    """
    scratch = settings.make_home() / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    scheduler.heartbeat_interval = lambda n: BEAT  # noqa: ARG005, half a second for a few; no setting names it
    with dask.config.set({"temporary-directory": str(scratch)}):  # the scheduler would make itself a folder in /tmp
        return LocalCluster(
            n_workers=settings.workers,
            threads_per_worker=1,
            processes=True,
            security=True,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
            memory_limit=None,
            local_directory=str(scratch),
            env=ONE_THREAD,
            death_timeout=_START,  # without one Dask waits for ever for a process that does not come
        )


def _security(settings: Settings) -> Security | None:
    if settings.scheduler is None:
        return None  # the cluster's own
    return Security(
        tls_ca_file=str(settings.scheduler_ca),
        tls_client_cert=str(settings.scheduler_cert),
        tls_client_key=str(settings.scheduler_key),
        require_encryption=True,
    )


def _never_retry(dask_scheduler: Any) -> None:
    """Runs on a remote scheduler: a task whose worker is lost fails at once."""
    dask_scheduler.allowed_failures = 0


def _share(client: str, held: int, more: int, dask_scheduler: Any) -> bool:
    """Runs on a remote scheduler: notes how many slots a server holds, and one more if that is free and wanted."""
    taken: dict[str, int] = dask_scheduler.__dict__.setdefault("purse_taken", {})
    for gone in taken.keys() - dask_scheduler.clients.keys():
        del taken[gone]
    taken[client] = held
    free = sum(worker.nthreads for worker in dask_scheduler.running) - sum(taken.values())
    taken[client] += min(more, max(free, 0))
    return taken[client] > held
