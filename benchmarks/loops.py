"""Bare compiled loops, which the costs are compared with: no plan and no proof, and noise that is not cryptographic."""

import math

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def read(X: Floats) -> float:
    """Return the sum of all entries, by one streaming read that may add in any order."""
    flat, total = X.ravel(), 0.0
    for j in range(flat.shape[0]):
        total += flat[j]
    return total


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def gradient(X: Floats, y: Floats, w: Floats) -> Floats:
    """Return the sum of logistic gradients, record by record, which may be added in any order."""
    total = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        margin = 0.0
        for j in range(X.shape[1]):
            margin += X[i, j] * w[j]
        s = -y[i] / (1 + math.exp(y[i] * margin))
        for j in range(X.shape[1]):
            total[j] += s * X[i, j]
    return total


@numba.njit  # type: ignore[untyped-decorator]
def svrg(
    X: Floats, y: Floats, snapshot: Floats, std: float, step: float, steps: int, generator: np.random.Generator
) -> Floats:
    """Return the point after logistic SVRG steps of one row each, with normal noise on each coordinate."""
    n, d = X.shape
    w = np.zeros(d)
    anchor = np.zeros(d)
    for _ in range(steps):
        i = generator.integers(0, n)
        here = there = 0.0
        for j in range(d):
            here += X[i, j] * w[j]
            there += X[i, j] * anchor[j]
        s = -y[i] / (1 + math.exp(y[i] * here)) + y[i] / (1 + math.exp(y[i] * there))
        for j in range(d):
            w[j] -= step * (s * X[i, j] + std * generator.standard_normal() + snapshot[j])
    return w
