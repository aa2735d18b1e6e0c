"""Huber's loss, the smoothed absolute residual."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from solvers.losses.targets import numbers


@dataclass(frozen=True, slots=True)
class Huber:
    """f(m, y) = (m - y)^2 / (2 h) where |m - y| <= h, and |m - y| - h / 2 beyond;  |f'| <= 1,  f'' <= 1/h.

    The Moreau envelope of the absolute residual, hence convex, below it by at most h / 2. It is Huber's loss with
    threshold h over h, so that h changes the curvature and not the bound on the slope.

    Parameters
    ----------
    smoothing : h, in [1e-4, 100], in the unit of the target
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["number"]] = "number"
    outputs: ClassVar[int] = 1

    smoothing: float = 0.1
    name: Literal["huber"] = "huber"

    def __post_init__(self) -> None:
        if not 1e-4 <= finite(self.smoothing, "smoothing") <= 100:
            raise ValueError("smoothing must lie in [1e-4, 100]")

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2."""
        return 1 / self.smoothing

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """y, made finite."""
        return numbers(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        r, h = np.abs(margin - y), self.smoothing
        return np.where(r <= h, np.minimum(r, h) ** 2 / (2 * h), r - h / 2)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = clip((m - y) / h, -1, 1), elementwise, as a new array."""
        slopes = margin - y
        np.clip(slopes, -self.smoothing, self.smoothing, out=slopes)
        slopes /= self.smoothing
        return slopes
