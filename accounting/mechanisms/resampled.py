"""A pure mechanism on n rows drawn with replacement from n: a row may be drawn several times, or missed.

Precondition: the rows are drawn afresh for every use, uniformly and independently, and the draw stays secret; one use
of `each` on the drawn rows is e-DP for the replacement of one drawn row, e = each.pure(z).
Pseudo-code: draw i_1..i_n uniform in 1..n; release each(rows i_1..i_n).
Postcondition: one use is `epsilon_of(e, n)`-DP for the replacement of a row. Proof: docs/proofs/resampled.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response
from accounting.errors import OutOfRange
from accounting.mechanisms import events
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.parallel import Parallel
from accounting.noise import Noise

LARGEST = 3.0  # the largest epsilon of a run on drawn rows
MOST_ROWS = 10**10
_COPIES = 200  # a row drawn more often would matter by less than e^(3 * 201) / 201! < 1e-100
_ROUNDING = 1 + 1e-9
_HALVINGS = 200


@dataclass(frozen=True, slots=True)
class Resampled:
    """One use of `each` on n rows drawn with replacement from the n.

    Parameters
    ----------
    each : the mechanism of the run on the drawn rows, a pure one
    rows : n, in [2, 10^10]

    Reference: Asi, Levy and Duchi 2021, Proposition 4; docs/spec 8, whose tighter theorem this is.
    """

    each: Laplace | Parallel
    rows: int
    name: Literal["resampled"] = "resampled"

    def __post_init__(self) -> None:
        if type(self.rows) is not int or not 2 <= self.rows <= MOST_ROWS:
            raise OutOfRange(f"the rows must be an integer in [2, {MOST_ROWS}]")
        if self.each.pure(2.0) is None:
            raise OutOfRange("only a pure mechanism can run on drawn rows")

    @property
    def answers(self) -> int:
        """Those of the run."""
        return self.each.answers

    def rdp(self, noise_multiplier: float, orders: Sequence[float]) -> NDArray[np.float64]:
        """Of randomized response at this epsilon."""
        return randomized_response.renyi(self._epsilon(noise_multiplier), orders)

    def gdp(self, noise_multiplier: float) -> float | None:
        """Of randomized response at this epsilon."""
        return randomized_response.gdp(self._epsilon(noise_multiplier))

    def gdp_bound(self, noise_multiplier: float) -> float | None:
        """The same."""
        return randomized_response.gdp(self._epsilon(noise_multiplier))

    def pure(self, noise_multiplier: float) -> float | None:
        """epsilon at delta = 0."""
        return self._epsilon(noise_multiplier)

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one use spends mu^2."""
        return self.pure_multiplier(randomized_response.epsilon_of_gdp(math.sqrt(mu_squared)))

    def pure_multiplier(self, epsilon: float) -> float:
        """The z at which one use is epsilon-DP."""
        return 2.0 / run_epsilon(epsilon, self.rows)

    def event(self, noise_multiplier: float) -> events.Event:
        """One use as an event."""
        return events.drawn_with_replacement(self.rows, self.each.event(noise_multiplier))

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Of one answer's noise, in its unit."""
        return self.each.std(noise_multiplier, bound, dimension)

    def perturb(
        self, value: NDArray[np.float64], noise_multiplier: float, bound: float, noise: Noise
    ) -> NDArray[np.float64]:
        """One private answer of the run, shape (d,)."""
        return self.each.perturb(value, noise_multiplier, bound, noise)

    def _epsilon(self, noise_multiplier: float) -> float:
        own = self.each.pure(noise_multiplier)
        assert own is not None
        return epsilon_of(own, self.rows)


@lru_cache(maxsize=4096)
def epsilon_of(run: float, n: int) -> float:
    """ln of the least r with p_0 (1 - r) + sum over j >= 1 of p_j max over y in {e^(-je), 1} of y (e^(je) - r) <= 0.

    p_j = P(Bin(n, 1/n) = j), e = `run`; rounded up; infinite for e above 3.
    """
    if run > LARGEST:
        return math.inf
    j = np.arange(1, min(n, _COPIES) + 1, dtype=float)
    p0 = math.exp(n * math.log1p(-1 / n))
    p, gains = p0 * np.cumprod((n - j + 1) / j / (n - 1.0)), np.expm1(j * run)

    def excess(over: float) -> float:
        """The left side at r = 1 + `over`."""
        gaps = gains - over
        return -p0 * over + float(np.sum(p * np.where(gaps > 0, gaps, gaps * np.exp(-j * run))))

    low, high = 0.0, max(math.expm1(run) * 4, 1e-300)
    while not excess(high) <= 0 and high < 1e300:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if not excess(middle) <= 0 else (low, middle)
    return math.log1p(high) * _ROUNDING if excess(high) <= 0 else math.inf


def run_epsilon(epsilon: float, n: int) -> float:
    """The largest e, up to 3, for which `epsilon_of(e, n)` is at most epsilon."""
    low, high = 0.0, LARGEST
    if epsilon_of(high, n) <= epsilon:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle, n) <= epsilon else (low, middle)
    return low
