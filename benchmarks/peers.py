"""The same data, epsilon and delta given to diffprivlib, to Opacus and to AdaSSP as printed; ours untuned.

The peers run in an environment of their own, .venv-peers, which `make peers` makes; nothing of ours depends on them.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from benchmarks.accuracy import accuracy, majority
from benchmarks.datasets import DATA, Split, adult, california, covertype, protein
from benchmarks.newton import minimize, objective
from solvers import Problem, solve
from solvers.losses import Logistic, Squared
from solvers.methods import AdaSsp, ObjectivePerturbation, OutputPerturbation
from solvers.regularizers import L2
from solvers.selection import Auto

PYTHON = Path(__file__).resolve().parents[1] / ".venv-peers" / "bin" / "python"
EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-5
STRENGTH = 1e-4
EPOCHS, BATCHES, CLIP = 10, 100, 1.0  # of DP-SGD: 1,000 steps on Poisson batches of n / 100 rows
RATES = {"logistic": (0.1, 0.5, 2.0), "squared": (0.1, 0.5)}
_ROWS = 50_000  # of Covertype
# AdaSSP on `protein`, as its author published it with his code (yuxiangw/optimal_dp_linear_regression,
# exp_results.mat): mean and standard deviation over 10 folds of the squared error, delta = 1e-6.
PUBLISHED = {
    0.1: (0.125882, 0.0025),
    0.5: (0.120621, 0.0022),
    1.0: (0.119931, 0.0022),
    5.0: (0.119033, 0.0021),
}
PUBLISHED_TRIVIAL, PUBLISHED_EXACT, PUBLISHED_DELTA = 0.167068, 0.118932, 1e-6

Vector = NDArray[np.float64]
Fit = Callable[[float], tuple[Vector, float]]
"""From epsilon to coefficients and CPU seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """A way to fit, and what its guarantee is: delta, and the relation it holds for."""

    name: str
    delta: str
    fit: Fit


