"""The step of SVRG as published: a mean of changes over a batch plus the exact mean over all rows, with one noise.

Precondition: the answer is (sum over a batch of b of n records of h_i) / b + (sum over all of g_i) / n, with
||h_i|| / b <= B and ||g_i|| / n <= B b / (2 n); the batch is drawn without replacement, afresh for every answer, and
stays secret. (For changes of gradients of norm at most G: ||h_i|| <= 2 G, ||g_i|| <= G, B = 2 G / b.)
Pseudo-code: round both parts to the lattice; release their sum + gamma round(N / gamma), N ~ N(0, (z B)^2 I).
Postcondition: for every s in (0, 1), no worse than the composition of
    WithoutReplacement(b, n) at multiplier z sqrt(s)      and      Gaussian() at multiplier 2 z sqrt(1 - s) n / b.
Proof, and the choice of s: docs/proofs/svrg_step.md. Reference: docs/spec 2.2 (mechanism P).

Review: The price covers both the batch and the exact mean.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy.special import ndtr

from accounting.divergences.null_batches import null_spread, spread
from accounting.divergences.roots import brent
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractFixedAnswers, Curves, Event, Vector, composed
from accounting.mechanisms.without_replacement import WithoutReplacement
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

Part = tuple[WithoutReplacement | Gaussian, float]
_MU_RANGE = (1e-9, 26.0)
_LARGEST_MULTIPLIER = 1e12  # in an event tree; a larger one is charged as this
_LARGEST_SPLIT = 1 - 1e-4  # share of the noise variance for the batch, so that some is left for the mean


def _mean_variance(mu: float) -> float:
    """Return the mean's noise variance beside the batch's 4 / mu^2, if both have the same marginal cost."""
    return 2 / (mu * mu * math.exp(mu * mu / 2) * math.sqrt(2 * float(ndtr(1.5 * mu))))


@lru_cache(maxsize=4096)
def _shift(noise_multiplier: float) -> float:
    """Return the batch's mu at the best split: z^2 = 4 / mu^2 + mean_variance(mu), which falls in mu."""
    low, high = _MU_RANGE
    if 2 * math.log(noise_multiplier) <= math.log(4 / high**2 + _mean_variance(high)):
        return high
    if 2 * math.log(noise_multiplier) >= math.log(4 / low**2 + _mean_variance(low)):
        return low
    log_mu = brent(
        lambda log: math.log(4 * math.exp(-2 * log) + _mean_variance(math.exp(log))) - 2 * math.log(noise_multiplier),
        math.log(low),
        math.log(high),
        xtol=1e-13,
    )
    return math.exp(float(log_mu))


@dataclass(frozen=True, slots=True)
class SvrgStep(AbstractFixedAnswers):
    """One step as published.

    Parameters
    ----------
    batch : b, in [1, rows]
    rows : n, public
    """

    batch: int
    rows: int
    name: Literal["svrg_step"] = "svrg_step"
    answers: ClassVar[int] = 1
    source: ClassVar[None] = None

    def __post_init__(self) -> None:
        WithoutReplacement(self.batch, self.rows)  # checks both ranges

    def split(self, noise_multiplier: float) -> float:
        """Return s, the batch's share of the noise variance that costs least in the limit of many answers.

        It only affects the analysis: 2/3 for much noise or b = n, and nearly 1 for b = 1, where the batch costs more.
        """
        if self.batch == self.rows:
            return 2 / 3
        mu = _shift(noise_multiplier)
        ratio = _mean_variance(mu) * mu * mu / 4
        return min(1 / (1 + ratio), _LARGEST_SPLIT)

    def parts(self, noise_multiplier: float) -> tuple[Part, Part]:
        """Return the two mechanisms, with their multipliers, as whose composition one step is charged."""
        s = self.split(noise_multiplier)
        mean = min(2 * noise_multiplier * math.sqrt(1 - s) * self.rows / self.batch, _LARGEST_MULTIPLIER)
        return (WithoutReplacement(self.batch, self.rows), noise_multiplier * math.sqrt(s)), (Gaussian(), mean)

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a batch is drawn from no more records than there are."""
        return self.rows <= n

    def needs_all_rows(self, n: int) -> str | None:
        """Return the reason of a batch of this size."""
        return WithoutReplacement(self.batch, self.rows).needs_all_rows(n)

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the sum of the curves of the two parts; under replace_one 3/z-GDP for b = n."""
        batch, mean = (mechanism.curves(z, relation) for mechanism, z in self.parts(noise_multiplier))
        mu = None if batch.gdp_bound is None or mean.gdp_bound is None else math.hypot(batch.gdp_bound, mean.gdp_bound)
        return Curves(
            lambda orders: np.asarray(batch.rdp(orders) + mean.rdp(orders)),
            gdp=None if batch.gdp is None else mu,
            gdp_bound=mu,
            losses=batch.losses + mean.losses,
            mirrored=batch.mirrored and batch.mirrored + mean.losses,
        )

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one step spends about mu^2, the batch's and the mean's together, for many answers."""
        factor = sensitivity_factor(relation)
        if self.batch == self.rows:
            return 1.5 * factor / math.sqrt(mu_squared)
        q, (low, high) = self.batch / self.rows, _MU_RANGE

        def spent(log: float) -> float:
            mu = math.exp(log)
            batch = null_spread(mu / 2) if relation == "zero_out" else 2 * spread(mu)
            return math.log(q * q * (batch + (factor / 2) ** 2 / _mean_variance(mu)) / mu_squared)

        if spent(math.log(low)) >= 0:
            mu = low
        elif spent(math.log(high)) <= 0:
            mu = high
        else:
            mu = math.exp(brent(spent, math.log(low), math.log(high), xtol=1e-13))
        return math.sqrt(4 / mu**2 + _mean_variance(mu))

    def event(self, noise_multiplier: float) -> Event:
        """Return one step as an event: the composition of its two parts."""
        return composed([mechanism.event(z) for mechanism, z in self.parts(noise_multiplier)])

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Return the noise std that `perturb` uses, in the unit of the answer."""
        return self._lattice(noise_multiplier, bound, dimension).std

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return the private answer, shape (d,), of the batch's part and the mean over all rows, shape (2, d).

        Each part is rounded on its own, so that rounding adds at most gamma sqrt(d) to the sensitivity of each.
        """
        lattice = self._lattice(noise_multiplier, bound, value.shape[-1])
        batch, mean = (lattice.rounded(part) for part in value)
        return lattice.perturb(batch + mean, noise)

    def _lattice(self, noise_multiplier: float, bound: float, dimension: int) -> Lattice:
        """Return a lattice whose step is small beside the mean's per-record bound, b/2n of the batch's."""
        return Lattice.fit(noise_multiplier, bound, dimension, weight=2 * self.rows / self.batch)
