"""Privacy-loss distributions of one answer, as pessimistic masses on a grid.

The masses of the loss in each grid cell are exact differences of Gaussian tails; "connect the dots" moves them to the
grid's points so that the privacy profile only grows. Both directions of each pair are one: x -> -x swaps them.
Reference: Doroshenko et al. 2022 (connect the dots); docs/spec T3, 12.5.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, ndtr, ndtri

from accounting.accountants import guard
from accounting.divergences.allocation import knots, typical_deviation
from accounting.mechanisms import PoissonGaussian, RandomAllocation, SvrgStep, WithoutReplacement
from accounting.mechanisms.without_replacement import spread
from accounting.plan import Plan, PlannedQuery

_TAIL = 1e-18  # mass left beyond the grid, all of it counted as infinite loss
_X = float(-ndtri(_TAIL))
LARGEST_SHIFT = 20.0  # 1/z; with less noise than that no plan of interest is private, and exponentials overflow


class Loss(Protocol):
    """The privacy loss of one answer under a dominating pair that serves both directions."""

    @property
    def shift(self) -> float:
        """The pair's largest shift, in noise stds."""
        ...

    @property
    def deviation(self) -> float:
        """The loss's typical standard deviation."""
        ...

    @property
    def widest(self) -> float:
        """The largest finite loss on the grid."""
        ...

    def moments(self, count: int) -> tuple[float, float]:
        """Upper bounds on, or close to, the mean and variance of the sum of `count` losses."""
        ...

    def pmf(self, interval: float) -> Any:
        """The pessimistic masses."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """N(mu, 1) against N(0, 1): the loss is N(mu^2/2, mu^2)."""

    mu: float

    @property
    def shift(self) -> float:
        return self.mu

    @property
    def deviation(self) -> float:
        return self.mu

    @property
    def widest(self) -> float:
        return 2 * self.mu * _X + self.mu**2

    def moments(self, count: int) -> tuple[float, float]:
        return count * self.mu**2 / 2, count * self.mu**2

    def pmf(self, interval: float) -> Any:
        return _gaussian_pmf(self.mu, interval)


@dataclass(frozen=True, slots=True)
class PoissonLoss:
    """(1-q) N(0,1) + q N(c,1) against its mirror image, q < 1."""

    q: float
    c: float

    @property
    def shift(self) -> float:
        return self.c

    @property
    def spread(self) -> float:
        """The integral of (P - Q)^2 / N(0,1) = 4 q^2 sinh(c^2): the loss's variance in the many-answer limit."""
        return 4 * self.q**2 * math.sinh(self.c**2)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.spread)

    @property
    def widest(self) -> float:
        return 2 * _poisson_top(self.q, self.c)

    def moments(self, count: int) -> tuple[float, float]:
        """The mean of one loss is at most 2 q c^2 (joint convexity) and at most its chi-square (Q >= (1-q) N(0,1))."""
        chi = self.spread / (1 - self.q)
        return count * min(chi, 2 * self.q * self.c**2), count * min(chi, 4 * self.q * self.c**2 * (1 + self.c**2))

    def pmf(self, interval: float) -> Any:
        return _poisson_pmf(self.q, self.c, interval)


@dataclass(frozen=True, slots=True)
class WithoutReplacementLoss:
    """The symmetric pair over ln r, r = 1 - q + q e^(mu x - mu^2/2) at x > mu/2, x ~ N(0,1); q < 1."""

    q: float
    mu: float

    @property
    def shift(self) -> float:
        return self.mu

    @property
    def spread(self) -> float:
        """Twice q^2 E[(r_0 - 1)^2], r_0 = r at q = 1, over x > mu/2: bounds the loss's second moment."""
        return 2 * self.q**2 * spread(self.mu)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.spread)

    @property
    def widest(self) -> float:
        return 2 * _farthest(self.q, self.mu)

    def moments(self, count: int) -> tuple[float, float]:
        """The mean is at most the chi-square, which the spread bounds, and at most q mu^2 / 2 (batches known)."""
        q, mu = self.q, self.mu
        return count * min(self.spread, q * mu * mu / 2), count * min(self.spread, q * mu * (1 + mu) ** 3)

    def pmf(self, interval: float) -> Any:
        return _without_replacement_pmf(self.q, self.mu, interval)


