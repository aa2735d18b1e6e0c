"""`purse server scheduler` and `purse worker`: the engine on machines of its own.

A worker has its certificate, the folder of the datasets, and a folder to work in. It has no address of a database, no
signing key, no token and no setting of a server. It may come and go: told to stop, it takes nothing more, lets its
attempt end or hands it back (`app.worker.task`), and is gone.
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
from distributed import Nanny, Scheduler, scheduler
from distributed.security import Security

from app.calculation.calculators import ONE_THREAD
from app.worker import orders
from app.worker.cluster import BEAT, QUIET
from app.worker.engine import Place

_AGAIN = 5.0  # seconds until a scheduler that is away is looked for again
_CLOSING = 60.0  # seconds beyond its patience after which a worker is ended
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Channel:
    """Mutual TLS: the authority, our certificate and its key, PEM files."""

    ca: Path
    certificate: Path
    key: Path

    def security(self, role: str) -> Security:
        """Return what Dask needs as `client`, `scheduler` or `worker`.

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
                "files: make them with `purse worker certificate`"
            ) from None
        own: dict[str, Any] = {f"tls_{role}_cert": str(self.certificate), f"tls_{role}_key": str(self.key)}
        return Security(tls_ca_file=str(self.ca), require_encryption=True, **own)


@dataclass(frozen=True, slots=True)
class Work:
    """What one machine brings.

    Parameters
    ----------
    scheduler : its address, tls://host:port
    channel : see `Channel`
    data : the folder of the datasets, as this machine sees it; read only
    scratch : a folder of its own, on a disk with room; what an earlier life left there goes
    slots : how many attempts at once, each in a process of its own
    patience : seconds that an attempt may go on once it is told to stop
    """

    scheduler: str
    channel: Channel
    data: Path
    scratch: Path
    slots: int
    patience: float


async def schedule(host: str, port: int, channel: Channel, listening: Callable[[str], object]) -> None:
    """Runs a scheduler until it is told to stop; says its address as soon as it listens."""
    dask.config.set(QUIET)
    scheduler.heartbeat_interval = lambda n: BEAT  # noqa: ARG005, no setting names it
    security = channel.security("scheduler")
    async with Scheduler(
        host=host, port=port, protocol="tls://", security=security, dashboard=False, dashboard_address="127.0.0.1:0"
    ) as running:
        listening(running.address)
        await _told().wait()


async def work(chosen: Work) -> None:
    """Runs workers until told to stop; they look for a scheduler that is away again and again.

    Raises
    ------
    BlockingIOError
        if another worker has the scratch folder.
    """
    os.umask(0o077)
    with _alone(chosen.scratch):
        clear(chosen.scratch)
        for name in [name for name in os.environ if name.startswith("PURSE_")]:
            del os.environ[name]
        os.environ.update(ONE_THREAD)  # before a child loads a numeric library
        dask.config.set(QUIET | {"temporary-directory": str(chosen.scratch)})
        told, security = _told(), chosen.channel.security("worker")
        places = [Place(chosen.data, chosen.scratch / f"slot-{k}") for k in range(chosen.slots)]
        await asyncio.gather(*(_slot(chosen, place, security, told) for place in places))


def clear(scratch: Path) -> None:
    """Removes what attempts and Dask have left in a scratch folder, and nothing else that may be there."""
    for left in (path for ours in ("slot-*", "job_*-*", "dask-scratch-space*") for path in scratch.glob(ours)):
        shutil.rmtree(left, ignore_errors=True)


async def _slot(chosen: Work, place: Place, security: Security, told: asyncio.Event) -> None:
    """One worker process and its nanny, which starts it again when it was lost; both again when the scheduler was."""
    while not told.is_set():
        try:
            await _life(chosen, place, security, told)
        except (OSError, TimeoutError, RuntimeError) as error:  # RuntimeError is Dask's for what does not start
            _log.warning("not joined: %s", error.__cause__ or error)
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), _AGAIN)


async def _life(chosen: Work, place: Place, security: Security, told: asyncio.Event) -> None:
    nanny = Nanny(
        chosen.scheduler,
        nthreads=1,
        memory_limit=None,
        security=security,
        local_directory=str(chosen.scratch),
        silence_logs=logging.CRITICAL,
        plugins=[orders.Prepare(place, chosen.patience)],
        dashboard=False,
    )
    is_told = asyncio.ensure_future(told.wait())
    begun = asyncio.ensure_future(nanny.start())
    try:
        await asyncio.wait({begun, is_told}, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            return
        begun.result()
        _log.warning("joined %s", chosen.scheduler)
        ended = asyncio.ensure_future(nanny.finished())
        await asyncio.wait({ended, is_told}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGTERM)
            await asyncio.wait_for(ended, chosen.patience + _CLOSING)
    finally:
        is_told.cancel()
        begun.cancel()
        await nanny.close()


def _told() -> asyncio.Event:
    """Set by the first request to stop."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    return told


def _alone(scratch: Path) -> IO[bytes]:
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (scratch / "worker.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise
    return lock
