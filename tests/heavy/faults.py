"""The faults that are caused at random moments, each with its name and frequency."""

import os
import random
import re
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psycopg

from app.persistence.files import locked
from tests.heavy.inside import set_clock
from tests.support.machines import SCHEDULER, Installation, runs
from tests.support.patience import PATIENCE, until
from tests.support.postgres import Cluster
from tests.support.server import Server

T = TypeVar("T")
LEASE = 3.0
_BLOCKS = (2**20, 2**12, 1)
_STARTED = re.compile(r"attempt_started (job_\w+) (\d+)")
_FINISHED = re.compile(r"attempt_(?!started)\w+ (job_\w+) (\d+)")
_PUBLISHED = re.compile(r"job_(?:done|failed) (job_\w+)")


@dataclass(slots=True)
class Faulty:
    """An installation and its present faults.

    Parameters
    ----------
    installed : what is struck
    random : draws everything
    clock : see `tests.heavy.inside`
    cluster : its database, if that is a server
    disk : the small file system of the home, and of the database, if there is one
    """

    installed: Installation
    random: random.Random
    clock: Path
    cluster: Cluster | None = None
    disk: Path | None = None
    passing: list[threading.Timer] = field(default_factory=list)
    paused: set[int] = field(default_factory=set)

    def strike(self) -> str:
        """Cause a random possible fault, drawn by weight, and return its name."""
        while True:
            [name] = self.random.choices(list(FAULTS), [weight for weight, _ in FAULTS.values()])
            if FAULTS[name][1](self):
                return name

    def pause_briefly(self, longest: float) -> None:
        """Wait for a random time, usually a short one."""
        time.sleep(longest * self.random.random() ** 3)

    def passes(self) -> None:
        """Wait until all temporary faults are undone."""
        for timer in self.passing:
            timer.join()
        self.passing.clear()

    def undo_after(self, seconds: float, undo: Callable[[], object]) -> None:
        """Undo a fault after so many seconds."""
        timer = threading.Timer(seconds, undo)
        timer.start()
        self.passing.append(timer)

    def server(self) -> Server | None:
        """Return a random server that runs and is not paused."""
        return self.any_of([s for s in self.installed.servers if s.lives() and s.pid not in self.paused])

    def worker(self) -> int | None:
        """A process that runs attempts."""
        return self.any_of(self.installed.workers())

    def machine(self) -> str | None:
        """Return a random machine with workers."""
        return self.any_of([name for name in self.installed.machines if self.installed.lives(name)])

    def any_of(self, of: Sequence[T]) -> T | None:
        """Return a random one of these, or None if there is none."""
        return self.random.choice(of) if of else None

    def pause(self, pid: int | None, leases: Sequence[float] = (0.1, 1.0, 2.0)) -> bool:
        """Stop a process, and continue it after a random number of leases."""
        if pid is None or pid in self.paused or not _send_signal(pid, signal.SIGSTOP):
            return False
        self.paused.add(pid)

        def goes_on() -> None:
            _send_signal(pid, signal.SIGCONT)
            self.paused.discard(pid)

        self.undo_after(self.random.choice(leases) * LEASE * self.random.uniform(0.8, 1.2), goes_on)
        return True


def _send_signal(pid: int | None, number: signal.Signals) -> bool:
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _server_killed(faulty: Faulty) -> bool:
    """Kill a server. Its workers must stop by themselves, and its last write may be incomplete."""
    server = faulty.server()
    if server is None:
        return False
    workers = server.workers()
    server.kill()
    until(lambda: not any(runs(worker) and worker not in faulty.paused for worker in workers), 60)
    return True


def _torn(faulty: Faulty) -> bool:
    """Kill a server, and leave only a part of its unflushed writes on the disk."""
    if not _server_killed(faulty):
        return False
    home, junk = faulty.installed.home, faulty.random.randbytes
    for file in (home / "purse.sqlite3-wal", home / "epoch"):
        if file.exists():
            with locked(home / "epoch"), file.open("ab") as behind:
                behind.write(b'{"head":"' + junk(faulty.random.randint(0, 4000)).replace(b"\n", b"-"))
    for file in [path for path in home.glob("incoming/**/*") if path.is_file()] + list(home.glob(".epoch.*")):
        with suppress(FileNotFoundError):
            os.truncate(file, faulty.random.randint(0, file.stat().st_size))
    return True


def _server_stopped(faulty: Faulty) -> bool:
    server = faulty.server()
    if server is not None:
        server.stop()
    return server is not None


def _server_paused(faulty: Faulty) -> bool:
    server = faulty.server()
    return server is not None and faulty.pause(server.pid)


def _overtaken(faulty: Faulty) -> bool:
    """Stop a server that holds an attempt until another server starts the next one, so its answer is late."""
    servers = [s for s in faulty.installed.servers if s.lives() and s.pid not in faulty.paused]
    server = faulty.any_of([s for s in servers if _held_attempts(faulty, s)])
    if server is None or len(servers) == 1 or not _send_signal(server.pid, signal.SIGSTOP):
        return False
    attempts, deadline = _held_attempts(faulty, server), time.monotonic() + 5 * LEASE
    while attempts and attempts <= _held_attempts(faulty, server) and time.monotonic() < deadline:
        time.sleep(0.1)
    return _send_signal(server.pid, signal.SIGCONT)


