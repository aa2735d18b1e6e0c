"""The promise itself: (epsilon, delta), finite and in range."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.errors import OutOfRange
from accounting.numbers import finite

EPSILON_RANGE = (1e-3, 100.0)
DELTA_RANGE = (1e-12, 1e-2)

Relation = Literal["replace_one", "zero_out"]
"""Which datasets are neighbors: those where one record is replaced by another at its position, or by the null record,
which adds 0 to every answer. n is public and the same for both."""
REPLACE_ONE: Relation = "replace_one"


def apart(relation: Relation) -> float:
    """How many per-record bounds an answer of a neighbor may be away: two steps where the null record lies between."""
    return 1.0 if relation == "zero_out" else 2.0


@dataclass(frozen=True, slots=True)
class Privacy:
    """P(M(D) in S) <= e^epsilon P(M(D') in S) + delta for all S and all neighbors D, D' (see `Relation`).

    Parameters
    ----------
    epsilon : float in [1e-3, 100]
    delta : float, 0 (pure) or in [1e-12, 1e-2]

    Raises
    ------
    OutOfRange
        if either is not finite or lies outside its range.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon, delta = finite(self.epsilon, "epsilon"), finite(self.delta, "delta")
        if not EPSILON_RANGE[0] <= epsilon <= EPSILON_RANGE[1]:
            raise OutOfRange(f"epsilon must lie in [{EPSILON_RANGE[0]:g}, {EPSILON_RANGE[1]:g}]")
        if delta != 0.0 and not DELTA_RANGE[0] <= delta <= DELTA_RANGE[1]:
            raise OutOfRange(f"delta must be 0 or lie in [{DELTA_RANGE[0]:g}, {DELTA_RANGE[1]:g}]")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0."""
        return self.delta == 0.0
