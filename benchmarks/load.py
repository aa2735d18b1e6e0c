"""The service under load over loopback: the time of each kind of request, and how it grows.

No job starts meanwhile. Latencies are those of so many connections that never pause; CPU is the server's and its
calculating process's. Uploads: `python -m benchmarks.upload`.
"""

import asyncio
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

from app.demo.server import reserve_port
from app.jobs import queue
from app.persistence.session import Database
from benchmarks import served
from benchmarks.load_client import Measured, ask, drive, request
from benchmarks.load_ledger import CHARGES, QUEUED, grow
from purse import Client

SECONDS, CONNECTIONS = 6.0, 8
ANALYSTS, STREAMS_EACH = 25, 8
_UNLIMITED: dict[str, int] = {
    "caller_rate": 10**6,
    "stranger_rate": 10**6,
    "total_rate": 10**6,
    "max_requests": 10**4,
    "max_streams": 1000,
    "max_connections": 2000,
    "max_queued_per_analyst": 10**6,
    "max_queued_per_dataset": 10**6,
}
_SINGLE_REQUESTS = 15  # of each kind, for its median time


@dataclass(slots=True)
class Server:
    """A ready server, and a client without a token."""

    port: int
    process: psutil.Process
    log: Path
    http: httpx.Client

    def profile(self) -> str:
        """Return the server's own line on its CPU time since the last call."""
        before = self.log.stat().st_size
        self.process.send_signal(signal.SIGUSR1)
        while not (line := self.log.read_bytes()[before:].partition(b"\n"))[1]:
            time.sleep(0.05)
        return line[0].decode()

    def call(self, method: str, path: str, token: str, body: object = None, **headers: str) -> httpx.Response:
        """Send one request and return its response. Raise an HTTPStatusError if it is refused."""
        headers["Authorization"] = f"Bearer {token}"
        return self.http.request(method, path, json=body, headers=headers).raise_for_status()


@dataclass(frozen=True, slots=True)
class Callers:
    """Tokens, and a dataset that all analysts may use."""

    steward: str
    analysts: tuple[str, ...]
    dataset: str

    def job(self, epsilon: float = 0.01) -> dict[str, Any]:
        """Return the request of a job."""
        method = {"name": "dp_gd", "steps": 20}
        return {"dataset": self.dataset, "target": "y", "method": method, "privacy": {"epsilon": epsilon}}

    def analyst(self, number: int) -> str:
        """Return the token of the analyst whose turn it is."""
        return self.analysts[number % len(self.analysts)]


def report() -> None:
    """Print all measurements, which take some minutes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token = secrets.token_urlsafe(32)
        with _servers(folder, token, 1) as [server]:
            tokens = callers(server, token)
            _routes(server, tokens)
            before = seconds_of_each(server, tokens)
            _streams(server, tokens)
        with _servers(folder, token, 2) as both:
            print("two servers on one home")
            _budget(both, tokens)
            _submissions(both, tokens)
        short_queue = _claim_milliseconds(folder)
        grow(folder / "home", tokens.dataset)
        long_queue = _claim_milliseconds(folder)
        print(
            f"claim of a job: {short_queue:.1f} CPU ms; of {QUEUED} queued, beside {CHARGES} that are over: "
            f"{long_queue:.1f}"
        )
        start = time.monotonic()
        with _servers(folder, token, 1) as [server]:
            print(f"start on a ledger of {CHARGES} charges, every entry verified: {time.monotonic() - start:.1f} s")
            for kind, seconds in seconds_of_each(server, tokens).items():
                times = f"{before[kind] * 1e3:.1f} ms before, {seconds * 1e3:.1f} ms after {CHARGES} charges"
                print(f"  {kind:28s}{times}")


@contextmanager
def _servers(folder: Path, token: str, servers: int) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serving(folder, token, number)) for number in range(servers)]


@contextmanager
def serving(folder: Path, token: str, number: int = 0, **settings: int | str) -> Iterator[Server]:
    """Yield a server on the folder's home without limits on the rate of requests, and stop it at the end."""
    port, _reserved = reserve_port()
    log = folder / f"log.{number}"
    own = {"home": folder / "home", "port": port, "bootstrap_token": token, "log_level": "warning"}
    environment = served.environment(**(_UNLIMITED | settings | own))
    with log.open("wb") as output:
        command = [sys.executable, "-m", "benchmarks.load_server"]
        process = psutil.Popen(command, env=environment, stdout=output, stderr=output)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as http:
        try:
            while not _is_warm(http):
                if process.poll() is not None:
                    raise RuntimeError(log.read_text())
                time.sleep(0.1)
            yield Server(port, process, log, http)
        finally:
            process.terminate()
            process.wait()


def _is_warm(http: httpx.Client) -> bool:
    """Return whether the server is ready, except for workers, of which it has none."""
    try:
        response = http.get("/health/ready")
    except httpx.TransportError:
        return False
    return response.status_code in (200, 503) and b"starting" not in response.content


def callers(server: Server, token: str) -> Callers:
    """Register a dataset and create tokens of analysts who may use it."""
    with Client(str(server.http.base_url), token) as purse, tempfile.TemporaryDirectory() as folder:
        dataset = served.upload(purse, Path(folder), 2000, 100.0)
        analysts = [purse.tokens.create(f"analyst {number}", "analyst") for number in range(ANALYSTS)]
        for analyst in analysts:
            purse.datasets.grant(dataset, analyst.identity)
    return Callers(token, tuple(analyst.token for analyst in analysts), dataset)


