"""Faults at random moments, many times over (`tests.heavy.faults`); the books must balance after each round of them.

    python -m tests.heavy.kills --rounds 100 --seed 1
    python -m tests.heavy.kills --rounds 100 --seed 1 --database postgres --servers 2 --machines 2
    python -m tests.heavy.kills --rounds 100 --seed 1 --servers 2 --unfenced     the control: this must fail

Real servers on loopback ports, their workers, or workers that joined a scheduler over mutual TLS; jobs submitted,
repeated and cancelled, files uploaded, while one process or another dies, stands still, has no memory or no disk. After
every round, from outside: the sum of the ledger's charges is its cached state, the filter holds, the chain holds,
nobody tried more than twice, every done job has exactly one release and one receipt, no other job has a model, what was
taken of an attempt is of the last one, every job and dataset that was acknowledged is there, every session has
recorded at least the answers that were acknowledged and at most those that were sent, each once, no log has a word of
the data. At the end every job comes to its end, every receipt is verified, and every key that was ever sent is one job.
"""

import argparse
import json
import os
import random
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import sqlalchemy as sa

from app.persistence.dialect import Unavailable
from app.persistence.tables import datasets, jobs, sessions
from tests.heavy.faults import FAULTS, LEASE, Faulty
from tests.heavy.inside import set_clock
from tests.support.machines import Installation
from tests.support.patience import PATIENCE, until
from tests.support.postgres import start_cluster
from tests.support.server import Server
from tests.support.service import JOB, SPEC
from tests.support.world import check_books

_OPEN = 6  # jobs; as long as there are more, no other is asked for
_TELL = 4  # rounds between two lines of output
_ROOM = 2**20  # bytes below which a server says that its disk is full
_MOST_DATASETS = 6
_CANARY = "canary4711"
_UNAVAILABLE = (503, 507)
_ATTEMPTS = 8  # of a request of a session
_ACCEPTED = re.compile(r"attempt_(?:ok|raised|damaged) (job_\w+) (\d+)")
_REFUSED = re.compile(r"attempt_(?:lost|abandoned) job_\w+ \d+")


def _people(rows: int) -> bytes:
    """Return a file for SPEC with recognisable numbers, and a word that is not a category."""
    lines = (
        f"{20 + i % 60}.0471163,{_CANARY if i % 100 == 7 else 'fm'[i % 2]},{'high' if i % 60 > 30 else 'low'}"
        for i in range(rows)
    )
    return ("age,sex,income\n" + "\n".join(lines) + "\n").encode()


# As they are given, and as they are stored: within [-1, 1].
_STORED = (f"{(age + 0.0471163) / 50 - 1:.9f}"[:8] for age in range(20, 80))
_SECRETS = re.compile("|".join([_CANARY, r"\.0471163", *map(re.escape, _STORED)]))


