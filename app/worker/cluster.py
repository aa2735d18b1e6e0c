"""Dask as the engine: an embedded cluster of local processes that die with this one, or a remote scheduler.

The channel is mutually authenticated TLS even when embedded, because an open Dask scheduler runs code of anybody who
reaches it. Several servers may share a remote scheduler. A plugin there counts the slots that each of them holds
(`app.worker.orders.Slots`).
"""

import logging
import os
import signal
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
from app.worker.engine import RAISED, VANISHED, Handle

# Dask configures these loggers when it is loaded. Its option `silence_logs` expects a handler that ours do not have.
for _logger in ("distributed", "distributed.client"):
    logging.getLogger(_logger).setLevel(logging.CRITICAL)

GRACE_SECONDS = 5.0  # time that a cancelled attempt has to stop before its worker is restarted
START_TIMEOUT_SECONDS = 120.0  # time that a cluster or a worker may take to start
CHECK_INTERVAL_SECONDS = 5.0  # between two counts of local workers, or two attempts to reconnect
_FETCH_TIMEOUT_SECONDS = 10.0  # time that the transfer of an output may take
_HEARTBEAT_SECONDS = 15.0  # between two heartbeats of a worker; its connection and its nanny report its end
_QUIET: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],  # these pages have no access control
    "distributed.worker.http.routes": [],
    # An idle cluster uses no processor time: it neither profiles nor measures itself, nor moves data between workers.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.limit": "24h",
    "distributed.admin.tick.cycle": "1h",
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.client.scheduler-info-interval": "1h",
}


def configure() -> None:
    """Configure Dask for the rest of this process, and for the processes that it starts.

    The interval of heartbeats is neither a setting nor within reach of a plugin: the scheduler returns it with each
    answer to a worker, by default half a second in a small cluster. So the function that computes it is replaced.
    """
    dask.config.set(_QUIET)
    scheduler.heartbeat_interval = lambda n: _HEARTBEAT_SECONDS  # noqa: ARG005  # Dask passes `n` by position


class DaskEngine:
    """An engine that runs attempts as Dask tasks. Dask never retries them, because we count lost workers.

    Parameters
    ----------
    settings : `workers` local processes, or the remote `scheduler` with its TLS files

    Attributes
    ----------
    client : client of the scheduler
    cluster : the local processes; None with a remote scheduler
    """

    def __init__(self, settings: Settings) -> None:
        forget_secrets()  # permanently, because workers that are started later inherit the environment
        self._settings, self._local = settings, settings.workers
        self._checked_at, self._complete_at = 0.0, time.monotonic()
        configure()
        self.cluster = None if settings.scheduler is not None else _cluster(settings)
        try:
            self.client = self._connected(START_TIMEOUT_SECONDS)
        except BaseException:
            if self.cluster is not None:
                self.cluster.close(timeout=GRACE_SECONDS)
            raise

    def _connected(self, patience: float) -> Client:
        """Return a client. Remote workers may join and leave, and the process that starts them prepares them."""
        address = self.cluster or self._settings.scheduler
        client = Client(address, security=_security(self._settings), timeout=patience)
        if self.cluster is not None:
            client.wait_for_workers(1, timeout=START_TIMEOUT_SECONDS)
            client.register_plugin(orders.Prepare())
        return client

    @property
    def slots(self) -> int:
        """Number of local processes, or of threads of the remote workers; 0 without a connection."""
        if self.client.status != "running":
            return 0
        if self.cluster is None:
            return sum(self.client.nthreads().values())
        if self._is_check_due():
            self._replace_lost(self.cluster)
        return self._local

    def take(self, held_slots: int) -> bool:
        """See `Engine`."""
        if self.cluster is not None:
            return held_slots < self.slots
        if self.client.status in ("closing", "closed"):
            self._reconnect()
        return self.slots > 0 and self._hold(held_slots, wants_more=True)

    def hold(self, held_slots: int) -> None:
        """See `Engine`."""
        if self.cluster is None and self.client.status == "running":
            self._hold(held_slots, wants_more=False)

    def _hold(self, held_slots: int, wants_more: bool) -> bool:
        """Return whether the scheduler grants one more slot. Close a client that the scheduler has removed.

        After a pause or a restart of the scheduler, Dask's client may run without being registered there. No end of an
        attempt would reach it. When it closes, its attempts end as lost.
        """
        gets_more = self.client.run_on_scheduler(orders.hold, self.client.id, held_slots, wants_more)
        if gets_more is None:
            with suppress(OSError, TimeoutError):
                self.client.close(timeout=GRACE_SECONDS)
        return bool(gets_more)

    def submit(self, job_id: str, attempt: int, payload: str) -> Handle:
        """Start an attempt on a free worker."""
        key = f"{job_id}-{attempt}"
        if attempt > 1 and self.cluster is None:  # the previous attempt may still run for a dead server
            _ask(self.client, f"{job_id}-{attempt - 1}")
        future = self.client.submit(orders.attempt, payload, key, key=key, pure=False, retries=0)
        return _DaskHandle(self.client, future, key)

    def _reconnect(self) -> None:
        """Replace a client that has given up its scheduler, at most once per check interval."""
        if self._is_check_due():
            with suppress(OSError, TimeoutError):
                self.client = self._connected(GRACE_SECONDS)

    def _is_check_due(self) -> bool:
        """Return whether the check interval has passed, and begin another one if so."""
        now = time.monotonic()
        is_due = now - self._checked_at > CHECK_INTERVAL_SECONDS
        if is_due:
            self._checked_at = now
        return is_due

    def close(self) -> None:
        """Close the client and an embedded cluster. Parts that do not end in time end with this process."""
        if self.cluster is not None:
            _kill_starting(self.cluster)
        for part, patience in ((self.client, 5), (self.cluster, 10)):
            try:
                if part is not None:
                    part.close(timeout=patience)
            except Exception as error:
                logging.getLogger(__name__).warning("engine_not_closed %s", type(error).__name__)

    def _replace_lost(self, cluster: LocalCluster) -> None:
        """Replace workers that Dask does not replace.

        Dask restarts a killed worker, but closes the nanny of one that is away again at Dask's own check. A nanny whose
        worker has been missing for longer than a start may take is given up. No plugin can do this: nothing in the
        plugin interface or in `LocalCluster` replaces one nanny, so its entry in `cluster.workers` is deleted and
        `scale` starts another.
        """
        loop = cluster.loop
        connected = self.client.nthreads()
        now = time.monotonic()
        if loop is None or len(connected) >= self._local:
            self._complete_at = now
            return
        is_overdue = now - self._complete_at > START_TIMEOUT_SECONDS
        if is_overdue:
            self._complete_at = now

        async def replace() -> None:
            for name, nanny in list(cluster.workers.items()):
                is_stuck = is_overdue and nanny.worker_address not in connected
                if is_stuck or nanny.status in (Status.closed, Status.failed):
                    del cluster.workers[name]
                    if is_stuck:
                        await nanny.close(timeout=GRACE_SECONDS)
            cluster.scale(self._local)

        loop.add_callback(replace)


