"""A random prefix of T - 1 Gaussian answers: m of them, with m uniform on {0..T-1} and independent of the data.

Precondition: as for `gaussian`, for each answer. `draws.uniform_below` draws m before the first answer. The answers
beyond m are never computed. m may be public.
Pseudo-code: m <- uniform {0..T-1}; answer m times.
Postcondition: with mu_1 = 2/z, under zero_out 1/z, for every epsilon
delta(epsilon) <= (1/T) sum_(m<T) delta_Gauss(epsilon; mu_1 sqrt(m)); for every order a
exp((a-1) rho(a)) <= (1/T) sum_(m<T) exp((a-1) a m mu_1^2 / 2). Proof: docs/proofs/random_iterate.md.

Review: The number of answers is drawn before the first answer, without the data.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from scipy.special import log_ndtr

from accounting.divergences.gaussian import LARGEST_MU, SMALLEST_DELTA, SMALLEST_MU
from accounting.divergences.roots import brent
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractGaussianNoise, Curves, Event
from accounting.noise import Noise
from accounting.noise.draws import uniform_below
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

MOST_STEPS = 100_000
_ROUNDING = 1 + 1e-9  # of the curve, more than the error of its logarithms where they are used
_SMALL_EXPONENT = 1e-3  # below it Hoeffding's bound replaces logarithms of numbers near 1
_MOST_GROUPS = 4096  # more lengths are grouped, and each group costs as much as its longest
_ROOT_TOLERANCE, _EPSILON_MARGIN, _DELTA_MARGIN = 1e-12, 1 + 1e-9, 1 - 1e-6


@dataclass(frozen=True, slots=True)
class RandomIterate(AbstractGaussianNoise):
    """One use is m answers, m uniform on {0..T-1}.

    Parameters
    ----------
    steps : T, in [2, 100000]

    Reference: Wang, Ye and Xu 2017, Algorithm 4 (which prints m ~ U{0..m-1}); docs/spec T9.
    """

    steps: int
    name: Literal["random_iterate"] = "random_iterate"
    source: ClassVar[None] = None

    def __post_init__(self) -> None:
        whole(self.steps, "steps", 2, MOST_STEPS)

    @property
    def answers(self) -> int:
        """The largest number of answers of one use: T - 1."""
        return self.steps - 1

    def horizon(self, noise: Noise) -> int:
        """Draw and return m, the number of answers of one run."""
        return uniform_below(noise, self.steps)

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return true, because all records are read."""
        return True

    def needs_all_rows(self, n: int) -> None:
        """Return None, because no records are drawn."""

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the Renyi curve and the profile of the mixture; the Gaussian bound is that of all T - 1 answers."""
        mu = sensitivity_factor(relation) / noise_multiplier  # of one answer
        return Curves(
            lambda orders: np.array([self._rho(float(a), mu**2 / 2) for a in orders]),
            gdp_bound=mu * math.sqrt(self.steps - 1),
            epsilon=partial(_epsilon, mu, self.steps),
            epsilon_with_gaussian=partial(_epsilon, mu, self.steps),
        )

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which T - 1 answers spend mu^2; one use spends slightly less."""
        return sensitivity_factor(relation) / math.sqrt(mu_squared) * math.sqrt(self.steps - 1)

    def event(self, noise_multiplier: float) -> Event:
        """Return adaptive uses of a Gaussian event, 0 to T - 1 of them, uniformly and independently of the data."""
        return {"type": "RandomIterateDpEvent", "steps": self.steps, "event": Gaussian().event(noise_multiplier)}

    def _rho(self, order: float, unit: float) -> float:
        """Return ln((1/T) sum_m e^(q m)) / (a-1), q = (a-1) a mu_1^2 / 2, rounded up; at most the rho of T - 1 answers.

        `unit` is mu_1^2 / 2.
        """
        last, q = self.steps - 1, (order - 1) * order * unit
        if q * last <= _SMALL_EXPONENT:
            log_mean = q * last / 2 + (q * last) ** 2 / 8  # Hoeffding's lemma
        else:
            log_mean = math.log(-math.expm1(-q * self.steps) / -math.expm1(-q) / self.steps) + q * last
        return min(order * last * unit, log_mean / (order - 1) * _ROUNDING)


def _epsilon(mu_one: float, steps: int, delta: float, mu_squared: float = 0.0) -> float:
    """Return epsilon with (1/T) sum_(m<T) delta_Gauss(epsilon; sqrt(mu_0^2 + m mu_1^2)) = delta, rounded up.

    It is infinite out of range. `mu_squared` is mu_0^2, of other Gaussian answers. Given m, all answers are Gaussian.
    """
    if delta < SMALLEST_DELTA or math.sqrt(mu_squared) + mu_one * math.sqrt(steps) > LARGEST_MU:
        return math.inf
    ends = np.unique(np.linspace(0, steps - 1, min(steps, _MOST_GROUPS)).astype(np.int64))
    shares = np.diff(ends, prepend=-1) / steps
    if mu_squared == 0:  # m = 0 costs nothing
        ends, shares = ends[1:], shares[1:]
    mu = np.maximum(
        np.sqrt(mu_squared + (mu_one * np.sqrt(ends)) ** 2) if mu_squared else mu_one * np.sqrt(ends), SMALLEST_MU
    )

    def beyond(epsilon: float) -> float:
        log_a = log_ndtr(mu / 2 - epsilon / mu)
        log_b = log_ndtr(-mu / 2 - epsilon / mu) + epsilon
        return float(shares @ (np.exp(log_a) * -np.expm1(np.minimum(log_b - log_a, 0.0)))) - delta * _DELTA_MARGIN

    if beyond(0.0) <= 0:
        return 0.0
    high = 1e-9
    while beyond(high) > 0:
        high *= 2
    return brent(beyond, 0.0, high, xtol=1e-18, rtol=_ROOT_TOLERANCE) * _EPSILON_MARGIN
