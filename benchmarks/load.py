"""The service under load over loopback: the time of each kind of request, and how it grows.

No job starts meanwhile. Latencies are those of so many connections that never pause; CPU is the server's and its
calculating process's. Uploads: `python -m benchmarks.upload`.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from app.demo.server import reserve_port
from app.jobs import queue
from app.persistence.session import Database
from benchmarks import load_client as client
from benchmarks.load_client import Measured, drive, request
from benchmarks.load_ledger import CHARGES, QUEUED, grow

SECONDS, CONNECTIONS = 6.0, 8
ANALYSTS, STREAMS_EACH = 25, 8
_FREE: dict[str, Any] = {
    "caller_rate": 10**6,
    "stranger_rate": 10**6,
    "total_rate": 10**6,
    "max_requests": 10**4,
    "max_streams": 1000,
}
_FREE |= {"max_connections": 2000, "max_queued_per_analyst": 10**6, "max_queued_per_dataset": 10**6}
_COLUMNS = [
    {"name": "x", "type": "number", "lower": 0, "upper": 9},
    {"name": "y", "type": "category", "categories": ["a", "b"]},
]


@dataclass(slots=True)
class Server:
    """One that is ready."""

    port: int
    process: psutil.Process
    log: Path

    def cpu(self) -> float:
        """Return the CPU seconds of all its processes so far."""
        family = [self.process, *self.process.children(recursive=True)]
        return sum(sum(one.cpu_times()[:4]) for one in family)

    def profile(self) -> str:
        """Return the server's own line on its CPU time since the last call."""
        before = self.log.stat().st_size
        self.process.send_signal(signal.SIGUSR1)
        while not (told := self.log.read_bytes()[before:].partition(b"\n"))[1]:
            time.sleep(0.05)
        return told[0].decode()


@dataclass(frozen=True, slots=True)
class Callers:
    """Tokens, and a dataset that all analysts may use."""

    steward: str
    analysts: tuple[str, ...]
    dataset: str

    def job(self, epsilon: float = 0.01) -> dict[str, Any]:
        """A request."""
        method = {"name": "dp_gd", "steps": 20}
        return {"dataset": self.dataset, "target": "y", "method": method, "privacy": {"epsilon": epsilon}}

    def analyst(self, number: int) -> str:
        """One of them after the other."""
        return self.analysts[number % len(self.analysts)]


