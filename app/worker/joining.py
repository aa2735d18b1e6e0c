"""`purse server scheduler` and `purse worker`: the engine on separate machines.

A worker has its certificate, the folder of the datasets, and a scratch folder. It has no database address, signing key,
token or setting of a server. Workers may join and leave at any time. A worker that receives a request to stop takes no
new attempt, lets the running one end or hands it back (`app.worker.task`), and leaves.
"""

import asyncio
import fcntl
import logging
import os
import shutil
import signal
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import dask
from distributed import Nanny, Scheduler
from distributed.security import Security

from app.calculation.calculators import ONE_THREAD
from app.worker import orders
from app.worker.cluster import configure
from app.worker.engine import Folders

_RETRY_SECONDS = 5.0  # between two attempts to reach a scheduler that is away
_CLOSE_TIMEOUT_SECONDS = 60.0  # beyond its patience, until a worker that has not left is ended
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Channel:
    """The files of mutual TLS, in PEM format: the authority, our certificate and its key."""

    ca: Path
    certificate: Path
    key: Path

    def security(self, role: str) -> Security:
        """Return Dask's security settings for the role `client`, `scheduler` or `worker`.

        Raises
        ------
        OSError
            if a file cannot be read.
        ValueError
            if the files do not hold an authority, a certificate and its key.
        """
        for file in (self.ca, self.certificate, self.key):
            file.open("rb").close()
        try:
            ssl.create_default_context(cafile=self.ca).load_cert_chain(self.certificate, self.key)
        except ssl.SSLError:
            raise ValueError(
                f"{self.ca}, {self.certificate} and {self.key} must be an authority, a certificate and its key, as PEM "
                "files. Make them with `purse worker certificate`"
            ) from None
        own: dict[str, Any] = {f"tls_{role}_cert": str(self.certificate), f"tls_{role}_key": str(self.key)}
        return Security(tls_ca_file=str(self.ca), require_encryption=True, **own)


@dataclass(frozen=True, slots=True)
class MachineWork:
    """The workers of one machine.

    Parameters
    ----------
    scheduler : address of the scheduler, tls://host:port
    channel : files of mutual TLS
    data : folder of the datasets on this machine; read only
    scratch : folder that no other worker uses, on a disk with room; files of an earlier run are deleted
    slots : number of attempts at once, each in a process of its own
    patience : seconds that an attempt may go on after a request to stop
    """

    scheduler: str
    channel: Channel
    data: Path
    scratch: Path
    slots: int
    patience: float


async def schedule(host: str, port: int, channel: Channel, listening: Callable[[str], object]) -> None:
    """Run a scheduler until a signal stops it; pass its address to `listening` as soon as it listens."""
    configure()
    security = channel.security("scheduler")
    async with Scheduler(
        host=host, port=port, protocol="tls://", security=security, dashboard=False, dashboard_address="127.0.0.1:0"
    ) as running:
        listening(running.address)
        await _stop_signal().wait()


async def work(chosen: MachineWork) -> None:
    """Run workers until a signal stops them; a scheduler that is away is tried again and again.

    Raises
    ------
    BlockingIOError
        if another worker uses the scratch folder.
    """
    os.umask(0o077)
    with _alone(chosen.scratch):
        clear(chosen.scratch)
        for name in [name for name in os.environ if name.startswith("PURSE_")]:
            del os.environ[name]
        os.environ.update(ONE_THREAD)  # read by a child when it loads a numeric library
        configure()
        dask.config.set({"temporary-directory": str(chosen.scratch)})
        stop = _stop_signal()
        security = chosen.channel.security("worker")
        all_folders = [Folders(chosen.data, chosen.scratch / f"slot-{k}") for k in range(chosen.slots)]
        await asyncio.gather(*(_slot(chosen, folders, security, stop) for folders in all_folders))


def clear(scratch: Path) -> None:
    """Remove files of attempts and of Dask from a scratch folder; leave all other files."""
    for pattern in ("slot-*", "job_*-*", "dask-scratch-space*"):
        for path in scratch.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


async def _slot(chosen: MachineWork, folders: Folders, security: Security, stop: asyncio.Event) -> None:
    """Run one worker process under a nanny, which restarts it; start both again after the scheduler was away."""
    while not stop.is_set():
        try:
            await _run(chosen, folders, security, stop)
        except (OSError, TimeoutError, RuntimeError) as error:  # Dask raises RuntimeError if a process does not start
            _log.warning(
                "not_joined %s: %s; trying again in %g seconds",
                chosen.scheduler,
                error.__cause__ or error,
                _RETRY_SECONDS,
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _RETRY_SECONDS)


async def _run(chosen: MachineWork, folders: Folders, security: Security, stop: asyncio.Event) -> None:
    """Run a nanny with its worker until either ends, or until `stop` is set and the worker has left in order."""
    nanny = Nanny(
        chosen.scheduler,
        nthreads=1,
        memory_limit=None,
        security=security,
        local_directory=str(chosen.scratch),
        silence_logs=logging.CRITICAL,
        plugins=[orders.Prepare(folders, chosen.patience)],
        dashboard=False,
    )
    stopping = asyncio.ensure_future(stop.wait())
    starting = asyncio.ensure_future(nanny.start())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return
        starting.result()
        _log.warning("joined %s", chosen.scheduler)
        end = asyncio.ensure_future(nanny.finished())
        await asyncio.wait({end, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not end.done() and nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGTERM)
            await asyncio.wait_for(end, chosen.patience + _CLOSE_TIMEOUT_SECONDS)
    finally:
        stopping.cancel()
        starting.cancel()
        await nanny.close()


def _stop_signal() -> asyncio.Event:
    """Return an event that the first SIGTERM or SIGINT sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _alone(scratch: Path) -> IO[bytes]:
    """Return the lock of a scratch folder."""
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (scratch / "worker.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise
    return lock
