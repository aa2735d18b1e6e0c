"""delta of a random allocation to a few slots by quadrature of e_n(r) = E(X_1 + ... + X_n + r)_+.

The relative error is about 1e-5, and up to 2e-3 for the form `single` (found with a four times finer quadrature).

With gamma = e^epsilon and a = e^(cY - c^2/2), Y ~ N(0, 1), replace-one has delta = q e_T(-T kappa) / T with
kappa = (1-q)(gamma-1)/q. Under zero_out, X is a or -a. e_1 is a closed form, and e_n(r) = E e_(n-1)(r + X). From n = 2
on, ln e_n is a spline over asinh r. Nothing here is rounded up, and no code is shared with `accounting.divergences`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from tests.reference.normal import Vector

STEP = 0.02  # of Y
REACH = 11.0
KNOTS = 801  # of a spline


class Law(NamedTuple):
    """Values of X with their weights, and e_1."""

    values: Vector
    weights: Vector
    e_1: Callable[[Vector], Vector]


def density(y: Vector) -> Vector:
    return np.exp(-y * y / 2) / math.sqrt(2 * math.pi)


def independent(c: float, gamma: float) -> Law:
    k, y = math.exp(-c * c / 2), np.arange(-REACH - c, REACH + 2 * c, STEP)

    def e_1(r: Vector) -> Vector:
        root = np.sqrt(r * r + 4 * gamma * k * k)
        w = np.where(r < 0, root - r, 4 * gamma * k * k / (root + np.maximum(r, 0.0))) / (2 * k)
        log_root = np.log(w) / c  # of y with x + r >= 0
        return np.asarray(ndtr(c - log_root) - gamma * ndtr(-c - log_root) + r * ndtr(-log_root))

    return Law(k * (np.exp(c * y) - gamma * np.exp(-c * y)), density(y) * STEP, e_1)


def single(c: float, mirrored: bool) -> Law:
    y = np.arange(-REACH - c, REACH + 2 * c, STEP)
    a = np.exp(c * y - c * c / 2)

    def e_1(r: Vector) -> Vector:
        edge = np.log(np.maximum(np.abs(r), 1e-300)) / c + c / 2
        if mirrored:
            return np.where(r > 0, r * ndtr(edge) - ndtr(edge - c), 0.0)
        return np.where(r < 0, ndtr(c - edge) + r * ndtr(-edge), 1 + r)

    return Law(-a if mirrored else a, density(y) * STEP, e_1)


def ordered(c: float, gamma: float) -> Law:
    """X = a - gamma where a > gamma; apart from it, 1 - gamma a where a > 1/gamma; else 0; here a has mu = 2c for c."""
    mu = 2 * c

    def place(a: Vector | float) -> Vector:
        return np.asarray(np.log(a) / mu + c)

    high, low = float(place(gamma)), float(place(1 / gamma))
    zero = float(ndtr(high) - ndtr(-low))
    roots, weights = np.polynomial.legendre.leggauss(6)

    def panels(start: float, length: float) -> tuple[Vector, Vector]:
        edges = start + 0.1 * np.arange(math.ceil(10 * length))
        y = (edges[:, None] + 0.05 * (roots + 1)).ravel()
        return y, np.tile(0.05 * weights, len(edges)) * density(y)

    def e_1(r: Vector) -> Vector:
        negative_part, positive_part = np.minimum(r, 0.0), np.maximum(r, 0.0)
        up, down = place(gamma - negative_part), place((1 + positive_part) / gamma)
        reached, mean = (
            np.where(down > -shift, ndtr(-low - shift) - ndtr(-down - shift), ndtr(down + shift) - ndtr(low + shift))
            for shift in (0.0, -mu)
        )
        above = ndtr(mu - up) - (gamma - negative_part) * ndtr(-up) + positive_part * ndtr(-high)
        return np.asarray(above + positive_part * zero + (1 + positive_part) * reached - gamma * mean)

    (y, above), (y_below, below) = panels(high, 12 + mu), panels(low, 12 + mu + 2 * high)
    values = [np.exp(mu * y - mu * c) - gamma, np.zeros(1), 1 - gamma * np.exp(mu * y_below - mu * c)]
    return Law(np.concatenate(values), np.concatenate([above, [zero], below]), e_1)


def excess(law: Law, slots: int, kappa: float) -> float:
    """Return E[(S/T - kappa)_+]."""
    x, weights, e = law
    for _ in range(2, slots):
        grid_end = 4 * slots * (abs(kappa) + float(np.abs(x[weights > 1e-22]).max()))
        scale = 1e-3 * min(1.0, float(np.median(np.abs(x[weights > 1e-12]))))
        t = np.linspace(-math.asinh(grid_end / scale), math.asinh(grid_end / scale), KNOTS)
        e = splined(scale, t, np.array([e(r + x) @ weights for r in scale * np.sinh(t)]))
    return float(e(x - slots * kappa) @ weights) / slots


def splined(scale: float, t: Vector, values: Vector) -> Callable[[Vector], Vector]:
    t, values = t[values > 1e-200], values[values > 1e-200]
    logs, first_knot = CubicSpline(t, np.log(values)), float(t[0])

    def e(r: Vector) -> Vector:
        at = np.arcsinh(r / scale)
        return np.where(at < first_knot, 0.0, np.exp(logs(np.maximum(at, first_knot))))

    return e


def few_slots_delta(form: str, relation: str, slots: int, q: float, c: float, epsilon: float) -> float:
    """delta; under zero_out of the independent form only."""
    gamma = math.exp(epsilon)
    if relation == "zero_out":
        kappa = ((1 - q) - 1 / gamma) / q
        forward = q * excess(single(c, False), slots, 1 + (gamma - 1) / q)
        return max(forward, gamma * q * excess(single(c, True), slots, kappa)) if kappa < 0 else forward
    law = independent(c, gamma) if form == "independent" else ordered(c, gamma)
    return q * excess(law, slots, (1 - q) * (gamma - 1) / q)