def _held_attempts(faulty: Faulty, server: Server) -> set[tuple[str, int]]:
    """Return the attempts, by job and number, that this server started and that neither ended nor were overtaken."""
    started = {(job, int(number)) for job, number in _STARTED.findall(server.log(None))}
    logs = "".join(each_server.log(None) for each_server in faulty.installed.servers)
    later = {(job, int(number) - 1) for job, number in _STARTED.findall(logs)}
    finished, published = {(job, int(number)) for job, number in _FINISHED.findall(logs)}, set(_PUBLISHED.findall(logs))
    return {(job, number) for job, number in started - later - finished if job not in published}


def _machine_killed(faulty: Faulty) -> bool:
    machine = faulty.machine()
    return machine is not None and _end_process(faulty, machine, signal.SIGKILL)


def _machine_stopped(faulty: Faulty) -> bool:
    machine = faulty.machine()
    return machine is not None and _end_process(faulty, machine, signal.SIGTERM)


def _scheduler_killed(faulty: Faulty) -> bool:
    return faulty.installed.lives(SCHEDULER) and _end_process(faulty, SCHEDULER, signal.SIGKILL)


def _scheduler_paused(faulty: Faulty) -> bool:
    return faulty.installed.lives(SCHEDULER) and faulty.pause(faulty.installed.processes[SCHEDULER].pid)


def _end_process(faulty: Faulty, name: str, how: signal.Signals) -> bool:
    process = faulty.installed.processes[name]
    process.send_signal(how)
    process.wait(PATIENCE)
    return True


def _starved(faulty: Faulty) -> bool:
    """Limit a worker's memory to its present use, or slightly more, for a while."""
    worker = faulty.worker()
    if worker is None or worker in faulty.paused:
        return False
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    try:
        pages = int(Path(f"/proc/{worker}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + faulty.random.choice((0, 2**18, 2**22))
        resource.prlimit(worker, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    except (FileNotFoundError, ProcessLookupError):
        return False

    def fed() -> None:
        with suppress(ProcessLookupError):
            resource.prlimit(worker, resource.RLIMIT_AS, unlimited)

    faulty.undo_after(faulty.random.uniform(0.1, 3.0), fed)
    return True


def _filled(faulty: Faulty) -> bool:
    """Fill the disk of the home and the database until a running server reports it, then free the space."""
    if faulty.disk is None:
        return False
    filler = faulty.disk / "filler"
    _fill(filler)
    server = faulty.server()
    try:
        faulty.pause_briefly(2.0)
        if server is not None:
            until(lambda: not server.lives() or _says_it_is_full(server))
    finally:
        filler.unlink()
    return True


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler:
        for block in _BLOCKS:
            with suppress(OSError):
                while filler.write(bytes(block)) == block:
                    pass


def _says_it_is_full(server: Server) -> bool:
    answer = server.client.get("/health/ready")
    return answer.status_code == 503 and any(word in answer.json()["detail"] for word in ("disk", "database"))


def _clock_set(faulty: Faulty) -> bool:
    set_clock(faulty.clock, faulty.random.choice((-1e6, -3600.0, -5.0, 0.0, 5.0, 3600.0, 1e6)))
    return True


def _database_killed(faulty: Faulty) -> bool:
    """The whole server."""
    if faulty.cluster is None or not faulty.cluster.lives():
        return False
    faulty.cluster.stop(signal.SIGKILL)
    faulty.pause_briefly(1.0)
    faulty.cluster.start()
    return True


def _backends(faulty: Faulty) -> list[int]:
    """Return the processes that serve a connection, or none while the database restarts."""
    with suppress(psycopg.OperationalError):
        return [] if faulty.cluster is None else faulty.cluster.backends()
    return []


def _backend_killed(faulty: Faulty) -> bool:
    """Kill one process of the database, which stops all others."""
    return _send_signal(faulty.any_of(_backends(faulty)), signal.SIGKILL)


def _links_cut(faulty: Faulty) -> bool:
    """Every connection to the database."""
    return sum(_send_signal(backend, signal.SIGTERM) for backend in _backends(faulty)) > 0


# Weights: what must be started again takes seconds of a processor, what goes on by itself takes none.
FAULTS: dict[str, tuple[int, Callable[[Faulty], bool]]] = {
    "servers killed": (2, _server_killed),
    "servers killed, writes torn": (2, _torn),
    "servers told to stop": (1, _server_stopped),
    "servers paused": (8, _server_paused),
    "servers paused past a lease": (15, _overtaken),
    "workers killed": (6, lambda faulty: _send_signal(faulty.worker(), signal.SIGKILL)),
    "workers paused": (15, lambda faulty: faulty.pause(faulty.worker())),
    "workers out of memory": (10, _starved),
    "machines killed": (2, _machine_killed),
    "machines told to stop": (2, _machine_stopped),
    "schedulers killed": (1, _scheduler_killed),
    "schedulers paused": (6, _scheduler_paused),
    "disks filled": (10, _filled),
    "clocks set": (15, _clock_set),
    "databases killed": (6, _database_killed),
    "backends killed": (8, _backend_killed),
    "backends paused": (8, lambda faulty: faulty.pause(faulty.any_of(_backends(faulty)))),
    "links cut": (8, _links_cut),
}