def _routes(server: Server, tokens: Callers) -> None:
    """Measure every kind of frequent request, and in which part of the server its time is spent."""
    print(f"one server, {CONNECTIONS} connections, {SECONDS:g} s each")
    _budget([server], tokens)
    numbers = count()

    def quote(n: int, epsilon: float = 0.01) -> bytes:
        return request("POST", "/v1/quotes", tokens.analyst(n), tokens.job(epsilon))

    _measure("quotes, the same again", [server], quote)
    _measure("quotes, another each time", [server], lambda n: quote(n, 0.02 + 1e-6 * next(numbers)))
    _submissions([server], tokens)


def _budget(servers: list[Server], tokens: Callers) -> None:
    path = f"/v1/datasets/{tokens.dataset}/budget"
    tags = {token: servers[0].call("GET", path, token).headers["ETag"] for token in tokens.analysts}
    _measure("budget", servers, lambda n: request("GET", path, tokens.analyst(n)))

    def unchanged(n: int) -> bytes:
        return request("GET", path, tokens.analyst(n), If_None_Match=tags[tokens.analyst(n)])

    _measure("budget, 304", servers, unchanged)


def _submissions(servers: list[Server], tokens: Callers) -> None:
    def submission(n: int) -> bytes:
        return request("POST", "/v1/jobs", tokens.analyst(n), tokens.job(), Idempotency_Key=secrets.token_hex(8))

    _measure("submissions", servers, submission)


def _measure(kind: str, servers: list[Server], request_of: Callable[[int], bytes]) -> None:
    for server in servers:
        drive([server.port], 1, 0.0, request_of)  # one request, which fills caches
        server.profile()
    before = sum(served.cpu_seconds(server.process) for server in servers)
    measured = drive([server.port for server in servers], CONNECTIONS, SECONDS, request_of)
    used = sum(served.cpu_seconds(server.process) for server in servers) - before
    milliseconds = used / len(measured.latencies) * 1e3
    print(f"  {kind:26s}{measured.line()}  {milliseconds:.2f} CPU ms each\n    {servers[0].profile()}", flush=True)


def seconds_of_each(server: Server, tokens: Callers) -> dict[str, float]:
    """Return the median seconds of a single request of each kind."""
    analyst, steward, dataset = tokens.analysts[0], tokens.steward, f"/v1/datasets/{tokens.dataset}"
    submitted = [server.call("POST", "/v1/jobs", analyst, tokens.job()).json()["id"] for _ in range(100)]  # a full page
    requests: dict[str, tuple[Any, ...]] = {
        "budget (analyst)": ("GET", f"{dataset}/budget", analyst),
        "budget (steward)": ("GET", f"{dataset}/budget", steward),
        "dataset": ("GET", dataset, analyst),
        "quote": ("POST", "/v1/quotes", analyst, tokens.job()),
        "submission": ("POST", "/v1/jobs", analyst, tokens.job()),
        "job": ("GET", f"/v1/jobs/{submitted[0]}", analyst),
        "jobs, first page of 100": ("GET", "/v1/jobs", analyst),
        "ledger, a page of 100": ("GET", f"{dataset}/ledger", steward),
        "ledger's head": ("GET", f"{dataset}/ledger/head", steward),
    }
    medians = {}
    for kind, arguments in requests.items():
        seconds = []
        for _ in range(_SINGLE_REQUESTS):
            start = time.perf_counter()
            server.call(*arguments)
            seconds.append(time.perf_counter() - start)
        medians[kind] = median(seconds)
    return medians


def _streams(server: Server, tokens: Callers) -> None:
    """Measure many event streams at once: opening, holding, and the report of a cancelled job."""
    owners = [token for token in tokens.analysts for _ in range(STREAMS_EACH)]
    jobs = [(token, server.call("POST", "/v1/jobs", token, tokens.job()).json()["id"]) for token in owners]
    asyncio.run(_follow(server, jobs))


async def _follow(server: Server, jobs: list[tuple[str, str]]) -> None:
    opened, cancelled = Measured(), Measured()
    streams = []
    begin = time.perf_counter()
    for token, job in jobs:
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request("GET", f"/v1/jobs/{job}/events", token))
        await reader.readuntil(b'"state":"queued"')
        opened.add(200, time.perf_counter() - start)
        streams.append((reader, writer))
    opened.seconds = time.perf_counter() - begin
    before = served.cpu_seconds(server.process)
    await asyncio.sleep(SECONDS)
    used = (served.cpu_seconds(server.process) - before) / SECONDS
    memory = server.process.memory_info().rss / 2**20
    begin = time.perf_counter()
    for (token, job), (reader, writer) in zip(jobs, streams, strict=True):
        start = time.perf_counter()
        connection = await asyncio.open_connection("127.0.0.1", server.port)
        status = await ask(*connection, request("DELETE", f"/v1/jobs/{job}", token))
        await reader.readuntil(b'"state":"cancelled"')
        cancelled.add(status, time.perf_counter() - start)
        connection[1].close()
        writer.close()
    cancelled.seconds = time.perf_counter() - begin
    print(f"{len(jobs)} event streams: {used * 1e3:.0f} CPU ms a second to hold them, {memory:.0f} MiB in all")
    print(f"  {'opened':26s}{opened.line()}\n  {'cancelled, and told so':26s}{cancelled.line()}", flush=True)


def _claim_milliseconds(folder: Path) -> float:
    """Return the median CPU milliseconds of a query for the next job."""
    database = Database(f"sqlite:///{folder / 'home' / 'purse.sqlite3'}")
    seconds = []
    with closing(database), database.read() as connection:
        for _ in range(_SINGLE_REQUESTS):
            start = time.process_time()
            claimable = queue.claimable(connection, [], (), queue.NO_LIMITS)
            seconds.append(time.process_time() - start)
            if claimable is None:
                raise RuntimeError("no job is queued")
    return median(seconds) * 1e3
