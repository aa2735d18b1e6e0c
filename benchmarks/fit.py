"""Time of `purse fit` beside scikit-learn on the same file, and of the smallest job on a server.

Both commands are processes of their own, imports and all, taken in turn; CPU time is theirs and their children's.
Needs BENCHMARK_DATA (adult_train.parquet) and the environment that `make peers` makes, for scikit-learn and pandas.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import pyarrow.csv
from pydantic import TypeAdapter

from benchmarks.datasets import ADULT, declared, stored
from benchmarks.peers_ways import PYTHON
from benchmarks.served import cpu_seconds, environment, small
from purse.wire.columns import Column

_SKLEARN = """
import sys
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
table = pd.read_csv(sys.argv[1])
target = table.pop("income")
numbers = [name for name in table.columns if table[name].dtype.kind in "if"]
words = [name for name in table.columns if name not in numbers]
coded = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), words))
make_pipeline(coded, LogisticRegression(max_iter=1000)).fit(table, target)
"""
_JOBS = 20
_IDLE_SECONDS = 20.0
_SMALLEST = {"name": "dp_gd", "steps": 1}

Seconds = tuple[float, float]
"""CPU seconds, and seconds by the clock."""


def report(seeds: int) -> None:
    """Print both fits and their ratio, then the smallest job."""
    fits(seeds)
    smallest()


def fits(repeats: int) -> None:
    """Time scikit-learn, purse on a new home with an upload, and purse again on that home."""
    table = stored("adult_train.parquet")
    if not PYTHON.exists():
        print("fit: run `make peers`, which installs scikit-learn")
        return
    seconds: dict[str, list[Seconds]] = {"scikit-learn": [], "purse fit, first of the file": [], "purse fit, again": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, schema = folder / "adult.csv", folder / "schema.json"
        pyarrow.csv.write_csv(table, file)
        schema.write_bytes(TypeAdapter(list[Column]).dump_json(declared(table, ADULT), exclude_unset=True))
        for turn in range(repeats + 1):  # the first turn warms every cache, and does not count
            purse = [sys.executable, "-m", "app.cli", "fit", str(file), "--target", "income", "--epsilon", "1"]
            purse += ["--schema", str(schema), "--home", str(folder / f"home {turn}")]
            commands = [str(PYTHON), "-c", _SKLEARN, str(file)], [*purse, "--budget", "3"], purse
            for times, command in zip(seconds.values(), commands, strict=True):
                elapsed = _timed(command)
                times += [elapsed] if turn else []
    reference = [statistics.median(times) for times in zip(*seconds["scikit-learn"], strict=True)]
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"one fit of Adult, 32,561 rows of CSV, from start to exit; medians of {repeats} processes ({load})")
    for label, times in seconds.items():
        cpu, clock = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"  {label:28s} {cpu:5.2f} CPU s ({cpu / reference[0]:.2f} times scikit-learn's), "
            f"{clock:5.2f} s by the clock ({clock / reference[1]:.2f} times)"
        )


def smallest() -> None:
    """Run one step of dp_gd on a hundred records, one job after the other, on a warm server."""
    with small(100, 50.0) as (purse, server, dataset):

        def job() -> Seconds:
            """Return the seconds from submission to end, by the job's times and by the client's clock."""
            start = time.perf_counter()
            handle = purse.jobs.submit(dataset=dataset, target="y", method=_SMALLEST, privacy={"epsilon": 0.1})
            handle.wait()
            elapsed = time.perf_counter() - start
            finished_at = handle.job.finished_at
            assert finished_at is not None
            first, last = (datetime.fromisoformat(at) for at in (handle.job.created_at, finished_at))
            return (last - first).total_seconds(), elapsed

        job()
        start, before = time.monotonic(), cpu_seconds(server)
        time.sleep(_IDLE_SECONDS)
        idle = (cpu_seconds(server) - before) / (time.monotonic() - start)
        start, before = time.monotonic(), cpu_seconds(server)
        by_job, by_client = zip(*(job() for _ in range(_JOBS)), strict=True)
        used = (cpu_seconds(server) - before - idle * (time.monotonic() - start)) / _JOBS
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"the smallest job, {_JOBS} in turn ({load}): {used:.3f} CPU s of server and workers each")
    for label, times in (("submission to end, on the server", by_job), ("call to result, in the client", by_client)):
        print(f"  {label:32s} {statistics.median(times):.2f} s in the median, {min(times):.2f} to {max(times):.2f}")


def _timed(command: list[str]) -> Seconds:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        raise SystemExit(f"{command[0]}: {result.stderr.strip()[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock
