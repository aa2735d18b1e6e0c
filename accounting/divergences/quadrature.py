"""The Gauss-Legendre rule by which Renyi divergences of sampled answers are integrated."""

import math
from functools import lru_cache

import numpy as np

from accounting.divergences.losses import Vector

_NODES = 64
_ROUNDING = 1 + 1e-6  # covers the error of the rule (docs/spec 14)


def panels(low: float, high: float, count: int) -> tuple[Vector, Vector]:
    """Return the rule on equal panels of an interval: points, shape (count, 64), and logarithms of weights, (64,)."""
    nodes, weights = _legendre()
    edges = np.linspace(low, high, count + 1)
    half = (edges[1] - edges[0]) / 2
    return ((edges[:-1] + edges[1:]) / 2)[:, None] + half * nodes, np.log(half * weights)


def log_sum(terms: Vector) -> float:
    """Return ln of the sum of e^term, without overflow."""
    peak = float(terms.max())
    return peak + math.log(float(np.exp(terms - peak).sum()))


def rounded_up(integral: float, limit: float) -> float:
    """Return a divergence by the rule, rounded up by a factor 1 + 1e-6, or a limit that it cannot exceed."""
    raised = integral * _ROUNDING
    return raised if raised <= limit else limit  # also if it is NaN


@lru_cache(maxsize=1)
def _legendre() -> tuple[Vector, Vector]:
    """Return nodes and weights on [-1, 1], which take an eigenvalue problem."""
    return np.polynomial.legendre.leggauss(_NODES)
