"""kill -9 of the server, a worker or the database, at random moments, many times over; the books must balance after.

    python -m tests.heavy.kills --rounds 200 --seed 1
    python -m tests.heavy.kills --rounds 200 --seed 1 --database postgres

A real server on a loopback port, its real workers, jobs submitted, repeated and cancelled while it dies. After every
kill, from outside: the sum of the ledger's charges is its cached state, the chain holds, nobody tried more than twice,
every done job has exactly one release and one receipt, no other job has a model. At the end every job comes to its end,
every receipt is verified, and every key that was ever sent is exactly one job.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil

from app.persistence.dialect import Unavailable
from app.persistence.tables import jobs
from tests.support.patience import PATIENCE, until
from tests.support.postgres import Cluster, begun
from tests.support.server import Server
from tests.support.service import JOB, SPEC, people
from tests.support.world import check_books

_CALM = 10  # rounds between two waits until every job is over


@dataclass(slots=True)
class Chaos:
    """One home, many deaths."""

    server: Server
    random: random.Random
    dataset: str = ""
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)  # by idempotency key
    known: dict[str, str] = field(default_factory=dict)  # key -> job, where the answer arrived
    counts: Counter[str] = field(default_factory=Counter)
    cluster: Cluster | None = None  # its database, to be killed too

    def begin(self) -> None:
        """Starts the server on an empty home."""
        self.server.start()
        spec = SPEC | {"budget": {"epsilon": 100.0, "delta": 1e-3}}
        self.dataset = self.server.upload(spec, people(5000))

    def round(self) -> None:
        """Some requests, and a kill among them."""
        with ThreadPoolExecutor(4) as pool:
            keys = [self.another() for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
            calls: list[Future[None]] = [pool.submit(self.send, key) for key in keys]
            if self.known and self.random.random() < 0.2:
                calls.append(pool.submit(self.cancel, self.random.choice(list(self.known.values()))))
            time.sleep(self.random.choice((0.0, 0.02, 0.1, 0.5, 1.5)) * self.random.random())
            if self.cluster is not None and self.random.random() < 0.4:
                self.kill_database(self.cluster)
            elif self.random.random() < 0.4:
                self.kill_server()
            else:
                self.kill_worker()
        for call in calls:
            call.result()
        self.check()
        if not self.server.lives():
            self.server.start()
            self.repeat()

    def another(self) -> str:
        """The key of a new request."""
        method = self.random.choice(({"name": "dp_gd", "steps": self.random.randint(1, 5000)}, {"name": "dp_svrg"}))
        key = f"key-{len(self.sent)}"
        self.sent[key] = JOB | {"dataset": self.dataset, "privacy": {"epsilon": 0.05}, "method": method}
        return key

    def send(self, key: str) -> None:
        """The request of a key, again or for the first time; whether it was taken may remain unknown."""
        try:
            job = self.server.submit(self.sent[key], key)
        except httpx.HTTPError:
            self.counts["requests cut off"] += 1
            return
        assert self.known.setdefault(key, job) == job, "the same key is the same job"

    def repeat(self) -> None:
        """Sends again whatever had no answer, and one that had."""
        unknown = [key for key in self.sent if key not in self.known]
        for key in unknown + self.random.sample(sorted(self.known), min(1, len(self.known))):
            self.send(key)

    def cancel(self, job: str) -> None:
        """Cancels a job, if it is not over."""
        try:
            answer = self.server.client.delete(f"/v1/jobs/{job}")
        except httpx.HTTPError:
            self.counts["requests cut off"] += 1
            return
        assert answer.status_code in (200, 409) or (self.cluster and answer.status_code == 503), answer.text

    def kill_server(self) -> None:
        """Its workers have to go by themselves."""
        workers = self.server.workers()
        self.server.kill()
        self.counts["servers killed"] += 1
        deadline = time.monotonic() + 30
        while any(_runs(worker) for worker in workers):
            assert time.monotonic() < deadline, "a worker outlived its server"
            time.sleep(0.05)

    def kill_worker(self) -> None:
        """One of them, if there is one just now."""
        workers = self.server.workers()
        if workers:
            try:
                os.kill(self.random.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                return
            self.counts["workers killed"] += 1

    def kill_database(self, cluster: Cluster) -> None:
        """The whole server, or one of its processes, which takes all others along, or the links to it alone."""
        how = self.random.choice(("databases killed", "backends killed", "links cut"))
        if how == "databases killed":
            cluster.stop(signal.SIGKILL)
            time.sleep(self.random.choice((0.0, 0.1, 1.0)) * self.random.random())
            cluster.start()
        else:
            backends = cluster.backends()
            for backend in backends if how == "links cut" else self.random.sample(backends, min(1, len(backends))):
                with suppress(ProcessLookupError):
                    os.kill(backend, signal.SIGTERM if how == "links cut" else signal.SIGKILL)
            until(cluster.answers)
        self.counts[how] += 1

    def check(self, recompute: bool = False) -> Counter[str]:
        """The books, read from outside, as soon as the database is back."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with closing(self.server.database()) as database:
                try:
                    return check_books(database, self.server.keys(), recompute)
                except Unavailable:
                    assert time.monotonic() < deadline, "the database does not come back"
            time.sleep(0.1)

    def calm(self, within: float = 300.0) -> None:
        """Waits until every job is over."""
        deadline = time.monotonic() + within
        while (states := self.check())["queued"] + states["running"]:
            assert time.monotonic() < deadline, f"jobs that nobody ends: {states}"
            time.sleep(0.5)

    def end(self) -> Counter[str]:
        """Everything comes to its end, and is looked at from every side."""
        self.repeat()
        self.calm()
        states = self.check(recompute=True)
        assert sum(states.values()) == len(self.sent) == len(self.known), "every key is one job"
        database = self.server.database()
        with database.read() as connection:
            done = connection.execute(jobs.select().where(jobs.c.state == "done")).all()
        database.close()
        for job in self.random.sample(done, min(20, len(done))):
            assert self.server.verifies(job.id)
        self.counts["done at the second attempt"] = sum(job.attempt == 2 for job in done)
        deadline = time.monotonic() + 20
        while left := [path.name for path in (self.server.home / "scratch").glob("job_*")]:
            assert time.monotonic() < deadline, f"left on the scratch disk: {left}"
            time.sleep(0.5)
        return states


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    chosen = parser.parse_args()
    seed = random.SystemRandom().getrandbits(32) if chosen.seed is None else chosen.seed
    print(f"{chosen.rounds} rounds, seed {seed}, {chosen.database}", flush=True)
    began = time.monotonic()
    with TemporaryDirectory(prefix="kills-") as folder:
        cluster = begun() if chosen.database == "postgres" else None
        where = {} if cluster is None else {"database_url": cluster.database()}
        server = Server(Path(folder) / "home", lease_seconds=3.0, renew_seconds=0.5, **where)
        chaos = Chaos(server, random.Random(seed), cluster=cluster)
        try:
            chaos.begin()
            for number in range(1, chosen.rounds + 1):
                chaos.round()
                if number % _CALM == 0:
                    chaos.calm()
                    print(f"round {number}: {dict(chaos.check())}, {time.monotonic() - began:.0f} s", flush=True)
            states = chaos.end()
        except AssertionError as error:
            print(f"FAILED: {error}\n--- the server's log ends so:\n{server.log()}", file=sys.stderr)
            return 1
        finally:
            server.stop_or_kill()
            if cluster is not None:
                cluster.close()
    print(f"jobs: {dict(states)}")
    print(", ".join(f"{what}: {count}" for what, count in sorted(chaos.counts.items())))
    print(f"every book balanced after every kill; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
