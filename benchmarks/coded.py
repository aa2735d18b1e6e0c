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
    """Print ratios of passes, then memory and exponents."""
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

    found = _together(
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
    for name, what in (
        ("coded", "a full gradient from coded records"),
        ("framed", "the same in a frame"),
        ("two", "on two threads, by the clock"),
        ("read", "one read of the unfolded matrix"),
        ("blas", "a full gradient by BLAS on it"),
    ):
        ratios = f"{found[name] / found['read']:5.2f} of a read, {found[name] / found['blas']:5.2f} of BLAS"
        print(f"  {what:36s} {found[name] * 1e3:7.1f} ms = {ratios}")


def numbers(repeats: int) -> None:
    """Numbers alone: a full gradient, of doubles too, as `solve` is handed them, beside one read of these doubles, a
    bare loop over them, and the arithmetic alone.
    """
    for d in (28, 54, 116):
        data = drawn(N, (1,) * d)
        w = np.random.default_rng(2).standard_normal(d + 1) / 3
        loss = Logistic().compiled
        X = stored_numbers(data.records).astype(np.float64)
        doubles = replace(data, records=data.records._replace(numbers=X.view(np.uint8), is_single=False).read_only())
        examples = kernels.Examples(data.records, data.y, data.scale).read_only()
        few = np.resize(np.arange(1024 // d), N)  # records of 8 KB, again and again: they stay in the first-level cache
        found = _together(
            repeats,
            one=partial(_gradient, data, w),
            two=partial(_gradient, data, w, threads=True),
            double=partial(_gradient, doubles, w),
            read=partial(loops.read, X),
            bare=partial(loops.gradient, X, data.y, w),
            cached=partial(kernels.gradient_sum, examples, few, w, loss),
        )
        reads = {name: f"{seconds / found['read']:.2f}" for name, seconds in found.items()}
        print(
            f"{N} x {d} numbers, in reads of them as doubles: a full gradient {reads['one']}, on two threads "
            f"{reads['two']}, of doubles {reads['double']}; a bare loop over doubles that may add in any order "
            f"{reads['bare']}; the gradient of as many records in the cache {reads['cached']}"
        )


def growth(repeats: int) -> None:
    """Print how the seconds of a pass grow with records, columns and categories, as exponents."""
    for name, cases in (
        ("records", [(10**k, ADULT) for k in (4, 5, 6, 7)]),
        ("columns", [(100_000, (1,) * k + (10,) * k) for k in (4, 16, 64, 256)]),
        ("categories", [(1_000_000, (1, 1, 10**k)) for k in (2, 3, 4, 5)]),
    ):
        sizes, times = [], []
        for n, widths in cases:
            data = drawn(n, widths)
            w = np.zeros(data.problem.d)
            sizes.append({"records": n, "columns": len(widths), "categories": widths[-1]}[name])
            times.append(_together(max(3, repeats), pass_=partial(_gradient, data, w))["pass_"])
        slopes = [
            math.log(b / a) / math.log(t / s) for a, b, s, t in zip(times, times[1:], sizes, sizes[1:], strict=False)
        ]
        told = ", ".join(f"{size:.0e}: {seconds * 1e3:.2f} ms" for size, seconds in zip(sizes, times, strict=True))
        print(f"{name}: {told}; exponents {', '.join(f'{slope:.2f}' for slope in slopes)}")


def memory() -> None:
    """A job's own peak, its process measured: the files are mapped, and what is read of them is the system's cache."""
    for n, widths, layout in (
        (10**6, ADULT, "like Adult's"),
        (10**7, ADULT, "like Adult's"),
        (10**6, (1, 1, 10**5), "of two numbers and a category of 1e+05 values"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.coded_job", folder, str(n), *map(str, widths)],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            )
        told: dict[str, Any] = json.loads(done.stdout)
        print(
            f"a job ({told['method']}) on {n:.0e} records {layout}: at the peak "
            f"{told['anonymous'] / 1e6:.0f} MB beyond what its process held before, {told['all'] / 1e6:.0f} MB in all, "
            f"{told['stored'] / 1e6:.0f} MB stored, {told['seconds']:.1f} s"
        )


def _gradient(data: Data, w: Floats, *, threads: bool = False) -> Floats:
    before, reading.LEAST_PIECES_FOR_THREADS = reading.LEAST_PIECES_FOR_THREADS, 8 if threads else 10**9
    try:
        return gradient_sum(data, slice(0, data.problem.n), w)
    finally:
        reading.LEAST_PIECES_FOR_THREADS = before


def _together(repeats: int, **works: Callable[[], object]) -> dict[str, float]:
    """Least seconds of each, taken in turn, so that all meet the same company; on the clock for what has threads
    ("two"), else this thread's own, which a busy machine leaves nearly alone.
    """
    found: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            clock = time.perf_counter if name == "two" else time.thread_time
            start = clock()
            work()
            if turn:
                found[name].append(clock() - start)
    return {name: min(times) for name, times in found.items()}
