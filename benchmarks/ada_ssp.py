"""AdaSSP and its boosted form under add-remove neighbors, as in their papers, and under replace-one neighbors.

A record changes these by at most (under add-remove, under replace-one neighbors):

    least eigenvalue of X'X         R^2, R^2
    X'X in the Frobenius norm       R^2, sqrt(2) R^2, since ||xx' - zz'||^2 = |x|^4 + |z|^4 - 2 <x, z>^2
    X'r, if |r| <= 1                R, 2 R
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from benchmarks.datasets import Split, stored
from benchmarks.references import spread
from solvers import Problem, solve
from solvers.losses import Squared
from solvers.methods import AdaSsp
from solvers.regularizers import L2

# AdaSSP on `protein`, as its author published it with his code (yuxiangw/optimal_dp_linear_regression,
# exp_results.mat): mean and standard deviation over 10 folds of the squared error, delta = 1e-6.
PUBLISHED = {
    0.1: (0.125882, 0.0025),
    0.5: (0.120621, 0.0022),
    1.0: (0.119931, 0.0022),
    5.0: (0.119033, 0.0021),
}
PUBLISHED_TRIVIAL, PUBLISHED_EXACT, PUBLISHED_DELTA = 0.167068, 0.118932, 1e-6
ROUNDS = 5
_FAILURE = 0.05  # the chance that the ridge does not hold the noise, in both papers

Vector = NDArray[np.float64]

CHANGES = {"add/remove": (1.0, 1.0), "replace-one": (math.sqrt(2), 2.0)}
"""Bounds of X'X over R^2, and of X'r over R."""


def printed(split: Split, epsilon: float, delta: float, relation: str = "add/remove", strength: float = 0.0) -> Vector:
    """Return the result of AdaSSP (Wang 2018, Algorithm 2): three Gaussian mechanisms at epsilon / 3, delta / 3."""
    random, (n, d) = np.random.default_rng(), split.X.shape
    square, log, (changed, mixed) = split.row_norm**2, math.log(6 / delta), CHANGES[relation]
    second = split.X.T @ split.X
    std = math.sqrt(log) / (epsilon / 3)
    least = float(np.linalg.eigvalsh(second)[0])
    certain = max(0.0, least + std * square * random.standard_normal() - log / (epsilon / 3) * square)
    noise = math.sqrt(d * log * math.log(2 * d * d / _FAILURE)) * changed * square / (epsilon / 3)
    target = split.X.T @ split.y + std * mixed * split.row_norm * random.standard_normal(d)
    ridge = max(0.0, noise - certain) + n * strength
    return np.asarray(
        np.linalg.solve(second + std * changed * square * _symmetric(random, d) + ridge * np.eye(d), target)
    )


def boosted(split: Split, epsilon: float, delta: float, relation: str = "add/remove") -> Vector:
    """Return the result of boosted AdaSSP (Tang et al. 2023): one noisy X'X, then rounds of noisy X'r.

    r are the residuals, clipped to the target's range 1. The least eigenvalue, X'X and all rounds together get a third
    of mu^2 each, by exact Gaussian accounting, which differs from the paper's.
    """
    random, (_, d) = np.random.default_rng(), split.X.shape
    mu, square, (changed, mixed) = gauss_mu(epsilon, delta) / math.sqrt(3), split.row_norm**2, CHANGES[relation]
    second = split.X.T @ split.X
    least = float(np.linalg.eigvalsh(second)[0]) + square / mu * random.standard_normal()
    certain = max(0.0, least - square / mu * math.sqrt(2 * math.log(2 / _FAILURE)))
    ridge = max(0.0, math.sqrt(d * math.log(2 * d * d / _FAILURE)) * changed * square / mu - certain)
    matrix = second + changed * square / mu * _symmetric(random, d) + ridge * np.eye(d)
    w = np.zeros(d)
    for _ in range(ROUNDS):
        residuals = np.clip(split.y - split.X @ w, -1, 1)
        noise = mixed * split.row_norm * math.sqrt(ROUNDS) / mu * random.standard_normal(d)
        w = w + np.linalg.solve(matrix, split.X.T @ residuals + noise)
    return w


def _symmetric(random: np.random.Generator, d: int) -> Vector:
    noise = np.triu(random.standard_normal((d, d)))
    return np.asarray(noise + np.triu(noise, 1).T)


def published() -> None:
    """Print the author's table of AdaSSP for `protein` beside our ada_ssp on the same rows, prepared in the same way.

    This preparation reads the data, and is not private: columns are standardized, rows are scaled to norm 1, and
    log(1 + RMSD) is centered and divided by its largest magnitude. Ten folds follow from a fixed permutation.
    """
    rows = stored("protein_casp.parquet")
    X = np.column_stack([np.asarray(rows[f"F{i}"], dtype=float) for i in range(1, 10)])
    y = np.log1p(np.asarray(rows["RMSD"], dtype=float))
    y -= y.mean()
    y /= np.abs(y).max()
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    X /= np.linalg.norm(X, axis=1)[:, None]
    folds = np.array_split(np.random.default_rng(0).permutation(len(y)), 10)

    def error(fit: Callable[[Vector, Vector], NDArray[Any]]) -> NDArray[Any]:
        errors = []
        for fold in folds:
            train = np.setdiff1d(np.arange(len(y)), fold)
            errors.append(np.mean((X[fold] @ fit(X[train], y[train]) - y[fold]) ** 2))
        return np.array(errors)

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

        print(f"{'private':<16}{epsilon:>8g}{f'{mean:.4f} +- {std:.4f}':>24}{spread(error(fit), 4):>24}")
