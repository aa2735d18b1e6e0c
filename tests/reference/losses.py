"""Privacy losses on a grid, rounded up: ln dP/dQ of three pairs, and of any symmetric profile.

A cell ]e, e + w] that holds U under P and L under Q becomes masses a at e and b at e + w with

    a + b = U  and  a e^-e + b e^-(e+w) = L,  so  b = (U - e^e L) / (1 - e^-w):

the profile of the masses joins that of the pair by chords, and is never below it.
"""

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from tests.reference.normal import Vector, between

TAIL = 9.0  # standard deviations kept: beyond them lies 1e-19


def _mixture(edges: Vector, weights: Sequence[float], means: Sequence[float]) -> Vector:
    """Masses of sum_k weight_k N(mean_k, 1) in each cell."""
    return np.asarray(sum(w * between(edges[:-1] - m, edges[1:] - m) for w, m in zip(weights, means, strict=True)))


def _joined(first: int, width: float, upper: Vector, lower: Vector, at_zero: float = 0.0) -> PrivacyLossDistribution:
    """The masses on first * width, (first + 1) * width, ...; what P lacks of 1 is an infinite loss."""
    e = (first + np.arange(len(upper))) * width
    b = np.clip((upper - np.exp(e) * lower) / -math.expm1(-width), 0.0, upper)
    masses = np.zeros(len(upper) + 1)
    masses[:-1] += upper - b
    masses[1:] += b
    if at_zero:
        masses[-first] += at_zero
    return PrivacyLossDistribution(DensePLDPmf(width, first, masses, max(0.0, 1 - float(masses.sum())), True))


def gaussian(mu: float, width: float) -> PrivacyLossDistribution:
    """N(mu, 1) against N(0, 1): the loss is mu x - mu^2 / 2."""
    last = math.ceil((mu * mu / 2 + TAIL * mu) / width)
    edges = np.arange(-last, last + 1, dtype=np.float64) * width / mu + mu / 2
    return _joined(-last, width, _mixture(edges, [1], [mu]), _mixture(edges, [1], [0]))


def poisson(q: float, c: float, width: float) -> PrivacyLossDistribution:
    """(1-q) N(0, 1) + q N(c, 1) against (1-q) N(0, 1) + q N(-c, 1), q < 1.

    With w = e^(cx), E = e^loss, k = e^(-c^2/2):  w^2 - A w - E = 0,  A = (1-q)(E-1) / (q k).
    """
    top = c + TAIL
    odds = [1 - q + q * math.exp(sign * c * top - c * c / 2) for sign in (1, -1)]
    last = math.ceil(math.log(odds[0] / odds[1]) / width)
    E = np.exp(np.arange(last + 1) * width)
    A = (1 - q) * (E - 1) / (q * math.exp(-c * c / 2))
    half = np.log((A + np.sqrt(A * A + 4 * E)) / 2) / c
    edges = np.concatenate([-half[:0:-1], [0.0], half[1:]])
    upper, lower = (_mixture(edges, [1 - q, q], [0.0, shift]) for shift in (c, -c))
    return _joined(-last, width, upper, lower)


def without_replacement(q: float, mu: float, width: float) -> PrivacyLossDistribution:
    """The symmetric pair of q H_(1+(g-1)/q)(G_mu): where P is the larger, (1-q) N(0, 1) + q N(mu, 1) against N(0, 1).

    There x > mu/2 and loss = ln(1 - q + q e^(mu x - mu^2/2)); the other half mirrors it; the rest has loss 0.
    """
    last = math.ceil(math.log1p(q * math.expm1(mu * (mu + TAIL) - mu * mu / 2)) / width)
    edges = (np.log1p(np.expm1(np.arange(last + 1) * width) / q) + mu * mu / 2) / mu
    upper, lower = _mixture(edges, [1 - q, q], [0.0, mu]), _mixture(edges, [1], [0.0])
    zero = (1 - q) * float(between(np.array([-mu / 2]), np.array([mu / 2]))[0])
    return _joined(-last, width, np.r_[lower[::-1], upper], np.r_[upper[::-1], lower], zero)


def of_profile(epsilons: Vector, deltas: Vector, width: float) -> PrivacyLossDistribution:
    """A symmetric pair whose profile is the greatest convex function of e^epsilon below the given upper bounds.

    The true profile is convex and below them, so it is below this one; H_(1/g) = 1 - 1/g + H_g / g is the other half.
    """
    k = np.unique(np.floor(epsilons / width + 0.5).astype(int))
    # The last given epsilon at or before each step: bounds decrease.
    indices = np.searchsorted(epsilons, k * width + 1e-12, side="right") - 1
    g, h = np.exp(k * width), np.minimum.accumulate(np.clip(deltas[indices], 0.0, 1.0))
    hull = [0]
    for i in range(1, len(g)):
        while len(hull) > 1 and (h[hull[-1]] - h[hull[-2]]) / (g[hull[-1]] - g[hull[-2]]) >= (h[i] - h[hull[-2]]) / (
            g[i] - g[hull[-2]]
        ):
            hull.pop()
        hull.append(i)
    steps = np.arange(k[-1] + 1)
    G = np.exp(steps * width)
    H = np.interp(G, g[hull], h[hull])
    slope = np.diff(H) / np.diff(G)  # H' = -Q(loss > e)
    q = np.r_[-slope, 0.0]
    masses = np.zeros(2 * len(steps) - 1)
    under_q = -np.diff(q)  # at steps 1, 2, ...
    masses[len(steps) :] = under_q * G[1:]
    masses[: len(steps) - 1] = under_q[::-1]
    infinity = float(H[-1])
    masses[len(steps) - 1] = max(0.0, 1 - infinity - float(masses.sum()))
    return PrivacyLossDistribution(DensePLDPmf(width, -int(steps[-1]), masses, infinity, True))


def conditioned_rdp(pmf: DensePLDPmf, slack: float, orders: Vector) -> Vector:
    """D_a(P' || Q) = (ln sum p e^((a-1) l) - a ln sum p) / (a-1), where P' is P given loss <= l.

    l is the least that P passes with probability slack at most.
    """
    masses = np.asarray(pmf.to_dense_pmf()._probs)
    losses = (np.arange(len(masses)) + pmf._lower_loss) * pmf._discretization
    above = pmf._infinity_mass + np.cumsum(masses[::-1])[::-1] - masses
    is_kept = losses <= losses[above <= slack][0]
    total = float(masses[is_kept].sum())
    sums = [float(masses[is_kept] @ np.exp((a - 1) * losses[is_kept])) for a in orders]
    return np.array([math.log(found / total**a) / (a - 1) for found, a in zip(sums, orders, strict=True)])
