"""The cost of a pass over coded records, as ratios within one run, and the growth of a job's memory and time."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import loops
from solvers import kernels
from solvers.bounds import UNIT, block_rows
from solvers.columns import Columns
from solvers.data_access import data as reading
from solvers.data_access import frames
from solvers.data_access.data import Data
from solvers.data_access.inputs import in_bytes, offsets
from solvers.data_access.rows import Coded, code_bytes, stored_numbers
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.frame import Frame
from solvers.losses import Logistic
from solvers.problem import Problem

Floats = NDArray[np.float64]
N = 520_976
ADULT = (1, 9, 1, 17, 1, 8, 16, 7, 6, 3, 1, 1, 1, 43)
"""The layout of Adult: 6 numbers and 8 categories, 117 coordinates with the constant."""


def report(seeds: int) -> None:
    """Print ratios of passes, then memory and exponents; `seeds` is the number of repeated measurements."""
    passes(seeds)
    numbers(seeds)
    growth(seeds)
    memory()


def drawn(n: int, widths: tuple[int, ...], seed: int = 1) -> Data:
    """Return uniform records of that layout as the service stores them, with targets of a logistic loss."""
    rng = np.random.default_rng(seed)
    columns = Columns(widths)
    codes = [in_bytes(rng.integers(0, w, n), code_bytes(w)) for w in widths if w > 1]
    numbers = rng.uniform(-1, 1, (n, widths.count(1))).astype(np.float32)
    coded = Coded(numbers, np.hstack([np.empty((n, 0), np.uint8), *codes]), offsets(columns))
    problem = Problem(Logistic(), n=n, d=columns.d, row_norm=columns.row_norm, columns=columns)
    return Data.coded(coded, np.where(rng.random(n) < 0.3, 1.0, -1.0), problem)


def passes(repeats: int) -> None:
    """Time a full gradient of 16 times Adult's records, beside one with the unfolded matrix."""
    data = drawn(N, ADULT)
    d, w = data.problem.d, np.random.default_rng(2).standard_normal(data.problem.d) / 3
    X, y = rows_of(data), data.y
    frame = Frame(np.full(d - 1, 0.1), np.full(d - 1, 1.5), 0.5)
    framed = frames.framed(data, frame, 1.0)

    def blas() -> Floats:
        sums: Floats = (-y / (1 + np.exp(y * (X @ w)))) @ X
        return sums

    seconds = _together(
        repeats,
        coded=lambda: _gradient(data, w),
        framed=lambda: _gradient(framed, w),
        two=lambda: _gradient(data, w, threads=True),
        read=lambda: loops.read(X),
        blas=blas,
    )
    stored = data.records.numbers.nbytes + data.records.codes.nbytes
    gap = np.linalg.norm(_gradient(data, w) - blas()) / N
    assert gap <= data.problem.G * (N / block_rows(data.problem) + block_rows(data.problem)) * UNIT * 4
    print(f"{N} x {d} (6 numbers, 8 categories): {X.nbytes / 1e6:.0f} MB unfolded, {stored / 1e6:.0f} MB as stored")
    for name, label in (
        ("coded", "a full gradient from coded records"),
        ("framed", "the same in a frame"),
        ("two", "on two threads, by the clock"),
        ("read", "one read of the unfolded matrix"),
        ("blas", "a full gradient by BLAS on it"),
    ):
        ratios = f"{seconds[name] / seconds['read']:5.2f} of a read, {seconds[name] / seconds['blas']:5.2f} of BLAS"
        print(f"  {label:36s} {seconds[name] * 1e3:7.1f} ms = {ratios}")


