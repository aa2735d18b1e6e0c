"""The non-private minimizer of a logistic problem, with a certified bound on its distance from the minimum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from solvers import Problem

PRECISION = 1e-10
_MOST_ITERATIONS = 60
_MOST_ROUNDS = 10
_FARTHEST = 1e4  # the duality certificate speaks of every w up to this norm
_HELD = 1e-13  # times n: curvatures too small for their directions to be seen
_RANK = 1e-14  # below this share of the largest eigenvalue a direction is one that the rows do not see
_BLOCK = 16_384

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Optimum:
    """w, F(w) + r(w), and how much that can exceed the infimum by, with the name of the proof."""

    w: Vector
    value: float
    gap: float
    certificate: str


def objective(problem: Problem, X: Vector, y: Vector, w: Vector) -> float:
    """F(w) + r(w)."""
    return float(np.mean(problem.loss.value(X @ w, y))) + problem.regularizer.value(w)


def minimize(problem: Problem, X: Vector, y: Vector) -> Optimum:
    """Newton's method on the logistic loss, with halved steps, until the value is certified to within 1e-10.

    With lambda > 0, F + r is lambda-strongly convex, so value - least <= ||g||^2 / (2 lambda), g the gradient. Without,
    by weak duality: `_duality_gap`. There nothing is supposed of the Hessian, nor that the infimum is attained (a
    category whose rows are all of one class pushes its coefficient to infinity).

    Parameters
    ----------
    X : (n, d) rows no longer than the problem's bound; y : (n,) in {-1, +1}

    Raises
    ------
    ArithmeticError
        if the certificate was not reached.
    """
    n, d = X.shape
    w = np.zeros(d)
    value = objective(problem, X, y, w)
    for _ in range(_MOST_ITERATIONS):
        p = expit(-y * (X @ w))
        gradient = problem.mu * w - (y * p) @ X / n
        step = _solve(_gram(X, p * (1 - p)) / n + problem.mu * np.eye(d), -gradient)
        if problem.mu > 0:
            gap, certificate = float(gradient @ gradient) / (2 * problem.mu), "||g||^2 / (2 lambda)"
        else:
            near = float(-gradient @ step) <= 10 * PRECISION  # a guess of the gap: no proof, but saves the work of one
            gap, certificate = _duality_gap(X, y, p, value) if near else np.inf, "duality gap"
        if gap <= PRECISION:
            return Optimum(w, value, gap, certificate)
        size = 1.0
        while (lower := objective(problem, X, y, w + size * step)) > value + 1e-15 and size > 1e-9:
            size /= 2
        w, value = w + size * step, lower
    raise ArithmeticError("Newton's method did not reach its certificate")


def _duality_gap(X: Vector, y: Vector, p: Vector, value: float) -> float:
    """F(w) less a lower bound on every F(u), ||u|| <= 1e4; infinite if none was found.

    ln(1 + e^-m) >= H(a) - a m for every a in [0, 1], H the entropy in nats, so F(u) >= (1/n) sum_i H(a_i) - <r, u> with
    r = (1/n) sum_i a_i y_i x_i. Newton steps s from a = p, p_i = 1 / (1 + e^(y_i m_i)), make r vanish to rounding:
    a_i = p_i - p_i (1 - p_i) y_i <x_i, s>. Entries that leave [0, 1], or nearly do, are held at the end of it.
    """
    n = len(y)
    curvature = p * (1 - p)
    held = curvature < _HELD * n
    a = np.where(held, np.round(p), p)
    for _ in range(_MOST_ROUNDS):
        curvature[held] = 0
        a = a - curvature * y * (X @ _solve(_gram(X, curvature), (y * a) @ X))
        outside = (a < 0) | (a > 1)
        if not outside.any():
            r = float(np.linalg.norm((y * a) @ X)) / n
            return value + float(np.mean(xlogy(a, a) + xlogy(1 - a, 1 - a))) + _FARTHEST * r
        held |= outside
        a = np.clip(a, 0, 1)
    return np.inf


def _gram(X: Vector, weights: Vector) -> Vector:
    """sum_i weights_i x_i x_i^T."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), _BLOCK):
        rows = X[start : start + _BLOCK]
        total += rows.T @ (rows * weights[start : start + _BLOCK, None])
    return total


def _solve(H: Vector, b: Vector) -> Vector:
    """The shortest s with H s = b, in the directions that H sees."""
    values, vectors = np.linalg.eigh(H)
    seen = values > _RANK * values[-1]
    return np.asarray(vectors[:, seen] @ ((vectors[:, seen].T @ b) / values[seen]))
