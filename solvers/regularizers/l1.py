"""The l1 norm."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import within


@dataclass(frozen=True, slots=True)
class L1:
    """l1 penalty: r(w) = lambda ||w||_1 with lambda = `strength`, added to the mean loss.

    The penalty includes the intercept.

    Parameters
    ----------
    strength : lambda, in [0, 1e6]
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    strength: float
    name: Literal["l1"] = "l1"

    def __post_init__(self) -> None:
        within(self.strength, "strength", 0, 1e6)

    @property
    def strong_convexity(self) -> float:
        """Strong convexity, 0."""
        return 0.0

    def value(self, w: NDArray[np.float64]) -> float:
        """Return r(w)."""
        return self.strength * float(np.abs(w).sum())

    def prox(self, w: NDArray[np.float64], step: float) -> NDArray[np.float64]:
        """Return argmin_u step r(u) + ||u - w||^2 / 2: each coordinate moves towards 0 by up to step lambda."""
        return shrink(w, step * self.strength)


def shrink(w: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Return sign(w) max(|w| - threshold, 0), elementwise."""
    return np.sign(w) * np.maximum(np.abs(w) - threshold, 0.0)