class Peers:
    """The worker in the other environment, for one dataset; one thread, as ours."""

    def __init__(self, split: Split, folder: str) -> None:
        file = Path(folder) / "rows.npz"
        np.savez(file, X=split.X, y=split.y)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        worker = Path(__file__).with_name("peers_worker.py")
        self._process = subprocess.Popen(
            [PYTHON, worker, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | threads
        )

    def fit(self, **job: Any) -> tuple[Vector, float]:
        """One run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the peers' worker died; what it said stands above")
        answer = json.loads(line)
        return np.array(answer["w"]), float(answer["seconds"])

    def close(self) -> None:
        """Ends the worker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def report(seeds: int) -> None:
    """Print the published table, then two of classification and two of regression."""
    published()
    if not PYTHON.exists():
        print("peers: run `make peers`, which makes .venv-peers")
        return
    for load in (adult, lambda: covertype(_ROWS), california, protein):
        split = load()
        if split is None:
            print("peers: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        with tempfile.TemporaryDirectory() as folder:
            peers = Peers(split, folder)
            try:
                (_classes if set(np.unique(split.y)) == {-1.0, 1.0} else _numbers)(split, peers, seeds)
            finally:
                peers.close()


def _classes(split: Split, peers: Peers, seeds: int) -> None:
    n, d = split.X.shape
    problem = Problem(Logistic(), L2(STRENGTH), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    best = minimize(problem, split.X, split.y)
    tight = split.row_norm**2 / (n * STRENGTH)
    rows = [
        Row("purse auto", f"{DELTA:g}", _ours(Auto(), problem, split)),
        Row("purse objective_perturbation", f"{DELTA:g}", _ours(ObjectivePerturbation(), problem, split)),
        Row("purse output_perturbation", "0", _ours(OutputPerturbation(), problem, split, pure=True)),
        Row("diffprivlib, its C = 1", "0", _diffprivlib(peers, 1.0, split)),
        Row("diffprivlib, our l2", "0", _diffprivlib(peers, tight, split)),
        *_dp_sgd(peers, "logistic", split),
    ]
    print(
        f"\n{split.name}: n = {n}, d = {d}, logistic, l2 {STRENGTH:g}, {seeds} runs a cell; replace-one\n"
        f"{'':<29}{'delta':>7}{'epsilon':>9}{'excess risk':>24}{'test accuracy':>20}{'CPU s':>8}\n"
        f"{'optimum':<29}{'-':>7}{'-':>9}{0:>24.4f}{accuracy(split, best.w):>20.4f}\n"
        f"{'w = 0, majority':<29}{'-':>7}{'-':>9}{math.log(2) - best.value:>24.4f}{majority(split):>20.4f}"
    )
    for row, epsilon, ws, seconds in _runs(rows, seeds):
        risks = [objective(problem, split.X, split.y, w) - best.value for w in ws]
        hits = [accuracy(split, w) for w in ws]
        _line(row, epsilon, _spread(risks), _spread(hits), seconds)


def _numbers(split: Split, peers: Peers, seeds: int) -> None:
    n, d = split.X.shape
    problem = Problem(Squared(), L2(STRENGTH), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    rows = [
        Row("purse auto", f"{DELTA:g}", _ours(Auto(), problem, split)),
        Row("purse ada_ssp", f"{DELTA:g}", _ours(AdaSsp(), problem, split)),
        Row("AdaSSP as printed, add/remove", f"{DELTA:g}", _timed(lambda e: printed(split, e, DELTA))),
        Row("diffprivlib", "0", lambda epsilon: peers.fit(peer="diffprivlib_linear", epsilon=epsilon)),
        *_dp_sgd(peers, "squared", split),
    ]
    exact = np.linalg.solve(split.X.T @ split.X / n + STRENGTH * np.eye(d), split.X.T @ split.y / n)
    print(
        f"\n{split.name}: n = {n}, d = {d}, least squares, l2 {STRENGTH:g}, target in [-1, 1], {seeds} runs a cell; "
        "replace-one\n"
        f"{'':<29}{'delta':>7}{'epsilon':>9}{'test squared error':>24}{'test R^2':>20}{'CPU s':>8}\n"
        f"{'optimum':<29}{'-':>7}{'-':>9}{_error(split, exact):>24.4f}{_explained(split, exact):>20.4f}"
    )
    for row, epsilon, ws, seconds in _runs(rows, seeds):
        errors = [_error(split, w) for w in ws]
        _line(row, epsilon, _spread(errors), _spread([_explained(split, w) for w in ws]), seconds)


def _runs(rows: list[Row], seeds: int) -> Iterator[tuple[Row, float, list[Vector], float]]:
    for row in rows:
        for epsilon in EPSILONS:
            fits = [row.fit(epsilon) for _ in range(seeds)]
            yield row, epsilon, [w for w, _ in fits], float(np.mean([seconds for _, seconds in fits]))


def _line(row: Row, epsilon: float, first: str, second: str, seconds: float) -> None:
    print(f"{row.name:<29}{row.delta:>7}{epsilon:>9g}{first:>24}{second:>20}{seconds:>8.2f}")
    sys.stdout.flush()


def _spread(values: list[float]) -> str:
    if np.abs(values).max() >= 1000:  # the peer diverged
        return f"{np.mean(values):.1e} +- {np.std(values):.0e}"
    return f"{np.mean(values):.4f} +- {np.std(values):.4f}"


def _error(split: Split, w: Vector) -> float:
    return float(np.mean((split.X_test @ w - split.y_test) ** 2))


def _explained(split: Split, w: Vector) -> float:
    return 1 - _error(split, w) / float(np.var(split.y_test))


def _timed(fit: Callable[[float], Vector]) -> Fit:
    def timed(epsilon: float) -> tuple[Vector, float]:
        start = time.process_time()
        return fit(epsilon), time.process_time() - start

    return timed


def _ours(method: Any, problem: Problem, split: Split, *, pure: bool = False) -> Fit:
    """Everything from the arrays to the coefficients, calibration included."""
    delta = 0.0 if pure else DELTA
    return _timed(lambda epsilon: solve(method, problem, split.X, split.y, Privacy(epsilon, delta)).coefficients)


def _diffprivlib(peers: Peers, C: float, split: Split) -> Fit:
    return lambda epsilon: peers.fit(peer="diffprivlib_logistic", epsilon=epsilon, C=C, row_norm=split.row_norm)


def _dp_sgd(peers: Peers, loss: str, split: Split) -> Iterator[Row]:
    """Opacus with the least noise that its 1,000 steps need for replaced records, by our accountant."""
    n = len(split.y)
    batch = n // BATCHES
    steps = math.ceil(n / batch)  # of an epoch, as a DataLoader counts them

    def fit(epsilon: float, rate: float) -> tuple[Vector, float]:
        start = time.process_time()
        query = Query("gradient", EPOCHS * steps, PoissonGaussian(1 / steps))
        multiplier = calibrate((query,), Privacy(epsilon, DELTA)).plan.queries[0].noise_multiplier
        calibration = time.process_time() - start
        settings = {"epochs": EPOCHS, "batch": batch, "clip": CLIP, "l2": STRENGTH, "rate": rate}
        w, seconds = peers.fit(peer="opacus", loss=loss, multiplier=multiplier, **settings)
        return w, seconds + calibration

    for rate in RATES[loss]:
        yield Row(f"Opacus DP-SGD, rate {rate:g}", f"{DELTA:g}", partial(fit, rate=rate))


def printed(split: Split, epsilon: float, delta: float) -> Vector:
    """AdaSSP as Wang 2018, Algorithm 2, prints it: three Gaussian mechanisms at epsilon / 3, delta / 3; add or remove.

    Its neighbors differ by a record more or less, so its noise is for half the change of a replaced one.
    """
    random, (n, d) = np.random.default_rng(), split.X.shape
    square, log, rho = split.row_norm**2, math.log(6 / delta), 0.05
    second, mixed = split.X.T @ split.X, split.X.T @ split.y
    std = math.sqrt(log) / (epsilon / 3)
    least = float(np.linalg.eigvalsh(second)[0])
    certain = max(0.0, least + std * square * random.standard_normal() - log / (epsilon / 3) * square)
    ridge = max(0.0, math.sqrt(d * log * math.log(2 * d * d / rho)) * square / (epsilon / 3) - certain)
    noise = np.triu(random.standard_normal((d, d)))
    noise = noise + np.triu(noise, 1).T
    target = mixed + std * split.row_norm * random.standard_normal(d)
    ridge += n * STRENGTH
    return np.asarray(np.linalg.solve(second + std * square * noise + ridge * np.eye(d), target))


def published() -> None:
    """AdaSSP's own table for `protein` beside our ada_ssp on the same rows, prepared in the author's way.

    That way reads the data: columns are standardized, rows scaled to norm 1, log(1 + RMSD) centered and divided by its
    largest magnitude. We follow it to be compared, not because it is private. Ten folds by a fixed permutation.
    """
    if not (DATA / "protein_casp.parquet").exists():
        return
    rows = pq.read_table(DATA / "protein_casp.parquet")
    X = np.column_stack([np.asarray(rows[f"F{i}"], dtype=float) for i in range(1, 10)])
    y = np.log1p(np.asarray(rows["RMSD"], dtype=float))
    y -= y.mean()
    y /= np.abs(y).max()
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    X /= np.linalg.norm(X, axis=1)[:, None]
    folds = np.array_split(np.random.default_rng(0).permutation(len(y)), 10)

    def error(fit: Callable[[Vector, Vector], NDArray[Any]]) -> NDArray[Any]:
        found = []
        for fold in folds:
            train = np.setdiff1d(np.arange(len(y)), fold)
            found.append(np.mean((X[fold] @ fit(X[train], y[train]) - y[fold]) ** 2))
        return np.array(found)

    title = f"protein, the author's preparation, n = {len(y)}, d = 9, delta = {PUBLISHED_DELTA:g}"
    print(f"\n{title}, squared error, 10 folds")
    print(f"{'':<16}{'epsilon':>8}{'AdaSSP, published':>24}{'purse ada_ssp':>24}")
    exact = error(lambda X, y: np.linalg.solve(X.T @ X + np.eye(9), X.T @ y))
    trivial = error(lambda X, y: 0 * X[0])  # noqa: ARG005
    for name, theirs, ours in (("w = 0", PUBLISHED_TRIVIAL, trivial), ("non-private", PUBLISHED_EXACT, exact)):
        print(f"{name:<16}{'-':>8}{theirs:>24.6f}{np.mean(ours):>24.6f}")
    for epsilon, (mean, std) in PUBLISHED.items():
        privacy = Privacy(epsilon, PUBLISHED_DELTA)

        def fit(X: Vector, y: Vector, privacy: Privacy = privacy) -> Vector:
            problem = Problem(Squared(), L2(1 / len(y)), n=len(y), d=9, row_norm=1.0)
            return solve(AdaSsp(), problem, X, y, privacy).coefficients

        ours = error(fit)
        print(f"{'private':<16}{epsilon:>8g}{f'{mean:.4f} +- {std:.4f}':>24}{_spread(ours.tolist()):>24}")