def numbers(repeats: int) -> None:
    """Time a full gradient of numbers alone, stored as singles and as doubles, which `solve` gets.

    Beside it are one read of the doubles, a bare loop over them, and the arithmetic alone.
    """
    for d in (28, 54, 116):
        data = drawn(N, (1,) * d)
        w = np.random.default_rng(2).standard_normal(d + 1) / 3
        loss = Logistic().compiled
        X = stored_numbers(data.records).astype(np.float64)
        doubles = replace(data, records=data.records._replace(numbers=X.view(np.uint8), is_single=False).read_only())
        examples = kernels.Examples(data.records, data.y, data.scale).read_only()
        repeated = np.resize(np.arange(1024 // d), N)  # records of 8 KB, which stay in the first-level cache
        seconds = _together(
            repeats,
            one=partial(_gradient, data, w),
            two=partial(_gradient, data, w, threads=True),
            double=partial(_gradient, doubles, w),
            read=partial(loops.read, X),
            bare=partial(loops.gradient, X, data.y, w),
            cached=partial(kernels.gradient_sum, examples, repeated, w, loss),
        )
        reads = {name: f"{value / seconds['read']:.2f}" for name, value in seconds.items()}
        print(
            f"{N} x {d} numbers, in reads of them as doubles: a full gradient {reads['one']}, on two threads "
            f"{reads['two']}, of doubles {reads['double']}; a bare loop over doubles that may add in any order "
            f"{reads['bare']}; the gradient of as many records in the cache {reads['cached']}"
        )


def growth(repeats: int) -> None:
    """Print how the seconds of a pass grow with records, columns and categories, as exponents."""
    _grow("records", {10**k: (10**k, ADULT) for k in (4, 5, 6, 7)}, repeats)
    _grow("columns", {2 * k: (100_000, (1,) * k + (10,) * k) for k in (4, 16, 64, 256)}, repeats)
    _grow("categories", {10**k: (1_000_000, (1, 1, 10**k)) for k in (2, 3, 4, 5)}, repeats)


def _grow(name: str, layouts: dict[int, tuple[int, tuple[int, ...]]], repeats: int) -> None:
    """Print the milliseconds of a pass for each number of records and layout, by size, and the exponents between."""
    times = {}
    for size, (n, widths) in layouts.items():
        data = drawn(n, widths)
        gradient = partial(_gradient, data, np.zeros(data.problem.d))
        times[size] = _together(max(3, repeats), gradient=gradient)["gradient"]
    exponents = [math.log(b / a) / math.log(t / s) for (s, a), (t, b) in pairwise(times.items())]
    milliseconds = ", ".join(f"{size:.0e}: {seconds * 1e3:.2f} ms" for size, seconds in times.items())
    print(f"{name}: {milliseconds}; exponents {', '.join(f'{exponent:.2f}' for exponent in exponents)}")


def memory() -> None:
    """Print the peak memory of a job's own process, without the mapped files, which the system caches."""
    for n, widths, layout in (
        (10**6, ADULT, "like Adult's"),
        (10**7, ADULT, "like Adult's"),
        (10**6, (1, 1, 10**5), "of two numbers and a category of 1e+05 values"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            output = subprocess.check_output(
                [sys.executable, "-m", "benchmarks.coded_job", folder, str(n), *map(str, widths)],
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            )
        job: dict[str, Any] = json.loads(output)
        print(
            f"a job ({job['method']}) on {n:.0e} records {layout}: at the peak "
            f"{job['anonymous'] / 1e6:.0f} MB beyond what its process held before, {job['all'] / 1e6:.0f} MB in all, "
            f"{job['stored'] / 1e6:.0f} MB stored, {job['seconds']:.1f} s"
        )


def _gradient(data: Data, w: Floats, *, threads: bool = False) -> Floats:
    before, reading.LEAST_PIECES_FOR_THREADS = reading.LEAST_PIECES_FOR_THREADS, 8 if threads else 10**9
    try:
        return gradient_sum(data, slice(0, data.problem.n), w)
    finally:
        reading.LEAST_PIECES_FOR_THREADS = before


def _together(repeats: int, **works: Callable[[], object]) -> dict[str, float]:
    """Return the least seconds of each call, made in turn, so that other work on the machine delays all alike.

    The call "two" has two threads and is timed by the clock. The others are timed by the CPU time of their thread.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            clock = time.perf_counter if name == "two" else time.thread_time
            start = clock()
            work()
            if turn:  # the first turn compiles
                times[name].append(clock() - start)
    return {name: min(seconds) for name, seconds in times.items()}
