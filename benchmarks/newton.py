"""The non-private minimizer of a logistic problem, with a certified bound on its distance from the minimum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from solvers import Problem

PRECISION = 1e-10
_MOST_ITERATIONS = 60
_MOST_ROUNDS = 10
_LARGEST_NORM = 1e4  # of the points that the duality certificate covers
_SMALLEST_CURVATURE = 1e-13  # times n; smaller ones are rounding
_RANK = 1e-14  # share of the largest eigenvalue, below which a direction does not occur in the rows
_BLOCK = 16_384

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Optimum:
    """A point w, F(w) + r(w), the largest amount by which that exceeds the infimum, and the name of the proof."""

    w: Vector
    value: float
    gap: float
    certificate: str


def objective(problem: Problem, X: Vector, y: Vector, w: Vector) -> float:
    """Return F(w) + r(w)."""
    return float(np.mean(problem.loss.value(X @ w, y))) + problem.regularizer.value(w)


def minimize(problem: Problem, X: Vector, y: Vector) -> Optimum:
    """Return the minimizer of a logistic problem by Newton's method, certified to within 1e-10 of the infimum.

    With lambda > 0, F + r is lambda-strongly convex, so value - infimum <= ||g||^2 / (2 lambda) for the gradient g.
    Without a penalty the certificate is by weak duality (`_duality_gap`). It does not assume anything of the Hessian,
    nor that the infimum is attained: a category whose rows are all of one class pushes its coefficient to infinity.

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
            is_near = float(-gradient @ step) <= 10 * PRECISION  # a guess, which saves the work of a proof
            gap, certificate = _duality_gap(X, y, p, value) if is_near else np.inf, "duality gap"
        if gap <= PRECISION:
            return Optimum(w, value, gap, certificate)
        size = 1.0
        while (lower := objective(problem, X, y, w + size * step)) > value + 1e-15 and size > 1e-9:
            size /= 2
        w, value = w + size * step, lower
    raise ArithmeticError("Newton's method did not reach its certificate")


def _duality_gap(X: Vector, y: Vector, p: Vector, value: float) -> float:
    """Return F(w) minus a lower bound of F(u) for all ||u|| <= 1e4; infinity if no bound was found.

    ln(1 + e^-m) >= H(a) - a m for every a in [0, 1], H the entropy in nats, so F(u) >= (1/n) sum_i H(a_i) - <r, u> with
    r = (1/n) sum_i a_i y_i x_i. Newton steps s from a = p, p_i = 1 / (1 + e^(y_i m_i)), make r vanish to rounding:
    a_i = p_i - p_i (1 - p_i) y_i <x_i, s>. Entries that leave [0, 1], or nearly do, are fixed at its end.
    """
    n = len(y)
    curvature = p * (1 - p)
    is_fixed = curvature < _SMALLEST_CURVATURE * n
    a = np.where(is_fixed, np.round(p), p)
    for _ in range(_MOST_ROUNDS):
        curvature[is_fixed] = 0
        a = a - curvature * y * (X @ _solve(_gram(X, curvature), (y * a) @ X))
        outside = (a < 0) | (a > 1)
        if not outside.any():
            r = float(np.linalg.norm((y * a) @ X)) / n
            return value + float(np.mean(xlogy(a, a) + xlogy(1 - a, 1 - a))) + _LARGEST_NORM * r
        is_fixed |= outside
        a = np.clip(a, 0, 1)
    return np.inf


def _gram(X: Vector, weights: Vector) -> Vector:
    """Return sum_i weights_i x_i x_i^T."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), _BLOCK):
        rows = X[start : start + _BLOCK]
        total += rows.T @ (rows * weights[start : start + _BLOCK, None])
    return total


def _solve(H: Vector, b: Vector) -> Vector:
    """Return the shortest s with H s = b in the directions of large eigenvalues."""
    values, vectors = np.linalg.eigh(H)
    is_large = values > _RANK * values[-1]
    return np.asarray(vectors[:, is_large] @ ((vectors[:, is_large].T @ b) / values[is_large]))
