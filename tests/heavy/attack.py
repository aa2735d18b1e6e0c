"""One analyst asks for 100 of the dearest prices at once, again and again; how long do the others wait?

    python -m tests.heavy.attack --seconds 60

A real server in a process of its own. Before, and then during the attack, live, ready and budget are asked one after
another and timed. The calm figures of the same run are the measure of this machine, whatever else it does.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.support.server import Server
from tests.support.service import JOB, SPEC, people

DEAR = {"method": {"name": "noisy_mirror_descent", "passes": 8, "batch": 1, "form": "ordered"}}  # as many slots as rows
AT_ONCE = 100


@dataclass(slots=True)
class Waits:
    """Seconds that each kind of request took."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    async def watch(self, client: httpx.AsyncClient, paths: dict[str, str], until: float) -> None:
        """Asks for each in turn, ten rounds a second at most."""
        while time.monotonic() < until:
            for name, path in paths.items():
                began = time.monotonic()
                answer = await client.get(path)
                assert answer.status_code == 200, answer.text
                self.seconds.setdefault(name, []).append(time.monotonic() - began)
            await asyncio.sleep(0.1)

    def lines(self) -> list[str]:
        """Median, 99th percentile and worst, in milliseconds."""
        found = []
        for name, waits in self.seconds.items():
            ranked = sorted(waits)
            half, most, worst = (1e3 * ranked[min(len(ranked) - 1, int(q * len(ranked)))] for q in (0.5, 0.99, 1.0))
            found.append(
                f"  {name:7s} {len(ranked):5d} times   p50 {half:7.1f}   p99 {most:7.1f}   max {worst:7.1f} ms"
            )
        return found


async def attack(client: httpx.AsyncClient, dataset: str, number: int, until: float, ends: Counter[str]) -> None:
    """One of the hundred: asks for another price as soon as it is refused or served."""
    asked = 0
    while time.monotonic() < until:
        asked += 1
        body: dict[str, Any] = JOB | DEAR | {"dataset": dataset, "row_norm": 1 - (number + 1e-3 * asked) / 1000}
        body["privacy"] = {"epsilon": 18.0}
        try:
            answer = await client.post("/v1/quotes", json=body)
            ends[str(answer.status_code)] += 1
            if answer.status_code in (429, 503):
                await asyncio.sleep(1.0)  # sooner than Retry-After says
        except httpx.TransportError as error:  # no answer in time, or an idle connection that the server closed
            ends[type(error).__name__] += 1


async def attackers(url: str, token: str, dataset: str, seconds: float) -> None:
    """All hundred, in a process of their own, so that their work does not delay the watch; prints how they ended."""
    ends, until = Counter[str](), time.monotonic() + seconds
    limits, headers = httpx.Limits(max_connections=AT_ONCE), {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=seconds, limits=limits) as client:
        await asyncio.gather(*(attack(client, dataset, number, until, ends) for number in range(AT_ONCE)))
    print(json.dumps(ends))


async def measure(server: Server, seconds: float) -> None:
    """Calm, then attacked; prints what came of both."""
    dataset = server.upload(SPEC | {"budget": {"epsilon": 100.0, "delta": 1e-6}}, people(20_000))
    token = server.client.post("/v1/tokens", json={"name": "greedy", "role": "analyst"}).json()["token"]
    server.client.put(f"/v1/datasets/{dataset}/grants/greedy")
    paths = {"live": "/health/live", "ready": "/health/ready", "budget": f"/v1/datasets/{dataset}/budget"}
    url, calm, attacked = str(server.client.base_url), Waits(), Waits()
    async with httpx.AsyncClient(base_url=url, headers=dict(server.client.headers), timeout=300.0) as modest:
        await calm.watch(modest, paths, time.monotonic() + min(10.0, seconds))
        command = [sys.executable, "-m", "tests.heavy.attack", "--seconds", str(seconds), "--against"]
        attacking = await asyncio.create_subprocess_exec(*command, url, token, dataset, stdout=subprocess.PIPE)
        before = server.cpu_seconds()
        await attacked.watch(modest, paths, time.monotonic() + seconds)
        spent = server.cpu_seconds() - before
        said, _ = await attacking.communicate()
        assert attacking.returncode == 0
    print("calm", *calm.lines(), f"{AT_ONCE} at once for {seconds:g} s: {said.decode().strip()}", sep="\n")
    print(*attacked.lines(), f"the server's own process took {spent:.1f} CPU seconds of that", sep="\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--against", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.against:
        url, token, dataset = chosen.against
        asyncio.run(attackers(url, token, dataset, chosen.seconds))
        return
    with TemporaryDirectory() as folder:
        server = Server(Path(folder) / "home", log_level="error")
        try:
            server.start()
            asyncio.run(measure(server, chosen.seconds))
        finally:
            server.stop_or_kill()


if __name__ == "__main__":
    main()
