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
    """What came of it: seconds of each answer, answers by status, seconds in all."""

    took: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def line(self) -> str:
        """Requests a second, p50 and p99 in ms, statuses."""
        p50, p99 = np.quantile(self.took, (0.5, 0.99)) * 1e3
        told = ", ".join(f"{n} x {status}" for status, n in sorted(self.statuses.items()))
        return f"{len(self.took) / self.seconds:8.1f}/s  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  {told}"


def request(method: str, path: str, token: str, body: Any = None, **headers: str) -> bytes:
    """The bytes of a request."""
    text = b"" if body is None else json.dumps(body).encode()
    named = {"Host": "127.0.0.1", "Authorization": f"Bearer {token}", "Content-Length": str(len(text))} | headers
    if text:
        named["Content-Type"] = "application/json"
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + text


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> tuple[int, bytes, bytes]:
    """Status, head and body of one answer."""
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
    body = await reader.readexactly(int(length)) if length and status != 304 else b""
    return status, head, body


def drive(ports: list[int], connections: int, seconds: float, made: Callable[[int], bytes]) -> Measured:
    """As many requests as go into so many seconds, each connection's next one when its last is answered.

    Parameters
    ----------
    ports : of one or several servers, which take turns
    made : the n-th request
    """
    return asyncio.run(_drive(ports, connections, seconds, made))


async def _drive(ports: list[int], connections: int, seconds: float, made: Callable[[int], bytes]) -> Measured:
    found = Measured()
    numbers = count()

    async def one(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < end:
            status, _, _ = await ask(reader, writer, made(next(numbers)))
            found.took.append(time.perf_counter() - began)
            found.statuses[status] += 1
        writer.close()

    began = time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(one(ports[place % len(ports)]) for place in range(connections)))
    found.seconds = time.perf_counter() - began
    return found


def once(port: int, asked: bytes) -> tuple[int, bytes, bytes]:
    """Status, head and body of one request."""

    async def alone() -> tuple[int, bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await ask(reader, writer, asked)
        finally:
            writer.close()

    return asyncio.run(alone())
