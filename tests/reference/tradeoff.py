"""Reference computation of a pair of laws within a bound on its loss, in Gaussian terms, by the definition."""

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from scipy.stats import norm

from tests.reference.normal import Vector


def conditioned(pmf: DensePLDPmf, largest_mass: float) -> tuple[float, float]:
    """Return (l, mu): the least grid bound l of |loss| that neither law exceeds with more mass, and mu given that."""
    p = np.maximum(np.asarray(pmf.to_dense_pmf()._probs), 0.0)
    steps = np.arange(len(p)) + pmf._lower_loss
    q = p * np.exp(-steps * pmf._discretization)
    low, high = 0, int(np.abs(steps).max())
    while high - low > 1:
        bound = (low + high) // 2
        is_kept = np.abs(steps) <= bound
        low, high = (low, bound) if max(1 - p[is_kept].sum(), 1 - q[is_kept].sum()) <= largest_mass else (bound, high)
    is_kept = np.abs(steps) <= high
    return high * pmf._discretization, shift(p[is_kept] / p[is_kept].sum(), q[is_kept] / q[is_kept].sum())


def shift(p: Vector, q: Vector) -> float:
    """mu of two laws on points in the order of their likelihood ratio: over sets of the smallest or the largest."""
    half = len(p) // 2
    up = norm.isf(np.cumsum(q[:half:-1])) - norm.isf(np.cumsum(p[:half:-1]))
    down = norm.ppf(np.cumsum(q[:half])) - norm.ppf(np.cumsum(p[:half]))
    return float(np.nanmax(np.concatenate([up, down])))
