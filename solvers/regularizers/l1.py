"""The l1 norm."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import within


@dataclass(frozen=True, slots=True)
class L1:
    """r(w) = lambda ||w||_1, lambda = `strength`; beside the mean loss, the intercept included.

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
        """0."""
        return 0.0

    def value(self, w: NDArray[np.float64]) -> float:
        """r(w)."""
        return self.strength * float(np.abs(w).sum())

    def prox(self, w: NDArray[np.float64], step: float) -> NDArray[np.float64]:
        """argmin_u step r(u) + ||u - w||^2 / 2: each coordinate moved towards 0 by step lambda, not beyond it."""
        return shrink(w, step * self.strength)


def shrink(w: NDArray[np.float64], by: float) -> NDArray[np.float64]:
    """sign(w) max(|w| - by, 0), elementwise."""
    return np.sign(w) * np.maximum(np.abs(w) - by, 0.0)
