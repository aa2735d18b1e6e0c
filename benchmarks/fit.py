"""Time of `purse fit` beside scikit-learn on the same file, and of the smallest job on a server.

Both commands are processes of their own, imports and all, taken in turn; CPU time is theirs and their children's.
Needs BENCHMARK_DATA (adult_train.parquet) and the environment that `make peers` makes, for scikit-learn and pandas.
"""

import json
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
import pyarrow.parquet as pq

from benchmarks.datasets import _ADULT, DATA
from benchmarks.peers_ways import PYTHON
from benchmarks.running import cpu_seconds
from benchmarks.served import small

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
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_JOBS = 20
_IDLE = 20.0  # seconds
_SMALLEST = {"name": "dp_gd", "steps": 1}

Seconds = tuple[float, float]
"""CPU seconds, and seconds by the clock."""


def report(repeats: int) -> None:
    """Print both fits and their ratio, then the smallest job."""
    fits(repeats)
    smallest()


def fits(repeats: int) -> None:
    """Time scikit-learn, purse on a new home with an upload, and purse again on that home."""
    if not (DATA / "adult_train.parquet").exists() or not PYTHON.exists():
        print("fit: needs adult_train.parquet in the folder BENCHMARK_DATA, and `make peers` for scikit-learn")
        return
    found: dict[str, list[Seconds]] = {"scikit-learn": [], "purse fit, the file's first": [], "purse fit, again": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = _stored(folder)
        for turn in range(repeats + 1):  # the first turn warms every cache, and does not count
            home = folder / f"home {turn}"
            purse = [sys.executable, "-m", "app.cli", "fit", str(file), "--target", "income", "--epsilon", "1"]
            purse += ["--schema", str(folder / "schema.json"), "--home", str(home)]
            took = (
                _taken([str(PYTHON), "-c", _SKLEARN, str(file)]),
                _taken([*purse, "--budget", "3"]),
                _taken(purse),
            )
            for times, seconds in zip(found.values(), took, strict=True):
                times += [seconds] if turn else []
    usual = [statistics.median(times) for times in zip(*found["scikit-learn"], strict=True)]
    print(f"a fit of Adult, 32,561 rows of CSV, imports and all; medians of {repeats} (load {os.getloadavg()[0]:.1f})")
    for what, times in found.items():
        cpu, clock = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"  {what:28s} {cpu:5.2f} CPU s = {cpu / usual[0]:.2f} of scikit-learn's; "
            f"{clock:5.2f} s by the clock = {clock / usual[1]:.2f}"
        )


def smallest() -> None:
    """One step of dp_gd on a hundred records, one job after the other, at a server that is warm."""
    with small(100, 50.0) as (purse, server, dataset):

        def job() -> Seconds:
            """Return the seconds from submission to end, by the job's times and by the client's clock."""
            start = time.perf_counter()
            handle = purse.jobs.submit(dataset=dataset, target="y", method=_SMALLEST, privacy={"epsilon": 0.1})
            handle.wait()
            said = handle.job
            assert said.finished_at is not None
            heard = time.perf_counter() - start
            first, last = (datetime.fromisoformat(at) for at in (said.created_at, said.finished_at))
            return (last - first).total_seconds(), heard

        job()
        began = time.monotonic()
        before = cpu_seconds(server)
        time.sleep(_IDLE)
        idle = (cpu_seconds(server) - before) / (time.monotonic() - began)
        began = time.monotonic()
        before = cpu_seconds(server)
        told, heard = zip(*(job() for _ in range(_JOBS)), strict=True)
        own = (cpu_seconds(server) - before - idle * (time.monotonic() - began)) / _JOBS
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"the smallest job, {_JOBS} in turn ({load}): {own:.3f} CPU s of server and workers each;")
    for what, times in (("told", told), ("heard of by the client", heard)):
        least = min(times)
        usual = statistics.median(times)
        most = max(times)
        print(f"  {what} after {least:.2f} s at the least, {usual:.2f} in the median, {most:.2f} at the most")


def _stored(folder: Path) -> Path:
    """Adult as a CSV file, and its declaration beside it: bounds as published, categories as the file lists them."""
    table = pq.read_table(DATA / "adult_train.parquet")
    columns = [
        {"name": name, "type": "number", "lower": _ADULT[name][0], "upper": _ADULT[name][1]}
        if name in _ADULT
        else {"name": name, "type": "category", "categories": sorted(set(table[name].to_pylist()))}
        for name in table.column_names
    ]
    (folder / "schema.json").write_text(json.dumps(columns))
    pyarrow.csv.write_csv(table, folder / "adult.csv")
    return folder / "adult.csv"


def _taken(command: list[str]) -> Seconds:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PURSE_")} | _ONE_THREAD
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {done.stderr.strip()[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock
