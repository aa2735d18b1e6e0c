"""Renyi divergences of sampled Gaussian answers, by Gauss-Legendre quadrature of 200 nodes a panel."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from tests.reference.normal import Vector

TAIL_STANDARD_DEVIATIONS = 14.0  # the tilted law has mass 1e-44 beyond these
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def _panels(low: float, high: float, count: int) -> tuple[Vector, Vector]:
    """Nodes, and ln of (weight times the standard normal density)."""
    edges = np.linspace(low, high, count + 1)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half + half * NODES).ravel()
    return x, np.log((half * WEIGHTS).ravel()) - x * x / 2 - math.log(2 * math.pi) / 2


def poisson(q: float, c: float, orders: Sequence[float]) -> Vector:
    """D_a(P || Q), P = (1-q) N(0, 1) + q N(c, 1), Q = (1-q) N(0, 1) + q N(-c, 1), q < 1.

    With p, r the densities over the normal one, E[p^a r^(1-a)] - 1 = E[p^a r^(1-a) - 1 - a (p-1) - (1-a) (r-1)]: what
    is subtracted has mean zero, and what is left is small where the divergence is.
    """
    divergences = []
    for a in orders:
        x, log_density = _panels(-2 * a * c - TAIL_STANDARD_DEVIATIONS, 2 * a * c + TAIL_STANDARD_DEVIATIONS, 40)
        p, r = (np.logaddexp(math.log1p(-q), math.log(q) + sign * c * x - c * c / 2) for sign in (1, -1))
        t = a * p + (1 - a) * r
        if t.max() < 600:
            small = np.expm1(t) - a * np.expm1(p) - (1 - a) * np.expm1(r)
            divergences.append(math.log1p(float(small @ np.exp(log_density))) / (a - 1))
        else:
            divergences.append(float(logsumexp(t + log_density)) / (a - 1))
    return np.array(divergences)


def without_replacement(q: float, mu: float, orders: Sequence[float]) -> Vector:
    """ln(1 + E[(r^a + r^(1-a) - 1 - r) 1{r > 1}]) / (a - 1), x ~ N(0, 1), r = 1 - q + q e^(mu x - mu^2/2)."""
    divergences = []
    for a in orders:
        x, log_density = _panels(mu / 2, max(a, 1.0) * mu + TAIL_STANDARD_DEVIATIONS, 24)
        log_r = np.log1p(q * np.expm1(mu * x - mu * mu / 2))
        if a * log_r.max() < 600:
            gain = np.expm1(a * log_r) + np.expm1((1 - a) * log_r) - np.expm1(log_r)
            divergences.append(math.log1p(float(gain @ np.exp(log_density))) / (a - 1))
        else:
            terms = logsumexp(a * log_r + log_density)  # the other terms are less than e^-600 of these
            divergences.append(float(np.logaddexp(0.0, terms)) / (a - 1))
    return np.array(divergences)