class _DaskHandle:
    def __init__(self, client: Client, future: Future[str], key: str) -> None:
        self._client, self._future, self._key = client, future, key
        self._cancelled = threading.Event()
        self._outcome: str | None = None
        self._fetching = threading.Lock()

    def done(self) -> bool:
        return self._outcome is not None or bool(self._future.done())

    def result(self) -> str:
        """Fetch the outcome once and release it, so that its worker may leave and Dask never runs the task again."""
        with self._fetching:
            if self._outcome is None:
                self._outcome = self._fetched()
                self._future.release()
            return self._outcome

    def _fetched(self) -> str:
        """Fetch the output; errors of Dask mean a lost worker, or code that failed before our function."""
        try:
            return str(self._future.result(timeout=_FETCH_TIMEOUT_SECONDS))
        except (KilledWorker, FutureCancelledError, CommClosedError, OSError, TimeoutError):
            return VANISHED
        except Exception:
            return RAISED

    def cancel(self) -> None:
        if self._outcome is not None or self._cancelled.is_set():
            return
        self._cancelled.set()
        threading.Thread(target=self._stop, name=f"stop {self._key}", daemon=True).start()

    def _stop(self) -> None:
        """Ask until the attempt ends: the scheduler may not know its worker yet, or the worker may be away."""
        is_done = threading.Event()
        self._future.add_done_callback(lambda _: is_done.set())
        while self._client.status == "running":
            try:
                _ask(self._client, self._key)
                if is_done.wait(GRACE_SECONDS):
                    return
                busy = [address for address, keys in self._client.processing().items() if self._key in keys]
                if busy:
                    self._client.restart_workers(busy, timeout=2 * GRACE_SECONDS, raise_for_error=False)
            except Exception as error:
                logging.getLogger(__name__).warning("attempt_not_stopped %s %s", self._key, type(error).__name__)
            if is_done.wait(GRACE_SECONDS):
                return


def _ask(client: Client, key: str) -> None:
    """Ask every worker to stop this attempt; do not wait for the answers, because a worker may stand still."""

    def ask() -> None:
        with suppress(Exception):
            client.run(orders.stop, key, on_error="ignore")

    threading.Thread(target=ask, name=f"stop {key}", daemon=True).start()


def _kill_starting(cluster: LocalCluster) -> None:
    """Kill workers that are starting, because Dask would let their start end before it stops them."""
    for nanny in list(cluster.workers.values()):
        with suppress(Exception):  # it may end or change at any time, and is closed below in any case
            if nanny.pid is not None and nanny.process.status == Status.starting:
                nanny.close_gracefully()  # otherwise it would start the worker again
                os.kill(nanny.pid, signal.SIGKILL)


def _cluster(settings: Settings) -> LocalCluster:
    """Return local processes behind a temporary certificate authority, without a dashboard.

    Dask's memory limit is off: it counts mapped pages of a dataset as used, and would kill a healthy worker.
    """
    scratch = settings.make_home() / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    with dask.config.set({"temporary-directory": str(scratch)}):  # the scheduler would otherwise use /tmp
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
            death_timeout=START_TIMEOUT_SECONDS,  # otherwise Dask waits forever for a process that does not start
        )


def _security(settings: Settings) -> Security | None:
    if settings.scheduler is None:
        return None  # the cluster has its own
    return Security(
        tls_ca_file=str(settings.scheduler_ca),
        tls_client_cert=str(settings.scheduler_cert),
        tls_client_key=str(settings.scheduler_key),
        require_encryption=True,
    )
