"""The promise itself: (epsilon, delta), finite and in range."""

from dataclasses import dataclass
from typing import ClassVar

from accounting.errors import OutOfRange
from accounting.numbers import finite

EPSILON_RANGE = (1e-3, 100.0)
DELTA_RANGE = (1e-12, 1e-2)


@dataclass(frozen=True, slots=True)
class Privacy:
    """P(M(D) in S) <= e^epsilon P(M(D') in S) + delta for all S and all D, D' that differ in one record.

    The relation is replace-one: one record of an ordered n-tuple is replaced at the same position; n is public.

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