@dataclass(frozen=True, slots=True)
class AllocationLoss:
    """One use of a random allocation: the pair whose profile is the polygon over that of the mechanism.

    Parameters
    ----------
    mechanism, noise_multiplier : the use
    coarse : with fewer knots, for the search of noise; still an upper bound
    """

    mechanism: RandomAllocation
    noise_multiplier: float
    coarse: bool

    @property
    def shift(self) -> float:
        return 1 / self.noise_multiplier

    @property
    def deviation(self) -> float:
        return typical_deviation(self.mechanism, self.noise_multiplier)

    @property
    def widest(self) -> float:
        return 2 * float(knots(self.mechanism, self.noise_multiplier, self.coarse)[0][-1])

    def moments(self, count: int) -> tuple[float, float]:
        """As in the limit of many slots; its rare jumps lie within `widest`."""
        variance = self.deviation**2
        return count * variance / 2, count * variance

    def pmf(self, interval: float) -> Any:
        return _allocation_pmf(self, interval)


def losses(plan: Plan, *, coarse: bool = False) -> list[tuple[Loss, int]] | None:
    """The losses whose sum is the plan's, with their counts; None if some query has none.

    All Gaussian-DP queries are one Gaussian. `coarse` asks for less work where that is possible.
    """
    found: list[tuple[Loss, int]] = []
    squared = 0.0
    for query in _parts(plan).queries:
        mechanism, z = query.mechanism, query.noise_multiplier
        mu = mechanism.gdp(z)
        if mu is not None:
            squared += query.count * mu * mu
        elif isinstance(mechanism, PoissonGaussian):
            found.append((PoissonLoss(mechanism.rate, 1 / z), query.count))
        elif isinstance(mechanism, WithoutReplacement):
            found.append((WithoutReplacementLoss(mechanism.rate, 2 / z), query.count))
        elif isinstance(mechanism, RandomAllocation) and 1 / z <= LARGEST_SHIFT:
            found.append((AllocationLoss(mechanism, z, coarse), query.count))
        else:
            return None
    if squared > 0:
        found.append((GaussianLoss(math.sqrt(squared)), 1))
    return found


def answers(plan: Plan) -> int:
    """How many losses the plan adds up, a mechanism of two parts counted twice: as its event tree has it."""
    return sum(query.count for query in _parts(plan).queries)


def _parts(plan: Plan) -> Plan:
    """The plan in which a step of two parts is two queries."""
    queries: list[PlannedQuery] = []
    for query in plan.queries:
        if isinstance(query.mechanism, SvrgStep):
            for mechanism, z in query.mechanism.parts(query.noise_multiplier):
                queries.append(PlannedQuery(f"{query.name} {mechanism.name}", query.count, mechanism, z))
        else:
            queries.append(query)
    return Plan(tuple(queries))


def connect_the_dots(
    interval: float,
    lowest: int,
    upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    extra: float,
    infinity: float,
    zero: float = 0.0,
) -> Any:
    """Cell i, losses (e_i, e_i + interval], has mass upper[i] under P and lower[i] under Q; put it on its two ends so
    that P's mass stays and Q's is matched: the upper end's share b solves (upper - b) e^-e_i + b e^-e_(i+1) = lower.
    `extra` sits at the lowest point, `zero` at 0, `infinity` at +inf.
    """
    points = (lowest + np.arange(len(upper))) * interval
    to_high = np.clip((upper - np.exp(points) * lower) / -math.expm1(-interval), 0.0, upper)
    masses = np.zeros(len(upper) + 1)
    masses[:-1] += upper - to_high
    masses[1:] += to_high
    masses[0] += extra
    if zero:
        masses[-lowest] += zero
    return guard.pessimistic_pmf(interval, lowest, masses, infinity)


