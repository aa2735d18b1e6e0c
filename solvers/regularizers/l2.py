"""The squared l2 norm."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import within


@dataclass(frozen=True, slots=True)
class L2:
    """Squared l2 penalty: r(w) = (lambda / 2) ||w||^2 with lambda = `strength`, added to the mean loss.

    The penalty includes the intercept.

    Parameters
    ----------
    strength : lambda, in [0, 1e6]
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    strength: float
    name: Literal["l2"] = "l2"

    def __post_init__(self) -> None:
        within(self.strength, "strength", 0, 1e6)

    @property
    def strong_convexity(self) -> float:
        """Strong convexity, lambda."""
        return self.strength

    def value(self, w: NDArray[np.float64]) -> float:
        """Return r(w)."""
        return self.strength / 2 * float(w @ w)

    def prox(self, w: NDArray[np.float64], step: float) -> NDArray[np.float64]:
        """Return argmin_u step r(u) + ||u - w||^2 / 2 = w / (1 + step lambda)."""
        return w / (1 + step * self.strength)
