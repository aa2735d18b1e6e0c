"""A load client with persistent connections, as cheap as possible in Python, so that the server dominates."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np


@dataclass(slots=True)
class Measured:
    """Seconds of each response, number of responses by status, and seconds in all."""

    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, status: int, latency: float) -> None:
        """Add a response."""
        self.latencies.append(latency)
        self.statuses[status] += 1

    def line(self) -> str:
        """Return requests a second, p50 and p99 in ms, and statuses."""
        p50, p99 = np.quantile(self.latencies, (0.5, 0.99)) * 1e3
        statuses = ", ".join(f"{n} x {status}" for status, n in sorted(self.statuses.items()))
        return f"{len(self.latencies) / self.seconds:8.1f}/s  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  {statuses}"


def request(method: str, path: str, token: str, body: Any = None, **headers: str) -> bytes:
    """Return the bytes of a request."""
    text = b"" if body is None else json.dumps(body).encode()
    named = {"Host": "127.0.0.1", "Authorization": f"Bearer {token}", "Content-Length": str(len(text))} | headers
    if text:
        named["Content-Type"] = "application/json"
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + text


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send a request, read its response, and return the status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
    if length and status != 304:
        await reader.readexactly(int(length))
    return status


def drive(ports: list[int], connections: int, seconds: float, request_of: Callable[[int], bytes]) -> Measured:
    """Send requests for this many seconds; a connection sends its next request after the last response.

    Each connection sends at least one request.

    Parameters
    ----------
    ports : of one or several servers, which take turns
    request_of : returns the n-th request
    """
    return asyncio.run(_drive(ports, connections, seconds, request_of))


async def _drive(ports: list[int], connections: int, seconds: float, request_of: Callable[[int], bytes]) -> Measured:
    measured = Measured()
    numbers = count()
    begin = time.perf_counter()

    async def connect(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        is_over = False
        while not is_over:
            start = time.perf_counter()
            status = await ask(reader, writer, request_of(next(numbers)))
            measured.add(status, time.perf_counter() - start)
            is_over = time.perf_counter() >= begin + seconds
        writer.close()

    await asyncio.gather(*(connect(ports[number % len(ports)]) for number in range(connections)))
    measured.seconds = time.perf_counter() - begin
    return measured
