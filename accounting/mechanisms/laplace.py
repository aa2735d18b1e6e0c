"""The Laplace mechanism on an answer to which each record adds at most b in l1: scale = z b, sensitivity 2 b.

Precondition: replacing one record moves the answer, a vector, by at most 2 b in the l1 norm.
Pseudo-code: release round_gamma(value) + gamma round(Y / gamma), Y_j i.i.d. of density e^(-|y| / (z b)) / (2 z b).
Postcondition: 2/z-DP, delta = 0. Proof: docs/proofs/laplace.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response
from accounting.mechanisms import events
from accounting.noise import Noise
from accounting.noise.lattice import Lattice

_ROUNDING = 1 + 1e-9  # more than the error of the curve in floats
_TINY = 1e-3  # below this a epsilon, the curve's own formula loses digits; randomized response is then as good a bound


@dataclass(frozen=True, slots=True)
class Laplace:
    """epsilon = 2 b / scale = 2 / z for every answer.

    Reference: Dwork, McSherry, Nissim and Smith 2006; Mironov 2017, Proposition 6 (in one dimension;
    docs/proofs/laplace.md for vectors).
    """

    name: Literal["laplace"] = "laplace"

    @property
    def answers(self) -> int:
        """One use is one answer."""
        return 1

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = ln(a/(2a-1) e^((a-1) epsilon) + (a-1)/(2a-1) e^(-a epsilon)) / (a-1) , each a > 1."""
        epsilon = 2.0 / noise_multiplier
        a = np.asarray(orders, dtype=float)
        up, down = (a - 1) * epsilon, -a * epsilon
        w, v = a / (2 * a - 1), (a - 1) / (2 * a - 1)  # the mean of up and down is 0: taken out, it costs no digits
        clipped_up, clipped_down = np.minimum(up, 1.0), np.maximum(down, -1e3)
        near = np.log1p(w * (np.expm1(clipped_up) - clipped_up) + v * (np.expm1(clipped_down) - clipped_down))
        far = np.logaddexp(np.log(w) + up, np.log(v) + down)
        exact = np.where((up <= 1) & (down >= -1e3), near, far) / (a - 1) * _ROUNDING
        return np.where(-down < _TINY, np.inf, exact).clip(max=randomized_response.renyi(epsilon, orders))

    def gdp(self, noise_multiplier: float) -> float:
        """mu of one answer, as of every answer of this epsilon."""
        return randomized_response.gdp(2.0 / noise_multiplier)

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """The same."""
        return randomized_response.gdp(2.0 / noise_multiplier)

    def pure(self, noise_multiplier: float) -> float | None:
        """epsilon at delta = 0."""
        return 2.0 / noise_multiplier

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one answer spends mu^2."""
        return 2.0 / randomized_response.epsilon_of_gdp(math.sqrt(mu_squared))

    def event(self, noise_multiplier: float) -> events.Event:
        """One answer as an event."""
        return events.laplace(noise_multiplier)

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use: sqrt(2) scales."""
        return math.sqrt(2) * Lattice.fit_l1(noise_multiplier, bound, dimension).std

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """The private answer, shape (d,)."""
        return Lattice.fit_l1(noise_multiplier, bound, len(value)).perturb_laplace(value, noise)