def report(_repeats: int) -> None:
    """Print all of it: some minutes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token = secrets.token_urlsafe(32)
        with _servers(folder, token, 1) as [server]:
            who = callers(server, token)
            _routes(server, who)
            small = _each(server, who)
            _streams(server, who)
        with _servers(folder, token, 2) as both:
            print("two servers on one home")
            _budget(both, who)
            _submissions(both, who)
        with _claims(folder) as claim:
            few = claim()
        grow(folder / "home", who.dataset)
        with _claims(folder) as claim:
            print(
                f"claim of a job: {few:.1f} CPU ms; of {QUEUED} queued, beside {CHARGES} that are over: {claim():.1f}"
            )
        began = time.monotonic()
        with _servers(folder, token, 1) as [server]:
            print(f"start on a ledger of {CHARGES} charges, every entry verified: {time.monotonic() - began:.1f} s")
            for what, seconds in _each(server, who).items():
                told = f"{small[what] * 1e3:.1f} ms before, {seconds * 1e3:.1f} ms after {CHARGES} charges"
                print(f"  {what:28s}{told}")


@contextmanager
def _servers(folder: Path, token: str, many: int) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serving(folder, token, place)) for place in range(many)]


@contextmanager
def serving(folder: Path, token: str, place: int = 0, **settings: int) -> Iterator[Server]:
    """A server on the folder's home, without limits to how often it is asked; stopped at the end."""
    port, _reserved = reserve_port()
    log = folder / f"log.{place}"
    chosen = _FREE | settings
    chosen |= {"home": folder / "home", "port": port, "bootstrap_token": token, "log_level": "warning"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PURSE_")}
    environment = kept | {f"PURSE_{name.upper()}": str(value) for name, value in chosen.items()}
    with log.open("wb") as output:
        command = [sys.executable, "-m", "benchmarks.load_server"]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        while not _is_warm(port, token):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        yield Server(port, psutil.Process(process.pid), log)
    finally:
        process.terminate()
        process.wait()


def _is_warm(port: int, token: str) -> bool:
    """Ready but for workers, of whom it has none."""
    try:
        status, _, body = client.once(port, request("GET", "/health/ready", token))
    except (OSError, asyncio.IncompleteReadError):
        return False
    return status in (200, 503) and b"starting" not in body


def call(server: Server, *asked: Any, **headers: str) -> Any:
    """Make a request, and return what its answer holds."""
    status, _, body = client.once(server.port, request(*asked, **headers))
    if status >= 400:
        raise RuntimeError(f"{status}: {body.decode()}")
    return json.loads(body or b"null")


def callers(server: Server, token: str) -> Callers:
    """Register a dataset and make tokens of analysts who may use it."""
    spec = {"name": "rows", "columns": _COLUMNS, "budget": {"epsilon": 100.0, "delta": 1e-6}}
    lines = "x,y\n" + "1,a\n2,b\n" * 1000
    parts = (("spec", json.dumps(spec)), ("file", lines))
    form = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{n}"; filename="{n}"\r\n\r\n{text}\r\n' for n, text in parts
    )
    form = form.replace('name="spec"; filename="spec"', 'name="spec"') + "--b--\r\n"
    head = request("POST", "/v1/datasets", token, Content_Type="multipart/form-data; boundary=b")
    sent = head.replace(b"Content-Length: 0", b"Content-Length: %d" % len(form)) + form.encode()
    dataset = json.loads(client.once(server.port, sent)[2])["id"]
    analysts = []
    for number in range(ANALYSTS):
        made = call(server, "POST", "/v1/tokens", token, {"name": f"analyst {number}", "role": "analyst"})
        call(server, "PUT", f"/v1/datasets/{dataset}/grants/{made['identity']}", token)
        analysts.append(made["token"])
    return Callers(token, tuple(analysts), dataset)


def _routes(server: Server, who: Callers) -> None:
    """Every kind of request that is frequent, and where its time goes."""
    print(f"one server, {CONNECTIONS} connections, {SECONDS:g} s each")
    _budget([server], who)
    _measured("quotes, the same again", [server], lambda n: request("POST", "/v1/quotes", who.analyst(n), who.job()))
    fresh = count()

    def another(n: int) -> bytes:
        return request("POST", "/v1/quotes", who.analyst(n), who.job(0.02 + 1e-6 * next(fresh)))

    _measured("quotes, another each time", [server], another)
    _submissions([server], who)


def _budget(servers: list[Server], who: Callers) -> None:
    path = f"/v1/datasets/{who.dataset}/budget"
    tags = {token: _tag(servers[0], path, token) for token in who.analysts}
    _measured("budget", servers, lambda n: request("GET", path, who.analyst(n)))

    def known(n: int) -> bytes:
        return request("GET", path, who.analyst(n), If_None_Match=tags[who.analyst(n)])

    _measured("budget, 304", servers, known)


def _tag(server: Server, path: str, token: str) -> str:
    head = client.once(server.port, request("GET", path, token))[1]
    return head.lower().partition(b"etag: ")[2].partition(b"\r")[0].decode()


def _submissions(servers: list[Server], who: Callers) -> None:
    def submitted(n: int) -> bytes:
        return request("POST", "/v1/jobs", who.analyst(n), who.job(), Idempotency_Key=secrets.token_hex(8))

    _measured("submissions", servers, submitted)


def _measured(what: str, servers: list[Server], made: Callable[[int], bytes]) -> Measured:
    for server in servers:
        client.once(server.port, made(0))
        server.profile()
    before = sum(server.cpu() for server in servers)
    found = drive([server.port for server in servers], CONNECTIONS, SECONDS, made)
    spent = (sum(server.cpu() for server in servers) - before) / len(found.took) * 1e3
    print(f"  {what:26s}{found.line()}  {spent:.2f} CPU ms each\n    {servers[0].profile()}", flush=True)
    return found


