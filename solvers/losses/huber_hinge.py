"""The smoothed hinge loss."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from solvers.losses.targets import classes


@dataclass(frozen=True, slots=True)
class HuberHinge:
    """f(m, y) = 0 where y m >= 1, (1 - y m)^2 / (2 h) where 1 - h <= y m <= 1, 1 - y m - h / 2 below.

    The Moreau envelope of the hinge loss: min over u of max(0, 1 - u) + (u - y m)^2 / (2 h), hence convex, below the
    hinge by at most h / 2;  |f'| <= 1,  f'' <= 1/h. y in {-1, +1}.

    Parameters
    ----------
    smoothing : h, in [1e-4, 100], in the unit of the margin
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["class"]] = "class"
    outputs: ClassVar[int] = 1

    smoothing: float = 0.5
    name: Literal["huber_hinge"] = "huber_hinge"

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
        """+1 or -1."""
        return classes(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        gap, h = np.maximum(0.0, 1.0 - y * margin), self.smoothing
        return np.where(gap <= h, np.minimum(gap, h) ** 2 / (2 * h), gap - h / 2)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = -y clip((1 - y m) / h, 0, 1), elementwise, as a new array."""
        slopes = (1.0 - y * margin) / self.smoothing
        np.clip(slopes, 0.0, 1.0, out=slopes)
        slopes *= y
        return np.negative(slopes, out=slopes)
