"""A pure mechanism on n rows drawn with replacement from n: a row may be drawn several times or not at all.

Precondition: the rows are drawn afresh for every use, uniformly and independently, and the draw stays secret. One use
of `each` on such a bootstrap sample is e/2-DP for one of its rows that becomes null, hence e-DP for the replacement of
one, e = 2 each.curves(z, "zero_out").pure.
Pseudo-code: draw i_1..i_n uniform in 1..n; release each(rows i_1..i_n).
Postcondition: one use is `epsilon_of(e, n, relation)`-DP. Proof: docs/proofs/resampled.md.

Review: The sample is drawn again for each use and stays secret.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from accounting.divergences import randomized_response
from accounting.divergences.resampling import epsilon_of, run_epsilon
from accounting.errors import OutOfRange
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.mechanism import AbstractFixedAnswers, Curves, Event, Source, Vector
from accounting.mechanisms.parallel import Parallel
from accounting.noise import Noise
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, Unit

MOST_ROWS = 10**10


@dataclass(frozen=True, slots=True)
class Resampled(AbstractFixedAnswers):
    """One use of `each` on n rows drawn with replacement from the n.

    Parameters
    ----------
    each : the pure mechanism of the run on the bootstrap sample
    rows : n, in [2, 10^10]

    Reference: Asi, Levy and Duchi 2021, Proposition 4; docs/spec 8, whose tighter theorem this is.
    """

    each: Annotated[Laplace | Parallel, Field(discriminator="name")]
    rows: int
    name: Literal["resampled"] = "resampled"

    def __post_init__(self) -> None:
        whole(self.rows, "rows", 2, MOST_ROWS)
        if self.each.curves(2.0).pure is None:
            raise OutOfRange("each must be a pure mechanism to run on a bootstrap sample")

    @property
    def answers(self) -> int:
        """Number of answers of the run."""
        return self.each.answers

    @property
    def source(self) -> Source | None:
        """The drawn records that the run reads, or None if `each` would need a draw of its own."""
        each = self.each.source
        return None if each is None or each.is_drawn else each._replace(is_drawn=True)

    def fits(self, n: int, unit: Unit) -> bool:
        """Return whether the draw is from exactly n rows, because its cost depends on n, and the run on them fits."""
        return self.rows == n and self.each.fits(n, unit)

    def needs_all_rows(self, n: int) -> str:  # noqa: ARG002
        """Return the reason, which is that rows are drawn from all records."""
        return "it draws a sample of all rows with replacement"

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves of randomized response at the epsilon of one use."""
        half = self.each.curves(noise_multiplier, "zero_out").pure
        assert half is not None
        return Curves.of_pure(epsilon_of(2 * half, self.rows, relation))

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one use spends mu^2."""
        return 2.0 / run_epsilon(randomized_response.epsilon_of_gdp(math.sqrt(mu_squared)), self.rows, relation)

    def event(self, noise_multiplier: float) -> Event:
        """Return the event of `each` on n rows drawn with replacement from n."""
        event = self.each.event(noise_multiplier)
        sizes = {"source_dataset_size": self.rows, "sample_size": self.rows}
        return {"type": "SampledWithReplacementDpEvent", **sizes, "event": event}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Return the noise std of the answer, in its unit."""
        return self.each.std(noise_multiplier, bound, dimension)

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return one private answer of the run, shape (d,)."""
        return self.each.perturb(value, noise_multiplier, bound, noise)
