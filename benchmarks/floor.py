"""The noise limit: the loss of one exact Gaussian answer, interpreted with the true curvature."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from accounting.divergences.gaussian import gauss_mu
from benchmarks.datasets import Split
from solvers import Problem

_CONSTANT = 0.3

Vector = NDArray[np.float64]


def floor(split: Split, problem: Problem, best: Vector, epsilon: float, delta: float) -> float:
    """Return the least E[excess] over ridges r of w = (H + r)^-1 (H w* + xi), xi ~ N(0, (2 c / (n mu))^2).

    The excess is to second order. Coordinates are z = (a o (x - m), .3), with the exact means m and a^2 v = 1/d each.
    The mean square of rows is then about 1, and slopes are at most c / ||z||, as in `adaptive_gd`. H is the exact
    Hessian at w*, and the ridge is the best one in hindsight. No private method has either. This is a limit for methods
    that treat all directions alike. A method that learns which directions matter can be below it.
    """
    X, n = split.X[:, :-1], len(split.X)
    m = X.mean(axis=0)
    v = X.var(axis=0)
    varies = v > 0
    a = 1 / np.sqrt(v[varies] * varies.sum())
    Z = np.column_stack(((X[:, varies] - m[varies]) * a, np.full(n, _CONSTANT)))
    w = np.append(best[:-1][varies] / a, (best[-1] + X @ best[:-1] @ np.ones(n) / n) / _CONSTANT)
    margins = split.X @ best
    curvature = problem.loss.slope(margins + 1e-4, split.y) - problem.loss.slope(margins - 1e-4, split.y)
    H = (Z.T * (curvature / 2e-4)) @ Z / n
    values, vectors = np.linalg.eigh(H)
    values, along = np.maximum(values, 0), vectors.T @ w
    mu = gauss_mu(epsilon, delta)
    limit = 0.5 if problem.loss.takes == "class" and n * mu / problem.size < 200 else 1.0
    variance = (2 * limit / (n * mu)) ** 2

    def excess(log_ridge: float) -> float:
        ridge = float(np.exp(log_ridge))
        return float(np.sum(values * ((ridge * along) ** 2 + variance) / (values + ridge) ** 2) / 2)

    grid = np.linspace(-25, 35, 241)
    start = float(grid[int(np.argmin([excess(g) for g in grid]))])
    return float(minimize_scalar(excess, bounds=(start - 0.5, start + 0.5), method="bounded").fun)
