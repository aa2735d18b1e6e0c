"""Gaussian privacy, mu of N(0, 1) against N(mu, 1), of a pair of laws whose extreme losses are cut off.

P gives p_i to the loss e_i and Q gives p_i e^-e_i. The rest of P has loss +inf, and the rest of Q has -inf. With
E = {|loss| <= l}, both P(E) and Q(E) at least 1 - d, the pair P' = P given E, Q' = Q given E is mu-GDP for

    mu = the largest over grid points e of  Phi^-1(P'(loss > e)) - Phi^-1(Q'(loss > e)),

at the corners of its trade-off curve, which is convex as the Gaussian's is. Proof: docs/proofs/filter.md.
"""

import math

import numpy as np
from scipy.special import ndtri

from accounting.divergences.losses import Masses, Vector

_ROUNDING = 1e-9  # of a sum of at most 2^22 masses, relatively


def conditioned_mu(law: Masses, limit: float, error: float) -> float | None:
    """Return mu of the pair given the shortest E whose d is at most the limit, rounded up; None if there is none.

    Parameters
    ----------
    law : masses on a grid, whose sums have an error of at most `error` > 0
    limit : of d, in (0, 1)
    """
    if limit <= 2 * error:
        return None
    p, q = _centred(law, math.floor(math.log(limit / error) / law.interval))
    middle = len(p) // 2
    beyond = np.maximum(_beyond(p) + error, _beyond(q) + error * np.exp(law.interval * np.arange(middle + 1)))
    short = np.flatnonzero(beyond * (1 + _ROUNDING) <= limit)
    if len(short) == 0:
        return None
    end = int(short[0])
    if end == 0:
        return 0.0
    p, q = p[middle - end : middle + end + 1], q[middle - end : middle + end + 1]
    smallest_ratio = math.exp(-law.interval * end)
    high = corners(np.cumsum(p[:end:-1]), np.cumsum(q[:end:-1]), error, error, limit, smallest_ratio)
    low = corners(np.cumsum(q[:end]), np.cumsum(p[:end]), error / smallest_ratio, error, limit, smallest_ratio)
    mu = max(high, low) * (1 + _ROUNDING)
    return mu if math.isfinite(mu) else None


def _centred(law: Masses, reach: int) -> tuple[Vector, Vector]:
    """Return the masses of P and Q at the losses -reach..reach in grid steps, or up to the last loss."""
    last = law.lowest + len(law.masses) - 1
    reach = min(reach, max(abs(law.lowest), abs(last)))
    p = np.zeros(2 * reach + 1)
    first = max(law.lowest, -reach)
    end = min(last, reach)
    if first <= end:
        p[first + reach : end + reach + 1] = np.maximum(law.masses[first - law.lowest : end - law.lowest + 1], 0.0)
    return p, p * np.exp(np.arange(reach, -reach - 1, -1) * law.interval)


def _beyond(masses: Vector) -> Vector:
    """Return 1 - the mass of -k..k, for each k: the tails and the mass missing from 1, without cancellation."""
    middle = len(masses) // 2
    outward = masses[middle + 1 :] + masses[:middle][::-1]
    tails = np.append(np.cumsum(outward[::-1])[::-1], 0.0)
    return np.asarray(tails + max(0.0, 1 - float(masses.sum())))


def corners(u: Vector, v: Vector, error_u: float, error_v: float, limit: float, smallest_ratio: float) -> float:
    """Return the largest Phi^-1(u) - Phi^-1(v) of a set's larger and smaller probability, given E.

    u is raised by its error and v is lowered by its error, but not below u e^-l. The difference grows with u in both
    cases, so a probability that is not resolved counts as its error.
    """
    raised = (u + error_u) * ((1 + _ROUNDING) / (1 - limit))
    if not float(raised.max()) < 1:
        return math.inf
    lowered = np.maximum((v - error_v) * (1 - _ROUNDING), raised * (smallest_ratio * (1 - limit) * (1 - _ROUNDING)))
    return float(np.max(ndtri(raised) - ndtri(lowered)))