def _each(server: Server, who: Callers) -> dict[str, float]:
    """Seconds of one request of each kind, alone: the median of some."""
    analyst, dataset = who.analysts[0], f"/v1/datasets/{who.dataset}"
    [job, *_] = [call(server, "POST", "/v1/jobs", analyst, who.job())["id"] for _ in range(100)]  # a full page
    asked: dict[str, Callable[[], tuple[Any, ...]]] = {
        "budget (analyst)": lambda: ("GET", f"{dataset}/budget", analyst),
        "budget (steward)": lambda: ("GET", f"{dataset}/budget", who.steward),
        "dataset": lambda: ("GET", dataset, analyst),
        "quote": lambda: ("POST", "/v1/quotes", analyst, who.job()),
        "submission": lambda: ("POST", "/v1/jobs", analyst, who.job()),
        "job": lambda: ("GET", f"/v1/jobs/{job}", analyst),
        "jobs, first page of 100": lambda: ("GET", "/v1/jobs", analyst),
        "ledger, a page of 100": lambda: ("GET", f"{dataset}/ledger", who.steward),
        "ledger's head": lambda: ("GET", f"{dataset}/ledger/head", who.steward),
    }
    found = {}
    for what, made in asked.items():
        took = []
        for _ in range(15):
            began = time.perf_counter()
            call(server, *made())
            took.append(time.perf_counter() - began)
        found[what] = median(took)
    return found


def _streams(server: Server, who: Callers) -> None:
    """So many event streams at once: to open, to hold, to hear of a cancelled job."""
    jobs = [
        (t, call(server, "POST", "/v1/jobs", t, who.job())["id"]) for t in who.analysts for _ in range(STREAMS_EACH)
    ]
    asyncio.run(_followed(server, jobs))


async def _followed(server: Server, jobs: list[tuple[str, str]]) -> None:
    opened = Measured()
    told = Measured()
    streams = []
    began = time.perf_counter()
    for token, job in jobs:
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request("GET", f"/v1/jobs/{job}/events", token))
        await reader.readuntil(b'"state":"queued"')
        opened.took.append(time.perf_counter() - start)
        opened.statuses[200] += 1
        streams.append((reader, writer))
    opened.seconds = time.perf_counter() - began
    before = server.cpu()
    await asyncio.sleep(SECONDS)
    held = (server.cpu() - before) / SECONDS
    memory = server.process.memory_info().rss / 2**20
    began = time.perf_counter()
    for (token, job), (reader, writer) in zip(jobs, streams, strict=True):
        start = time.perf_counter()
        cancelling = await asyncio.open_connection("127.0.0.1", server.port)
        status, _, _ = await client.ask(*cancelling, request("DELETE", f"/v1/jobs/{job}", token))
        await reader.readuntil(b'"state":"cancelled"')
        told.took.append(time.perf_counter() - start)
        told.statuses[status] += 1
        for one in (cancelling[1], writer):
            one.close()
    told.seconds = time.perf_counter() - began
    print(f"{len(jobs)} event streams: {held * 1e3:.0f} CPU ms a second to hold them, {memory:.0f} MiB in all")
    print(f"  {'opened':26s}{opened.line()}\n  {'cancelled, and told so':26s}{told.line()}", flush=True)


@contextmanager
def _claims(folder: Path) -> Iterator[Callable[[], float]]:
    """CPU ms of looking for the next job: the median of some."""
    database = Database(f"sqlite:///{folder / 'home' / 'purse.sqlite3'}")

    def claim() -> float:
        took = []
        with database.read() as connection:
            for _ in range(15):
                began = time.process_time()
                found = queue.claimable(connection, [], (), queue.NO_LIMITS)
                took.append(time.process_time() - began)
                if found is None:
                    raise RuntimeError("nothing waits")
        return median(took) * 1e3

    yield claim
    database.close()
