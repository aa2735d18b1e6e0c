"""dp_acc_md with the potential of each domain against dp_gd on the same budget, for many coordinates.

Rows are scaled to norm at most 1 and no regularizer is added. The radii are set by the features' scale alone: an l2
ball of margins up to 10; an l1 ball and a simplex of margins up to 6 for w8a's rows of a dozen words, and of about 1
where all features are equal in size.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from accounting import Privacy
from benchmarks.datasets import Split, adult, available, w8a_words
from benchmarks.references import DELTA, Reference, Vector, majority, spread
from solvers import Problem
from solvers.domains import Domain, Free, L1Ball, L2Ball, Simplex
from solvers.losses import Logistic
from solvers.methods import DpAccMd, DpGd

EPSILONS = (0.5, 1.0, 4.0)
_ROWS = 4000
_EXACT_STEPS = 300


def report(seeds: int) -> None:
    """Print a table for each dataset, with the ratio of the two methods' risks."""
    for load, domains in CASES:
        started = time.perf_counter()
        for split in available(load):
            n, d = split.X.shape
            print(f"\n{split.name}: n = {n}, d = {d}, rows of norm 1, logistic, delta = {DELTA:g}, {seeds} runs a cell")
            print(f"majority class of the rows kept out {majority(split):.4f}")
            print(
                f"{'domain':<22}{'epsilon':>8} {'dp_gd: excess risk':>24} {'accuracy':>9}"
                f" {'dp_acc_md: excess risk':>24} {'accuracy':>9}  {'potential':<18}{'ratio of risks':>14}"
            )
            for domain in domains:
                _compare(split, domain, seeds)
            print(f"{time.perf_counter() - started:.0f} s")


def _compare(split: Split, domain: Domain, seeds: int) -> None:
    n, d = split.X.shape
    problem = Problem(Logistic(), domain=domain, n=n, d=d, row_norm=1.0)
    reference = Reference(split, problem, _optimum(problem, split))
    label = domain.name + (f" {domain.radius:.4g}" if not isinstance(domain, Free) else "")
    print(
        f"{label:<22}{'-':>8} {'untrained ' + format(reference.excess(problem.start), '.4f'):>24} {'':>9} "
        f"{'optimum':>24} {reference.score(reference.optimum):>9.4f}"
    )
    for epsilon in EPSILONS:
        models = [[reference.fit(method, epsilon) for _ in range(seeds)] for method in (DpGd(), DpAccMd())]
        risks = [[reference.excess(w) for w in cell] for cell in models]
        gd_score, acc_score = (np.mean([reference.score(w) for w in cell]) for cell in models)
        potential = DpAccMd().resolve(problem, Privacy(epsilon, DELTA)).potential
        name, ratio = potential.name if potential else "", np.mean(risks[1]) / np.mean(risks[0])
        print(
            f"{label:<22}{epsilon:>8g} {spread(risks[0], 4):>24} {gd_score:>9.4f} {spread(risks[1], 4):>24} "
            f"{acc_score:>9.4f}  {name:<18}{ratio:>14.2f}",
            flush=True,
        )


def _optimum(problem: Problem, split: Split) -> Vector:
    """Return the point after 300 accelerated steps without noise; it is near the least risk, without a certificate."""
    w = before = problem.start
    for t in range(_EXACT_STEPS):
        v = w + t / (t + 3) * (w - before)
        slopes = problem.loss.slope(split.X @ v, split.y)
        before, w = w, problem.prox(v - (slopes @ split.X / problem.n) / problem.L, 1 / problem.L)
    return w


def w8a() -> Split:
    """Return web pages, a constant and 300 binary words: 20,000 training rows by a fixed permutation."""
    words, is_topic = w8a_words()
    X = np.column_stack((np.ones(len(words)), words))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(is_topic, 1.0, -1.0)
    train, test = np.split(np.random.default_rng(0).permutation(len(y)), [20_000])
    return Split("w8a", X[train], y[train], X[test], y[test], 1.0)


def fourier(d: int) -> Split:
    """Return Adult in d random Fourier features, cos(<a, x> + b) / sqrt(d)."""
    split = adult()
    random = np.random.default_rng(1)
    a = random.standard_normal((split.X.shape[1], d)) / split.row_norm
    b = random.uniform(0, 2 * np.pi, d)
    return _mapped(split, f"Adult, {d} Fourier features", lambda X: np.cos(X @ a + b) / np.sqrt(d))


def relu(d: int) -> Split:
    """Return Adult in d random features max(0, <a, x>), each row scaled to norm 1."""
    split = adult()
    a = np.random.default_rng(2).standard_normal((split.X.shape[1], d))

    def features(X: Vector) -> Vector:
        mapped = np.maximum(X @ a, 0.0)
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        return mapped

    return _mapped(split, f"Adult, {d} ReLU features", features)


def _mapped(split: Split, name: str, features: Callable[[Vector], Vector]) -> Split:
    """Return 4,000 training rows and 2,000 test rows, mapped."""
    X, X_test = features(split.X[:_ROWS]), features(split.X_test[: _ROWS // 2])
    return Split(name, X, split.y[:_ROWS], X_test, split.y_test[: _ROWS // 2], 1.0)


CASES: tuple[tuple[Callable[[], Split], tuple[Domain, ...]], ...] = (
    (w8a, (Free(), L2Ball(10.0), L1Ball(20.0), Simplex(20.0))),
    (partial(fourier, 2000), (Free(), L2Ball(10.0), L1Ball(2000**0.5), Simplex(2000**0.5))),
    (partial(relu, 20_000), (Free(), L1Ball(20_000**0.5 / 2))),
)
