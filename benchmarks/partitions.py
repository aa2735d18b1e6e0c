"""Gradients over partitions on two worker processes beside one process: time, growth, overhead, memory, a lost worker.

Records of two numbers, a category of three and a target are made where they are stored, 17 bytes each; 83 with what
both sides keep on the disk. One process maps every partition and sums with two threads, as a job on one machine does;
the workers sum over a share each.
"""

import hashlib
import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from accounting.privacy import Privacy
from app.settings import Settings
from app.sources.design import Design
from app.sources.matrix import CODES, NUMBERS, CodedWriter
from app.sources.partitions import Manifest, Partition, Storage, prepared
from app.sources.singles import ends
from app.sources.spec import JobSpec
from app.wire import JobPrivacy, JobRequest
from app.worker.cluster import DaskEngine
from app.worker.execute import Payload
from app.worker.shares import Shares
from benchmarks.served import anonymous_bytes
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from solvers import plan
from solvers.bounds import GROUP
from solvers.data_access.partitioned import LocalPartitions, Partitioned, Partitions
from solvers.data_access.sums import gradient_sum
from solvers.losses import Logistic
from solvers.methods import DpGd
from solvers.problem import Problem, Vector
from solvers.solve import AS_DECLARED

_REPEATS = 5
COLUMNS: list[Column] = [
    NumberColumn(name="a", type="number", lower=-1.0, upper=1.0),
    NumberColumn(name="b", type="number", lower=-1.0, upper=1.0),
    CategoryColumn(name="c", type="category", categories=["x", "y"]),
    CategoryColumn(name="t", type="category", categories=["no", "yes"]),
]


def report(rows: int) -> None:
    """Print the page's table for at most three sizes, of which this number of rows is the largest."""
    with tempfile.TemporaryDirectory(prefix="partitions-") as folder:
        home = Path(folder)
        whole = stored(home, rows)
        engine = DaskEngine(Settings(home=home / "engine"))
        try:
            print("| rows | partitions | workers over one process | overhead, ms | overhead, gradients | MB a worker |")
            print("|" + " --- |" * 6)
            times = [measured(engine, home, whole, size) for size in sizes(len(whole.partitions))]
        finally:
            engine.close()
    for index, name in enumerate(("one process", "two workers") if len(times) > 1 else ()):
        growth = [math.log(b[1][index] / a[1][index]) / math.log(b[0] / a[0]) for a, b in pairwise(times)]
        print(f"exponent in n, {name}: {', '.join(f'{x:.2f}' for x in growth)}")


def sizes(count: int) -> list[int]:
    """Return different numbers of partitions, the largest last: about a sixteenth, a quarter and all of them."""
    return sorted({min(count, max(2, count // divisor)) for divisor in (16, 4, 1)})


def stored(home: Path, rows: int) -> Manifest:
    """Return partitions with at least this many records."""
    rng = np.random.default_rng(1)
    partitions = []
    storage = Storage(f"file://{home}/store")
    for number in range(-(-rows // GROUP)):
        folder, sums = home / "made", []
        folder.mkdir(exist_ok=True)
        with CodedWriter(folder, [column.code_count for column in COLUMNS], ends(COLUMNS)) as writer:
            x = rng.uniform(-1, 1, (GROUP, 2))
            writer.append(np.column_stack((x, rng.integers(0, 3, GROUP), x[:, 0] > x[:, 1])).astype(float))
        for name in (NUMBERS, CODES):
            sums.append(storage.put(folder / name, f"{number:08d}.{name}"))
            (folder / name).unlink()
        partitions.append(Partition(rows=GROUP, sha256=hashlib.sha256(b"".join(sums)).hexdigest()))
    return Manifest(place=f"file://{home}/store", columns=COLUMNS, partitions=partitions)


def measured(engine: DaskEngine, home: Path, whole: Manifest, count: int) -> tuple[int, tuple[float, float]]:
    """Print a line for so many partitions; return n, and a gradient's seconds by one process and by two."""
    manifest = whole.model_copy(update={"partitions": whole.partitions[:count]})
    n = manifest.rows
    spec = _spec(n)
    w = np.linspace(-0.5, 0.5, spec.problem.d)
    here = Partitioned(spec.problem, LocalPartitions([prepared(spec, manifest, i, home) for i in range(count)]))
    with _shares(engine, spec, manifest, home) as shares:
        data = Partitioned(spec.problem, shares)
        (one, expected), (two, gradient) = _in_turn(*(partial(gradient_sum, d, slice(0, n), w) for d in (here, data)))
        assert np.array_equal(expected, gradient)
        ends = np.array([0, n - 1])  # a record of each worker's share
        ((overhead, _),) = _in_turn(partial(gradient_sum, data, ends, w))
        memory = max(engine.client.run(anonymous_bytes).values()) / 2**20
        line = (f"{n:,}", count, f"{two / one:.2f}", f"{1e3 * overhead:.0f}", f"{overhead / two:.2f}", f"{memory:.0f}")
        print(f"| {' | '.join(map(str, line))} |", flush=True)
        if count == len(whole.partitions):
            victim = next(iter(engine.client.run(os.getpid).values()))
            killer = threading.Timer(min(0.05, two / 3), os.kill, (victim, signal.SIGKILL))
            start = time.perf_counter()
            killer.start()
            assert np.array_equal(expected, gradient_sum(data, slice(0, n), w))
            lost = (time.perf_counter() - start) / two
            print(f"\na gradient in the middle of which a worker is killed, over another: {lost:.1f}; the same bits")
    return n, (one, two)


@contextmanager
def _shares(engine: DaskEngine, spec: JobSpec, manifest: Manifest, home: Path) -> Iterator[Partitions]:
    payload = Payload(folder=str(home), scratch=str(home), checksum=None, spec=spec, partitions=manifest)
    shares = Shares(engine.client, payload.model_dump_json(), len(manifest.partitions))
    try:
        yield shares
    finally:
        shares.close()


def _spec(n: int) -> JobSpec:
    """Return a job of `dp_gd` on this number of rows."""
    budget = Budget(epsilon=1.0, delta=1e-10)
    request = JobRequest(dataset="ds_0", target="t", privacy=JobPrivacy(epsilon=1.0))
    design = Design.of(DatasetSpec(name="made", columns=COLUMNS, budget=budget), request)
    problem = Problem(Logistic(), n=n, d=design.d, row_norm=design.row_norm, columns=design.columns)
    quote = plan(DpGd(steps=10), problem, Privacy(1.0, 1e-10), preparation=AS_DECLARED)
    return JobSpec(design=design, problem=quote.problem, method=quote.method, release_plan=quote.release)


def _in_turn(*works: Callable[[], Vector]) -> list[tuple[float, Vector]]:
    """Return the median seconds of each function, called in turn after a first call, with its result."""
    vectors = [work() for work in works]
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(_REPEATS):
        for own, work in zip(seconds, works, strict=True):
            start = time.perf_counter()
            work()
            own.append(time.perf_counter() - start)
    return [(median(own), vector) for own, vector in zip(seconds, vectors, strict=True)]
