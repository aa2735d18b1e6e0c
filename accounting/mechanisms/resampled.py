"""A pure mechanism on n rows drawn with replacement from n: a row may be drawn several times, or missed.

Precondition: the rows are drawn afresh for every use, uniformly and independently, and the draw stays secret; one use
of `each` on such a bootstrap sample is e-DP for the replacement of one of its rows, e = each.pure(z).
Pseudo-code: draw i_1..i_n uniform in 1..n; release each(rows i_1..i_n).
Postcondition: one use is `epsilon_of(e, n)`-DP for the replacement of a row. Proof: docs/proofs/resampled.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from accounting.divergences import randomized_response
from accounting.errors import OutOfRange
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.mechanism import AbstractMechanism, Curves, Event, Vector
from accounting.mechanisms.parallel import Parallel
from accounting.noise import Noise
from accounting.numbers import whole

LARGEST = 3.0  # the largest epsilon of a run on a bootstrap sample
MOST_ROWS = 10**10
_COPIES = 200  # a row drawn more often would matter by less than e^(3 * 201) / 201! < 1e-100
_ROUNDING = 1 + 1e-9
_HALVINGS = 200


@dataclass(frozen=True, slots=True)
class Resampled(AbstractMechanism):
    """One use of `each` on n rows drawn with replacement from the n.

    Parameters
    ----------
    each : the mechanism of the run on the bootstrap sample, a pure one
    rows : n, in [2, 10^10]

    Reference: Asi, Levy and Duchi 2021, Proposition 4; docs/spec 8, whose tighter theorem this is.
    """

    each: Annotated[Laplace | Parallel, Field(discriminator="name")]
    rows: int
    name: Literal["resampled"] = "resampled"

    def __post_init__(self) -> None:
        whole(self.rows, "the rows", 2, MOST_ROWS)
        if self.each.pure(2.0) is None:
            raise OutOfRange("only a pure mechanism can run on a bootstrap sample")

    @property
    def answers(self) -> int:
        """Those of the run."""
        return self.each.answers

    def curves(self, noise_multiplier: float) -> Curves:
        """Those of randomized response at this epsilon."""
        own = self.each.pure(noise_multiplier)
        assert own is not None
        return Curves.of_pure(epsilon_of(own, self.rows))

    def multiplier(self, mu_squared: float) -> float:
        """The z at which one use spends mu^2."""
        return 2.0 / run_epsilon(randomized_response.epsilon_of_gdp(math.sqrt(mu_squared)), self.rows)

    def event(self, noise_multiplier: float) -> Event:
        """The event within, on as many rows drawn with replacement as there are."""
        within = self.each.event(noise_multiplier)
        sizes = {"source_dataset_size": self.rows, "sample_size": self.rows}
        return {"type": "SampledWithReplacementDpEvent", **sizes, "event": within}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Of one answer's noise, in its unit."""
        return self.each.std(noise_multiplier, bound, dimension)

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """One private answer of the run, shape (d,)."""
        return self.each.perturb(value, noise_multiplier, bound, noise)


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