def _mass(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi(high) - Phi(low), low <= high, to relative accuracy on both sides of 0."""
    positive = low > 0
    a, b = np.where(positive, -high, low), np.where(positive, -low, high)
    return np.asarray(ndtr(b) - ndtr(a))


@lru_cache(maxsize=16)
def _gaussian_pmf(mu: float, interval: float) -> Any:
    """Loss mu x + mu^2/2 at x ~ N(0,1), i.e. N(mu^2/2, mu^2)."""
    lowest = math.floor((mu * mu / 2 - _X * mu) / interval)
    highest = math.ceil((mu * mu / 2 + _X * mu) / interval)
    x = np.divide(np.arange(lowest, highest + 1) * interval - mu * mu / 2, mu)
    upper, lower = _mass(x[:-1], x[1:]), _mass(np.add(x[:-1], mu), np.add(x[1:], mu))
    return connect_the_dots(interval, lowest, upper, lower, float(ndtr(x[0])), float(ndtr(-x[-1])))


def _reach(q: float, shift: float) -> float:
    """x beyond which (1-q) N(0,1) + q N(shift,1) has the mass that the grid may leave out, twice at most."""
    return max(_X, shift - float(ndtri(min(_TAIL / q, 0.5))))


def _poisson_top(q: float, c: float) -> float:
    """The largest loss on the grid, that at the reach."""
    x = _reach(q, c)
    return math.log1p(q * math.expm1(min(c * x - c * c / 2, 600.0))) - math.log1p(q * math.expm1(-c * x - c * c / 2))


@lru_cache(maxsize=16)
def _poisson_pmf(q: float, c: float, interval: float) -> Any:
    """Loss ln p/q at x ~ P = (1-q) N(0,1) + q N(c,1), Q its mirror image; the loss is odd and increasing in x."""
    top = _poisson_top(q, c)
    # x at which the loss is e: w = e^(c x) solves w - e^e / w = (1-q)(e^e - 1) / (q e^(-c^2/2)) = 2 e^(e/2) sinh(..)
    e = np.arange(0, math.ceil(top / interval) + 1) * interval
    x = (e / 2 + np.arcsinh((1 - q) / q * math.exp(c * c / 2) * np.sinh(e / 2))) / c
    base, near, far = _mass(x[:-1], x[1:]), _mass(x[:-1] - c, x[1:] - c), _mass(x[:-1] + c, x[1:] + c)
    upper, lower = (1 - q) * base + q * near, (1 - q) * base + q * far
    beyond_p = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(c - x[-1]))
    beyond_q = (1 - q) * float(ndtr(-x[-1])) + q * float(ndtr(-c - x[-1]))
    return connect_the_dots(
        interval,
        -len(upper),
        np.concatenate([lower[::-1], upper]),
        np.concatenate([upper[::-1], lower]),
        beyond_q,
        beyond_p,
    )


def _farthest(q: float, mu: float) -> float:
    """The largest loss on the grid, that at the reach."""
    return math.log1p(q * math.expm1(mu * (_reach(q, mu) - mu / 2)))


@lru_cache(maxsize=16)
def _without_replacement_pmf(q: float, mu: float, interval: float) -> Any:
    """Loss ln r at x > mu/2: mass (1-q) N(0,1) + q N(mu,1) under P and N(0,1) under Q; -ln r the other way round."""
    e = np.arange(0, math.ceil(_farthest(q, mu) / interval) + 1) * interval
    x = np.log1p(np.expm1(e) / q) / mu + mu / 2
    lower, near = _mass(x[:-1], x[1:]), _mass(x[:-1] - mu, x[1:] - mu)
    upper = (1 - q) * lower + q * near
    beyond_q = float(ndtr(-x[-1]))
    beyond_p = (1 - q) * beyond_q + q * float(ndtr(mu - x[-1]))
    return connect_the_dots(
        interval,
        -len(upper),
        np.concatenate([lower[::-1], upper]),
        np.concatenate([upper[::-1], lower]),
        beyond_q,
        beyond_p,
        zero=(1 - q) * float(erf(mu / math.sqrt(8))),
    )


@lru_cache(maxsize=16)
def _allocation_pmf(loss: AllocationLoss, interval: float) -> Any:
    """The knots' masses in the grid's cells; a loss of -e has the masses of +e with P and Q exchanged."""
    epsilons, masses, infinity = knots(loss.mechanism, loss.noise_multiplier, loss.coarse)
    cells = np.concatenate([np.floor(epsilons / interval), np.floor(-epsilons / interval)]).astype(int)
    lowest = int(cells.min())
    upper, lower = np.zeros(int(cells.max()) - lowest + 1), np.zeros(int(cells.max()) - lowest + 1)
    at_zero = masses[0] * (epsilons == 0.0)
    np.add.at(upper, cells - lowest, np.concatenate([masses[0], masses[1]]))
    np.add.at(lower, cells - lowest, np.concatenate([masses[1] + at_zero, masses[0] - at_zero]))
    return connect_the_dots(interval, lowest, upper, lower, 0.0, infinity)
