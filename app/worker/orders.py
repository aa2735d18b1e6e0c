"""The functions and plugins that the engine's channel names: attempts, requests to stop, preparation, and slots.

The scheduler and the parents of workers import this module too. It therefore loads solvers and data access only inside
functions that run on a worker.
"""

import asyncio
import os
import signal
import threading

from distributed import Scheduler, SchedulerPlugin, Worker, WorkerPlugin
from distributed.core import Status

from app.worker.engine import Folders


def attempt(payload: str, key: str) -> str:
    """See `task.attempt`."""
    from app.worker import task  # late: solvers

    return task.attempt(payload, key)


def stop(key: str) -> None:
    """See `task.stop`."""
    from app.worker import task  # late: solvers

    task.stop(key)


class Prepare(WorkerPlugin):
    """A plugin that runs in every worker at its start, and loads the solvers before the first job.

    Parameters
    ----------
    folders : folders of this machine, if the worker is not a child of the server
    patience : seconds that an attempt may go on after such a worker received a request to stop
    """

    name = "purse"

    def __init__(self, folders: Folders | None = None, patience: float = 0.0) -> None:
        self._folders, self._patience = folders, patience

    def setup(self, worker: Worker) -> None:
        """Remove settings, silence logs, and leave interrupts to the parent process, which handles them."""
        for name in [n for n in os.environ if n.startswith("PURSE_")]:
            del os.environ[name]
        from app.worker import task  # late: solvers

        task.prepare(self._folders)
        if threading.current_thread() is not threading.main_thread():
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._folders is None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._leave, worker)

    def _leave(self, worker: Worker) -> None:
        if worker.status == Status.running:
            from app.worker import task  # late: solvers

            self._leaving = asyncio.ensure_future(task.leave(worker, self._patience))


class Slots(SchedulerPlugin):
    """A plugin of a remote scheduler that counts the slots of each server.

    A scheduler has one event loop, so no two servers take the same slot.
    """

    name = "purse-slots"

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}

    def remove_client(self, scheduler: Scheduler, client: str) -> None:  # noqa: ARG002  # Dask passes it by name
        """Release the slots of a server whose connection has ended."""
        self._slots.pop(client, None)

    def hold(self, scheduler: Scheduler, client: str, held_slots: int, wants_more: bool) -> bool:
        """Record the number of slots that a server holds; return whether it got one more, if it wants one."""
        free = sum(worker.nthreads for worker in scheduler.running) - sum(self._slots.values())
        free += self._slots.get(client, 0) - held_slots
        gets_more = wants_more and free > 0
        self._slots[client] = held_slots + gets_more
        return gets_more


def hold(client: str, held_slots: int, wants_more: bool, dask_scheduler: Scheduler) -> bool | None:
    """See `Slots.hold`; runs on the scheduler, by `Client.run_on_scheduler`. None: the scheduler lacks this client.

    A scheduler that was just started gets the plugin here, and lets a task whose worker is lost fail at once. Dask's
    client reconnects by itself and does not register plugins again.
    """
    if client not in dask_scheduler.clients:
        return None
    if Slots.name not in dask_scheduler.plugins:
        dask_scheduler.allowed_failures = 0
        dask_scheduler.add_plugin(Slots())
    plugin = dask_scheduler.plugins[Slots.name]
    assert isinstance(plugin, Slots)
    return plugin.hold(dask_scheduler, client, held_slots, wants_more)
