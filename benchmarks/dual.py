"""The non-private minimizer of a hinge or absolute problem, with a certified bound on its distance from the minimum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.newton import objective
from solvers import Problem
from solvers.losses.smoothing import smoothed

PRECISION = 1e-6
_SMALLEST_WIDTH = 1e-4  # of the envelope, the smallest that the losses accept
_WIDTH_FACTOR = 0.3  # from one envelope to the next
_MOST_STEPS = 60  # of Newton's method, for one smoothing
_BLOCK = 16_384

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Optimum:
    """A point w, P(w) = F(w) + (lambda/2) ||w||^2, and a bound on its excess over the minimum."""

    w: Vector
    value: float
    gap: float


def lower_bound(problem: Problem, X: Vector, y: Vector, slopes: Vector) -> float:
    """Return D(s), a lower bound of P for all slopes of the loss or of an envelope."""
    moment = slopes @ X / len(y)
    return -float(slopes @ y) / len(y) - float(moment @ moment) / (2 * problem.mu)


def minimize(problem: Problem, X: Vector, y: Vector) -> Optimum:
    """Minimize by Newton's method on ever narrower envelopes; return the best point and certificate.

    The certificate is the duality gap. The conjugate of the hinge loss is s y for s = -y a, a in [0, 1], that of the
    absolute residual is s y for s in [-1, 1]. So for all such s_i, by weak duality,
        least >= D(s) = -(1/n) sum_i s_i y_i - ||(1/n) sum_i s_i x_i||^2 / (2 lambda),
    and an envelope's slopes are such s_i. At its minimizer the gap is at most half its width.

    Parameters
    ----------
    problem : of the hinge or absolute loss, with l2; X : (n, d) rows no longer than the problem's bound; y : (n,)

    Raises
    ------
    ArithmeticError
        if the gap did not come below 1e-6.
    """
    w = np.zeros(X.shape[1])
    best = np.zeros(X.shape[1])
    bound = -np.inf
    value, width = objective(problem, X, y, best), 1.0
    while True:
        w, slopes = _newton(problem, X, y, w, width)
        bound = max(bound, lower_bound(problem, X, y, slopes))
        if (new_value := objective(problem, X, y, w)) < value:
            best, value = w, new_value
        if value - bound <= PRECISION:
            return Optimum(best, value, value - bound)
        if width <= _SMALLEST_WIDTH:
            raise ArithmeticError(f"the duality gap is still {value - bound:.1e}")
        width = max(width * _WIDTH_FACTOR, _SMALLEST_WIDTH)


def _newton(problem: Problem, X: Vector, y: Vector, w: Vector, width: float) -> tuple[Vector, Vector]:
    """Return the minimizer with the envelope of this width, and the slopes at it."""
    loss = smoothed(problem.loss, width)
    n = len(y)
    ridge = problem.mu * np.eye(X.shape[1])

    def value(at: Vector) -> float:
        return float(np.mean(loss.value(X @ at, y))) + problem.regularizer.value(at)

    for _ in range(_MOST_STEPS):
        slopes = loss.slope(X @ w, y)
        gradient = slopes @ X / n + problem.mu * w
        inside = X[(slopes != 0) & (np.abs(slopes) < 1)]  # the envelope is curved there, by 1 / width
        gram = np.zeros_like(ridge)
        for start in range(0, len(inside), _BLOCK):
            rows = inside[start : start + _BLOCK]
            gram += rows.T @ rows
        step = np.linalg.solve(gram / (n * width) + ridge, -gradient)
        decrease = -float(gradient @ step)
        size = 1.0
        before = value(w)
        if decrease <= 1e-9 * width:
            break
        while value(w + size * step) > before - 1e-4 * size * decrease and size > 1e-6:
            size /= 2
        w = w + size * step
    return w, loss.slope(X @ w, y)
