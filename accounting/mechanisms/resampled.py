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
from accounting.privacy import REPLACE_ONE, Relation

LARGEST = 3.0  # the largest epsilon of a run on a bootstrap sample
MOST_ROWS = 10**10
_COPIES = 200  # a row drawn more often would matter by less than e^(3 * 201) / 201! < 1e-100
_ROUNDING = 1 + 1e-9
_ULP = 2.0**-52
_ROOT = 4 * _ULP  # the least that brentq takes


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

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:  # noqa: ARG002
        """Those of randomized response at this epsilon; under zero_out too, where the null record is one more."""
        own = self.each.pure(noise_multiplier)
        assert own is not None
        return Curves.of_pure(epsilon_of(own, self.rows))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:  # noqa: ARG002
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
    p, gains, least = p0 * np.cumprod((n - j + 1) / j / (n - 1.0)), np.expm1(j * run), np.exp(-j * run)

    def left(over: float) -> tuple[float, float]:
        """The left side at r = 1 + `over`, and its slope's size: convex, and falls; a line piece by piece."""
        gaps = gains - over
        y = p * np.where(gaps > 0, 1.0, least)
        return float(y @ gaps) - p0 * over, float(y.sum()) + p0

    over, (excess, slope) = 0.0, left(0.0)
    for _ in range(_COPIES):  # from below the root Newton's steps stay below it, but for rounding, and end on its line
        if not excess > 0 or over + excess / slope == over:
            break
        over += excess / slope
        excess, slope = left(over)
    rounding = _ULP
    while excess > 0 and rounding < _ROUNDING - 1:
        over, rounding = over * (1 + rounding), 2 * rounding
        excess, _ = left(over)
    return math.log1p(over) * _ROUNDING if excess <= 0 else math.inf


@lru_cache(maxsize=4096)
def run_epsilon(epsilon: float, n: int) -> float:
    """The largest e, up to 3, for which `epsilon_of(e, n)` is at most epsilon."""
    from scipy.optimize import brentq  # late: few plans need it, and it is slow to load

    if epsilon_of(LARGEST, n) <= epsilon:
        return LARGEST
    found = float(brentq(lambda e: epsilon_of(e, n) - epsilon, 0.0, LARGEST, xtol=1e-300, rtol=_ROOT))
    rounding = _ULP
    while epsilon_of(found, n) > epsilon:
        found, rounding = found * (1 - rounding), 2 * rounding
    return found