@dataclass(slots=True)
class Chaos:
    """A test of one home under many faults."""

    faulty: Faulty
    random: random.Random
    submissions: dict[str, dict[str, Any]] = field(default_factory=dict)  # by idempotency key
    jobs_by_key: dict[str, str] = field(default_factory=dict)  # of submissions whose answer arrived
    datasets: list[str] = field(default_factory=list)
    recorded_answers: dict[str, list[int]] = field(default_factory=dict)  # session -> answers acknowledged, and sent
    offered: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    balanced: dict[str, Any] = field(default_factory=dict)

    @property
    def installed(self) -> Installation:
        """The installation in which faults are caused."""
        return self.faulty.installed

    def begin(self) -> None:
        """Starts everything on an empty home."""
        self.installed.start()
        self.offer()

    def round(self) -> None:
        """Some requests, and faults among them."""
        with ThreadPoolExecutor(6) as pool:
            is_more = self.states["queued"] + self.states["running"] < _OPEN
            keys = [self.new_request_key() for _ in range(self.random.choice((0, 1, 1, 2, 3)) if is_more else 0)]
            calls: list[Future[None]] = [pool.submit(self.send, key) for key in keys]
            if self.jobs_by_key and self.random.random() < 0.2:
                calls.append(pool.submit(self.cancel, self.random.choice(list(self.jobs_by_key.values()))))
            for _ in range(self.random.choice((0, 1, 2))):
                dataset, is_closed = self.random.choice(self.datasets), self.random.random() < 0.7
                calls.append(pool.submit(self.hold, dataset, is_closed))
            if len(self.datasets) < _MOST_DATASETS and self.random.random() < 0.1:
                calls.append(pool.submit(self.offer))
            for _ in range(self.random.randint(8, 20)):
                if is_more and self.random.random() < 0.3:
                    calls.append(pool.submit(self.send, self.new_request_key()))
                self.faulty.pause_briefly(2.0)
                self.faults[self.faulty.strike()] += 1
            self.faulty.passes()
        for call in calls:
            call.result()
        self.states = self.check()
        if not all(server.lives() for server in self.installed.servers):
            self.installed.start()
            self.repeat()
        self.installed.start()

    def new_request_key(self) -> str:
        """Create a request, and return its key."""
        steps = self.random.choice((500, 1000, 10_000, 30_000))
        method = self.random.choice(({"name": "dp_gd", "steps": self.random.randint(1, steps)}, {"name": "dp_svrg"}))
        key, dataset = f"key-{len(self.submissions)}", self.random.choice(self.datasets)
        self.submissions[key] = JOB | {"dataset": dataset, "privacy": {"epsilon": 0.05}, "method": method}
        return key

    def send(self, key: str) -> None:
        """Send the request of a key, again or for the first time. Its acceptance may remain unknown."""
        try:
            job = self.server().submit(self.submissions[key], key)
        except httpx.HTTPError:
            self.counts["requests cut off"] += 1
            return
        assert self.jobs_by_key.setdefault(key, job) == job, "the same key is the same job"

    def server(self) -> Server:
        """Return a random server that runs, or any server if none runs."""
        return self.random.choice([s for s in self.installed.servers if s.lives()] or self.installed.servers)

    def repeat(self) -> None:
        """Repeat all requests without an answer, and one with an answer."""
        unknown = [key for key in self.submissions if key not in self.jobs_by_key]
        for key in unknown + self.random.sample(sorted(self.jobs_by_key), min(1, len(self.jobs_by_key))):
            self.send(key)

    def cancel(self, job: str) -> None:
        """Cancels a job, if it is not over."""
        try:
            answer = self.server().client.delete(f"/v1/jobs/{job}")
        except httpx.HTTPError:
            self.counts["requests cut off"] += 1
            return
        assert answer.status_code in (200, 409, *_UNAVAILABLE), answer.text

    def hold(self, dataset: str, is_closed: bool) -> None:
        """Open a session of ten answers, record some of them between faults, and close it if asked to."""
        event = {"type": "GaussianDpEvent", "noise_multiplier": 100.0}
        plan = {"events": [{"type": "SelfComposedDpEvent", "count": 10, "event": event}]}
        key = f"session-{secrets.token_hex(8)}"
        response = self.repeatedly(f"/v1/datasets/{dataset}/sessions", plan, key)
        if response is None or response.status_code != 201:
            assert response is None or response.status_code == 409, response.text
            return
        path = f"/v1/sessions/{response.json()['id']}"
        counted = self.recorded_answers.setdefault(response.json()["id"], [0, 0])
        for number in range(4):
            time.sleep(self.random.uniform(0.0, 3.0))
            counted[1] += 2
            answer = self.repeatedly(f"{path}/steps", {"steps": 2}, f"{key}-{number}")
            assert answer is None or answer.status_code in (200, 409), answer.text
            counted[0] += 2 if answer is not None and answer.status_code == 200 else 0
        if is_closed:
            closed = self.repeatedly(f"{path}/close", {}, key)
            assert closed is None or closed.status_code == 200, closed.text

    def repeatedly(self, path: str, body: dict[str, Any], key: str) -> httpx.Response | None:
        """Send a request again, to any server, until it is answered; return None if each attempt failed."""
        for _ in range(_ATTEMPTS):
            try:
                response = self.server().client.post(path, json=body, headers={"Idempotency-Key": key})
            except httpx.HTTPError:
                self.counts["requests cut off"] += 1
            else:
                if response.status_code not in _UNAVAILABLE:
                    return response
            time.sleep(1.0)
        return None

    def offer(self) -> None:
        """A new dataset, large enough for a fault to come between."""
        self.offered += 1
        spec = SPEC | {"name": f"people {self.offered}", "budget": {"epsilon": 100.0, "delta": 1e-3}}
        try:
            self.datasets.append(self.server().upload(spec, _people(5000 + self.offered)))
        except httpx.HTTPError:
            self.counts["requests cut off"] += 1

    def check(self, recompute: bool = False) -> Counter[str]:
        """Check the ledgers from outside as soon as the database is back, and the logs for secrets."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                states = self._books(recompute)
                break
            except Unavailable:
                assert time.monotonic() < deadline, "the database does not come back"
            if self.faulty.cluster is not None and not self.faulty.cluster.lives():
                self.faulty.cluster.start()
            time.sleep(0.1)
        for name, log in self.installed.logs().items():
            leak = _SECRETS.search(log)
            assert not leak, f"{name} has logged {leak}"
        return states

    def _books(self, recompute: bool) -> Counter[str]:
        server = self.installed.servers[0]
        log = "".join(server.log(None) for server in self.installed.servers)
        with closing(server.database()) as database:
            states = check_books(database, server.keys(), recompute, None if recompute else self.balanced)
            with database.read() as connection:
                attempts = {row.id: row.attempt for row in connection.execute(sa.select(jobs.c.id, jobs.c.attempt))}
                there = set(connection.scalars(sa.select(datasets.c.id)))
                recorded = dict(connection.execute(sa.select(sessions.c.id, sessions.c.recorded)).all())
        assert {*self.jobs_by_key.values()} <= attempts.keys(), "an acknowledged job is lost"
        assert {*self.datasets} <= there, "an acknowledged dataset is lost"
        for session, (acknowledged, offered) in list(self.recorded_answers.items()):
            assert acknowledged <= sum(json.loads(recorded[session])) <= offered, (
                "recorded answers are lost or invented"
            )
        accepted = _ACCEPTED.findall(log)
        assert len({job for job, _ in accepted}) == len(accepted), "two attempts of one job were taken"
        late = [(job, int(n)) for job, n in accepted if int(n) != attempts[job]]
        assert not late, f"an attempt was taken that had been overtaken: {late}"
        return states

    def calm(self, within: float = 1200.0) -> None:
        """Wait until every job is finished. The end of a long job is published after at most twice its time."""
        deadline = time.monotonic() + within
        while (states := self.check())["queued"] + states["running"]:
            assert time.monotonic() < deadline, f"jobs that nobody ends: {states}"
            time.sleep(0.5)

    def end(self) -> Counter[str]:
        """Let every job end, and check receipts, logs and scratch folders."""
        self.repeat()
        self.calm()
        states = self.check(recompute=True)
        assert sum(states.values()) == len(self.submissions) == len(self.jobs_by_key), "every key is one job"
        server = self.server()
        with closing(server.database()) as database, database.read() as connection:
            done_jobs = connection.execute(jobs.select().where(jobs.c.state == "done")).all()
        for job in self.random.sample(done_jobs, min(20, len(done_jobs))):
            assert server.verifies(job.id)
        self.counts["done after another attempt"] = sum(job.attempt > 1 for job in done_jobs)
        log = "".join(server.log(None) for server in self.installed.servers)
        self.counts["late answers refused"] = len(_REFUSED.findall(log))
        scratches = [self.installed.home / "scratch", *map(self.installed.scratch, self.installed.machines)]
        until(lambda: not [path for scratch in scratches for path in scratch.rglob("job_*")], 30)
        return states


@contextmanager
def _disk(folder: Path, size: str) -> Iterator[Path | None]:
    """Mount a small file system in memory, or yield None if mounting is not permitted."""
    folder.mkdir()
    mounted = ("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(folder))
    if os.getuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        print("no small file system can be mounted here: no disk is filled", flush=True)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)


def _start_chaos(chosen: argparse.Namespace, stack: ExitStack, seed: int) -> Chaos:
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="kills-")))
    folder.chmod(0o711)  # a database server is another user
    disk = stack.enter_context(_disk(folder / "disk", "400M" if chosen.database == "postgres" else "64M"))
    cluster = start_cluster(folder / "disk") if chosen.database == "postgres" else None
    if cluster is not None:
        stack.callback(cluster.close)
    where = {} if cluster is None else {"database_url": cluster.database()}
    clock = folder / "clock"
    set_clock(clock, 0.0)
    installed = Installation(
        folder,
        folder / "disk" / "home",
        chosen.servers,
        chosen.machines,
        f"from tests.heavy import inside; inside.begin({str(clock)!r}, {chosen.unfenced})",
        lease_seconds=LEASE,
        renew_seconds=0.5,
        min_free_bytes=_ROOM,
        workers=1,
        **where,
    )
    stack.callback(installed.close)
    drawn = random.Random(seed)
    return Chaos(Faulty(installed, drawn, clock, cluster, disk), drawn)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no round begins later")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--servers", type=int, default=1, help="how many serve the home")
    parser.add_argument("--machines", type=int, default=0, help="how many join a scheduler; 0: a worker of each server")
    parser.add_argument("--unfenced", action="store_true", help="the control, which must fail")
    chosen = parser.parse_args()
    print(" ".join(f"{name}={value}" for name, value in vars(chosen).items()), flush=True)
    began = time.monotonic()
    with ExitStack() as stack:
        chaos = _start_chaos(chosen, stack, chosen.seed)
        try:
            chaos.begin()
            for number in range(1, chosen.rounds + 1):
                if time.monotonic() - began > chosen.seconds:
                    break
                chaos.round()
                if number % _TELL == 0:
                    progress = f"{chaos.faults.total()} faults, {dict(sorted(chaos.states.items()))}"
                    print(f"round {number}: {progress}, {time.monotonic() - began:.0f} s", flush=True)
            states = chaos.end()
        except AssertionError as error:
            print(f"FAILED after {chaos.faults.total()} faults: {error}", flush=True)
            for name, log in chaos.installed.logs().items():
                print(f"--- {name} ends so:\n{log[-3000:]}", file=sys.stderr)
            return 1
    answers = sum(acknowledged for acknowledged, _ in chaos.recorded_answers.values())
    sessions_held = f"sessions: {len(chaos.recorded_answers)}, with {answers} recorded answers"
    print(f"jobs: {dict(sorted(states.items()))}; {sessions_held}")
    for name in FAULTS:
        print(f"  {name:28s} {chaos.faults[name]:5d}")
    print(f"  {'faults':28s} {chaos.faults.total():5d}")
    print(", ".join(f"{event}: {count}" for event, count in sorted(chaos.counts.items())))
    print(f"every book balanced after every round; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
