"""The Gaussian mechanism on an answer to which each record adds at most b: std = z b, replace-one sensitivity 2 b.

Precondition: the answer is a sum or mean of per-record vectors of l2 norm at most b.
Pseudo-code: release round_gamma(value) + gamma round(N / gamma), N ~ N(0, (z b)^2 I).
Postcondition: 2/z-GDP; Renyi divergence of order a at most 2 a / z^2. Proof: docs/proofs/gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.noise.lattice import Lattice


@dataclass(frozen=True, slots=True)
class Gaussian:
    """mu = 2 b / std = 2 / z for every answer.

    Reference: Dwork and Roth 2014, appendix A; Dong, Roth and Su 2022; docs/spec T1.
    """

    name: Literal["gaussian"] = "gaussian"

    @property
    def answers(self) -> int:
        """One use is one answer."""
        return 1

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = a mu^2 / 2 = 2 a / z^2 of one answer, at each order a > 1."""
        return np.asarray(orders, dtype=float) * (2.0 / noise_multiplier**2)

    def gdp(self, noise_multiplier: float) -> float:
        """mu of one answer."""
        return 2.0 / noise_multiplier

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """The same: it is exact."""
        return 2.0 / noise_multiplier

    def pure(self, noise_multiplier: float) -> float | None:  # noqa: ARG002
        """None: Gaussian noise has no epsilon at delta = 0."""
        return None

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one answer spends mu^2."""
        return 2.0 / math.sqrt(mu_squared)

    def event(self, noise_multiplier: float) -> events.Event:
        """One answer as an event."""
        return events.gaussian(noise_multiplier)

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use."""
        return Lattice.fit(noise_multiplier, bound, dimension).std

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """The private answer, shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value)).perturb(value, noise)
