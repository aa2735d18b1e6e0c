"""A uniformly random prefix of T - 1 Gaussian answers: m of them, m uniform on {0..T-1} and drawn without the data.

Precondition: as `gaussian`, for each answer; m is drawn before the first, by `Noise.below`; the answers beyond m are
never made. m itself may be public.
Pseudo-code: m <- uniform {0..T-1}; answer m times.
Postcondition: with mu_1 = 2/z, for every epsilon, delta(epsilon) <= (1/T) sum_(m<T) delta_Gauss(epsilon; mu_1 sqrt(m));
for every order a, exp((a-1) rho(a)) <= (1/T) sum_(m<T) exp((a-1) a m mu_1^2 / 2). Proof: docs/proofs/random_iterate.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.noise.lattice import Lattice

MOST_STEPS = 100_000
_ROUNDING = 1 + 1e-9  # of the curve, more than the error of its logarithms where they are used
_SMALL = 1e-3  # below this range of exponents, logarithms of numbers near 1 give way to Hoeffding's bound


@dataclass(frozen=True, slots=True)
class RandomIterate:
    """One use is m answers, m uniform on {0..T-1}.

    Parameters
    ----------
    steps : T, in [2, 100000]

    Reference: Wang, Ye and Xu 2017, Algorithm 4 (which prints m ~ U{0..m-1}); docs/spec T9.
    """

    steps: int
    name: Literal["random_iterate"] = "random_iterate"

    def __post_init__(self) -> None:
        if type(self.steps) is not int or not 2 <= self.steps <= MOST_STEPS:
            raise OutOfRange(f"steps must be an integer in [2, {MOST_STEPS}]")

    @property
    def answers(self) -> int:
        """The most that one use answers: T - 1."""
        return self.steps - 1

    def horizon(self, noise: Noise) -> int:
        """m."""
        return noise.below(self.steps)

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = ln((1/T) sum_m e^(q m)) / (a-1), q = (a-1) a mu_1^2 / 2, rounded up, at each order a > 1."""
        return np.array([self._rho(float(a), 2.0 / noise_multiplier**2) for a in orders])

    def gdp(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: a mixture of Gaussian pairs is not Gaussian-DP but at the most answers' own mu."""
        return None

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """mu_1 sqrt(T - 1): as if all answers were always given."""
        return 2.0 / noise_multiplier * math.sqrt(self.steps - 1)

    def pure(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: Gaussian noise has no epsilon at delta = 0."""
        return None

    def multiplier(self, mu_squared: float) -> float:
        """The z at which T - 1 answers spend mu^2; one use spends a little less."""
        return 2.0 / math.sqrt(mu_squared) * math.sqrt(self.steps - 1)

    def event(self, noise_multiplier: float) -> events.Event:
        """One use as an event."""
        return events.random_iterate(self.steps, events.gaussian(noise_multiplier))

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use."""
        return Lattice.fit(noise_multiplier, bound, dimension).std

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """One private answer, shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value)).perturb(value, noise)

    def _rho(self, order: float, unit: float) -> float:
        """At one order; `unit` is mu_1^2 / 2. Never above that of T - 1 answers."""
        most, q = self.steps - 1, (order - 1) * order * unit
        if q * most <= _SMALL:
            log_mean = q * most / 2 + (q * most) ** 2 / 8  # Hoeffding's lemma
        else:
            log_mean = math.log(-math.expm1(-q * self.steps) / -math.expm1(-q) / self.steps) + q * most
        return min(order * most * unit, log_mean / (order - 1) * _ROUNDING)
