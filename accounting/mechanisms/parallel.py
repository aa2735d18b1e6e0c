"""Parallel composition: several answers from disjoint positions, at the cost of one.

Precondition: the answers of one use come from disjoint sets of positions, which are fixed given the earlier answers.
Each answer is one answer of the mechanism `each` on its own positions.
Pseudo-code: for p = 1..parts: release each(value of the p-th set of positions and of earlier answers).
Postcondition: one use costs one answer of `each`. Proof: docs/proofs/parallel.md.

Review: A use costs one answer only if all positions are disjoint.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.mechanism import AbstractFixedAnswers, Curves, Event, Source, Vector
from accounting.noise import Noise
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, Unit

MOST_PARTS = 100_000
Each = Gaussian | Laplace


@dataclass(frozen=True, slots=True)
class Parallel(AbstractFixedAnswers):
    """`parts` answers of `each` on disjoint positions. The code that reads the data checks that they are disjoint.

    Parameters
    ----------
    each : the mechanism of one answer
    parts : k, in [1, 100000]

    Reference: McSherry 2009, Theorem 4; docs/spec T2.
    """

    each: Annotated[Each, Field(discriminator="name")]
    parts: int
    name: Literal["parallel"] = "parallel"

    def __post_init__(self) -> None:
        whole(self.parts, "parts", 1, MOST_PARTS)

    @property
    def answers(self) -> int:
        """Number of answers of one use: those of `each`, for every part."""
        return self.parts * self.each.answers

    @property
    def source(self) -> Source | None:
        """The records of one part, or None unless an answer of `each` may read all records."""
        return Source(is_part=True) if self.each.source == Source() else None

    def fits(self, n: int, unit: Unit) -> bool:
        """Return whether each part can have a record and one answer fits."""
        return self.parts <= n and self.each.fits(n, unit)

    def needs_all_rows(self, n: int) -> str | None:
        """Return the reason of one answer."""
        return self.each.needs_all_rows(n)

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves of one answer, since a record is in one part."""
        return self.each.curves(noise_multiplier, relation)

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z of one answer at which it spends about mu^2, the cost of one use."""
        return self.each.multiplier(mu_squared, relation)

    def event(self, noise_multiplier: float) -> Event:
        """Return one answer as an event: it costs as much as the whole use."""
        return self.each.event(noise_multiplier)

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Return the noise std of one answer, in its unit."""
        return self.each.std(noise_multiplier, bound, dimension)

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return the private answer of one part, shape (d,)."""
        return self.each.perturb(value, noise_multiplier, bound, noise)
