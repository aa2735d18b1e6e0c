"""The Gauss-Legendre rule by which Renyi divergences of sampled answers are integrated."""

import math
from functools import lru_cache

import numpy as np

from accounting.divergences.losses import Vector

_NODES = 64


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


@lru_cache(maxsize=1)
def _legendre() -> tuple[Vector, Vector]:
    """Return nodes and weights on [-1, 1], which take an eigenvalue problem."""
    return np.polynomial.legendre.leggauss(_NODES)
