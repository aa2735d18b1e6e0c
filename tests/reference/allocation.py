"""Random allocation of one record to one of T slots: delta = q E[(S/T - kappa)_+], kappa = (1-q)(gamma-1)/q.

S adds T independent terms X, with gamma = e^epsilon and a, b independent copies of e^(mu Y - mu^2/2), Y ~ N(0, 1):

    ordered      X = a - gamma where a > gamma;  1 - gamma b where b > 1/gamma;  else 0       (mu = 2c)
    independent  X = e^(cY - c^2/2) - gamma e^(-cY - c^2/2)

The law of X goes to a grid so that delta only grows: a cell goes to its two ends around its mean, the far left is
raised to the lowest point, and what is above the highest point H costs its own mean excess, as the T terms share S/T:

    E[(S/T - kappa)_+] <= E[(S'/T - kappa)_+] + E[(X - H)_+],  with min(X, H) in S'.

S' is convolved under the tilted law e^(theta x) / M(theta), so that what is small is not lost beside what is large.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.signal import fftconvolve
from scipy.special import logsumexp, ndtr

from tests.reference.normal import Vector, between

SPREAD = 0.003  # a cell's square over the variance of X: going to its ends adds at most a quarter of this
RAISED = 1e-3  # how far that raises the mean of S/T, over its distance to kappa
JUMPS = 6  # H, over the single term that alone would bring the sum to kappa
LINE_STANDARD_DEVIATIONS = 14.0  # extent of the line on either side of mean and threshold


@dataclass(frozen=True, slots=True)
class Independent:
    """X = k (w - gamma / w) with w = e^(cY), k = e^(-c^2/2): it rises with Y."""

    c: float
    gamma: float

    @property
    def variance(self) -> float:
        """At most this."""
        return 2 * self.gamma * (math.exp(self.c**2) - math.exp(-(self.c**2)))

    def cells(self, edges: Vector) -> tuple[Vector, Vector]:
        """P(X in cell) and E[X; X in cell]."""
        k = math.exp(-(self.c**2) / 2)
        root = np.sqrt(edges * edges + 4 * self.gamma * k * k)
        w = np.where(edges > 0, edges + root, 4 * self.gamma * k * k / (root - np.minimum(edges, 0.0))) / (2 * k)
        y = np.log(w) / self.c
        a, b = y[:-1], y[1:]
        return between(a, b), between(a - self.c, b - self.c) - self.gamma * between(a + self.c, b + self.c)

    def below(self, x: float) -> tuple[float, float]:
        """P(X < x) and E[x - X; X < x], for x < 0."""
        k = math.exp(-(self.c**2) / 2)
        y = math.log(2 * self.gamma * k / (math.sqrt(x * x + 4 * self.gamma * k * k) - x)) / self.c
        mass = float(ndtr(y))
        return mass, x * mass - float(ndtr(y - self.c)) + self.gamma * float(ndtr(y + self.c))

    def above(self, x: float) -> tuple[float, float]:
        """P(X > x) and E[X - x; X > x], for x > 0."""
        k = math.exp(-(self.c**2) / 2)
        y = math.log((x + math.sqrt(x * x + 4 * self.gamma * k * k)) / (2 * k)) / self.c
        mass = float(ndtr(-y))
        return mass, float(ndtr(self.c - y)) - self.gamma * float(ndtr(-self.c - y)) - x * mass


@dataclass(frozen=True, slots=True)
class Ordered:
    """X > 0 is a - gamma, X < 0 is 1 - gamma b; zero has the rest."""

    c: float
    gamma: float

    @property
    def variance(self) -> float:
        """At most this."""
        return math.expm1(4 * self.c**2)

    def cells(self, edges: Vector) -> tuple[Vector, Vector]:
        """P(X in cell) and E[X; X in cell]; zero, an edge, belongs to the cell above it."""
        mu, gamma = 2 * self.c, self.gamma
        zero = int(np.searchsorted(edges, 0.0))
        y = (np.log(gamma + edges[zero:]) + mu * mu / 2) / mu
        over = between(y[:-1], y[1:])
        over_mean = between(y[:-1] - mu, y[1:] - mu) - gamma * over
        y = (np.log((1 - edges[: zero + 1]) / gamma) + mu * mu / 2) / mu
        under = between(y[1:], y[:-1])
        under_mean = under - gamma * between(y[1:] - mu, y[:-1] - mu)
        middle = math.log(gamma) / mu
        over[0] += between(np.array([middle - mu / 2]), np.array([middle + mu / 2]))[0]
        return np.r_[under, over], np.r_[under_mean, over_mean]

    def below(self, x: float) -> tuple[float, float]:
        """P(X < x) and E[x - X; X < x], for x < 0."""
        mu = 2 * self.c
        y = (math.log((1 - x) / self.gamma) + mu * mu / 2) / mu
        mass = float(ndtr(-y))
        return mass, self.gamma * float(ndtr(mu - y)) - (1 - x) * mass

    def above(self, x: float) -> tuple[float, float]:
        """P(X > x) and E[X - x; X > x], for x > 0."""
        mu = 2 * self.c
        y = (math.log(self.gamma + x) + mu * mu / 2) / mu
        mass = float(ndtr(-y))
        return mass, float(ndtr(mu - y)) - (self.gamma + x) * mass


def _window(law: Vector, start: int, low: int, high: int) -> tuple[Vector, int]:
    """Return the part of the law inside the window. Nothing outside it matters."""
    cut = max(low - start, 0)
    return law[cut : max(high - start, 0) + 1], start + cut


def _sum(term: Vector, first: int, count: int, low: int, high: int) -> tuple[Vector, int]:
    """Return the law of the sum of `count` terms and its first position, by doubling."""
    total, start = np.ones(1), 0
    for bit in bin(count)[2:]:
        total, start = _window(np.maximum(fftconvolve(total, total), 0.0), 2 * start, low, high)
        if bit == "1":
            total, start = _window(np.maximum(fftconvolve(total, term), 0.0), start + first, low, high)
    return total, start


def of_two(x: Vector, weight: Vector, floor: float) -> float:
    """E[((X + X')/2 - floor)_+] of two independent terms of this law, x rising: what is beyond each, in sums."""
    beyond = np.searchsorted(x, 2 * floor - x)
    mass, first = (np.append(np.cumsum(part[::-1])[::-1], 0.0)[beyond] for part in (weight, weight * x))
    return float(weight @ (mass * (x / 2 - floor) + first / 2))


def allocation_delta(form: str, slots: int, q: float, c: float, epsilon: float) -> float:
    """delta(epsilon > 0), a little above it and to 1e-19 at best.

    Parameters
    ----------
    form : "independent" or "ordered"
    slots, q : T, and the chance that the record takes part at all
    c : the largest displacement over the noise
    """
    gamma = math.exp(epsilon)
    X = Independent(c, gamma) if form == "independent" else Ordered(c, gamma)
    kappa, gap = (1 - q) * (gamma - 1) / q, (gamma - 1) / q
    h, sd = math.sqrt(SPREAD * X.variance), math.sqrt(X.variance * slots)
    depth = 8
    while X.below(-depth * h)[1] > RAISED * gap:
        depth *= 2
    top = math.ceil((JUMPS * gap * slots + LINE_STANDARD_DEVIATIONS * sd) / h)
    edges = np.arange(-depth, top + 1, dtype=np.float64) * h
    mass, mean = X.cells(edges)
    up = np.clip((mean - edges[:-1] * mass) / h, 0.0, mass)
    law = np.r_[mass - up, 0.0] + np.r_[0.0, up]
    law[0] += X.below(-depth * h)[0]
    over, excess = X.above(top * h)
    law[-1] += over

    def log_mgf(theta: float) -> float:
        return float(logsumexp(theta * edges, b=law))

    highest = (0.0, 60.0 / float(edges[-1]))
    theta = float(minimize_scalar(lambda t: log_mgf(t) - t * kappa, bounds=highest, method="bounded").x)
    log_m = log_mgf(theta)
    tilted = law * np.exp(theta * edges - log_m)
    total, start = _sum(
        tilted, -depth, slots, -depth - math.ceil(((gamma - 1) * slots + LINE_STANDARD_DEVIATIONS * sd) / h), 2 * top
    )
    s = (start + np.arange(len(total))) * h
    return q * (excess + float((total * np.exp(slots * log_m - theta * s)) @ np.maximum(s / slots - kappa, 0.0)))
