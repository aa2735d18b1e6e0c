"""dp_acc_md with the potential of each domain against dp_gd on the same budget, for many coordinates.

Rows are scaled to norm at most 1 and no regularizer is added. The radii are set by the features' scale alone: an l2
ball of margins up to 10; an l1 ball and a simplex of margins up to 6 for w8a's rows of a dozen words, and of about 1
where all features are equal in size.
"""

import gzip
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.accuracy import accuracy, majority
from benchmarks.datasets import DATA, Split, adult
from solvers import Problem, solve
from solvers.domains import Domain, Free, L1Ball, L2Ball, Simplex
from solvers.losses import Logistic
from solvers.methods import DpAccMd, DpGd, Method

EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-5
_ROWS = 4000
_EXACT_STEPS = 300


@dataclass(frozen=True, slots=True)
class Case:
    """A dataset and the domains to train on."""

    load: Callable[[], Split]
    domains: tuple[Domain, ...]


def report(seeds: int) -> None:
    """Print one table a dataset, and at the end how the two methods compare."""
    if not (DATA / "w8a.libsvm.gz").exists():
        print("wide: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
        return
    for case in CASES:
        started = time.perf_counter()
        split = case.load()
        n, d = split.X.shape
        print(f"\n{split.name}: n = {n}, d = {d}, rows of norm 1, logistic, delta = {DELTA:g}, {seeds} runs a cell")
        print(f"majority class of the rows kept out {majority(split):.4f}")
        print(
            f"{'domain':<22}{'epsilon':>8} {'dp_gd: excess risk':>24} {'accuracy':>9}"
            f" {'dp_acc_md: excess risk':>24} {'accuracy':>9}  {'potential':<18}{'ratio of risks':>14}"
        )
        for domain in case.domains:
            _rows(split, domain, seeds)
        print(f"{time.perf_counter() - started:.0f} s")


def _rows(split: Split, domain: Domain, seeds: int) -> None:
    n, d = split.X.shape
    problem = Problem(Logistic(), domain=domain, n=n, d=d, row_norm=1.0)
    best = _optimum(problem, split)
    least = _risk(problem, split, best)
    label = domain.name + (f" {domain.radius:.4g}" if not isinstance(domain, Free) else "")
    at_start = _risk(problem, split, problem.start) - least
    print(
        f"{label:<22}{'-':>8} {'untrained ' + format(at_start, '.4f'):>24} {'':>9} {'optimum':>24} "
        f"{accuracy(split, best):>9.4f}"
    )
    for epsilon in EPSILONS:
        privacy = Privacy(epsilon, DELTA)
        risks, hits = zip(*(_measure(m, problem, split, privacy, seeds) for m in (DpGd(), DpAccMd())), strict=True)
        chosen = DpAccMd().resolve(problem, privacy).potential
        gd, acc = (f"{np.mean(r) - least:.4f} +- {np.std(r):.4f}" for r in risks)
        ratio = (np.mean(risks[1]) - least) / (np.mean(risks[0]) - least)
        print(
            f"{label:<22}{epsilon:>8g} {gd:>24} {np.mean(hits[0]):>9.4f} {acc:>24} {np.mean(hits[1]):>9.4f}"
            f"  {chosen.name if chosen else '':<18}{ratio:>14.2f}"
        )
        sys.stdout.flush()


def _measure(
    method: Method, problem: Problem, split: Split, privacy: Privacy, seeds: int
) -> tuple[list[float], list[float]]:
    models = [solve(method, problem, split.X, split.y, privacy).coefficients for _ in range(seeds)]
    return [_risk(problem, split, w) for w in models], [accuracy(split, w) for w in models]


def _risk(problem: Problem, split: Split, w: NDArray[np.float64]) -> float:
    return float(np.mean(problem.loss.value(split.X @ w, split.y)))


def _optimum(problem: Problem, split: Split) -> NDArray[np.float64]:
    """The point that 300 exact accelerated steps reach, without noise: near the least risk, not certified to be it."""
    w = before = problem.start
    for t in range(_EXACT_STEPS):
        v = w + t / (t + 3) * (w - before)
        slopes = problem.loss.slope(split.X @ v, split.y)
        before, w = w, problem.prox(v - (slopes @ split.X / problem.n) / problem.L, 1 / problem.L)
    return w


def w8a() -> Split:
    """Return web pages, 300 binary words and a constant: 20,000 training rows by a fixed permutation."""
    with gzip.open(DATA / "w8a.libsvm.gz", "rt") as lines:
        records = [line.split() for line in lines if line.strip()]
    X = np.zeros((len(records), 301))
    y = np.array([float(record[0]) for record in records])
    for row, record in zip(X, records, strict=True):
        row[[int(entry.partition(":")[0]) for entry in record[1:]]] = 1.0
        row[0] = 1.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:20_000], order[20_000:]
    return Split("w8a", X[train], y[train], X[test], y[test], 1.0)


def fourier(d: int) -> Split:
    """Return Adult in d random Fourier features, cos(<a, x> + b) / sqrt(d)."""
    split = _adult()
    random = np.random.default_rng(1)
    a = random.standard_normal((split.X.shape[1], d)) / split.row_norm
    b = random.uniform(0, 2 * np.pi, d)
    return _mapped(split, f"Adult, {d} Fourier features", lambda X: np.cos(X @ a + b) / np.sqrt(d))


def relu(d: int) -> Split:
    """Return Adult in d random features max(0, <a, x>), each row scaled to norm 1."""
    split = _adult()
    a = np.random.default_rng(2).standard_normal((split.X.shape[1], d))

    def features(X: NDArray[np.float64]) -> NDArray[np.float64]:
        mapped = np.maximum(X @ a, 0.0)
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        return mapped

    return _mapped(split, f"Adult, {d} ReLU features", features)


def _adult() -> Split:
    split = adult()
    assert split is not None
    return split


def _mapped(split: Split, name: str, features: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Split:
    """Return 4,000 training rows and 2,000 test rows, mapped."""
    X = features(split.X[:_ROWS])
    X_test = features(split.X_test[: _ROWS // 2])
    return replace(
        split, name=name, X=X, y=split.y[:_ROWS], X_test=X_test, y_test=split.y_test[: _ROWS // 2], row_norm=1
    )


CASES = (
    Case(w8a, (Free(), L2Ball(10.0), L1Ball(20.0), Simplex(20.0))),
    Case(lambda: fourier(2000), (Free(), L2Ball(10.0), L1Ball(2000**0.5), Simplex(2000**0.5))),
    Case(lambda: relu(20_000), (Free(), L1Ball(20_000**0.5 / 2))),
)
