"""The absolute residual."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.losses.targets import numbers


@dataclass(frozen=True, slots=True)
class Absolute:
    """f(m, y) = |m - y|;  |f'| <= 1, no bound on the curvature.

    Convex, not smooth: `huber` is its smooth form.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["number"]] = "number"
    outputs: ClassVar[int] = 1

    name: Literal["absolute"] = "absolute"

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """Infinite: the slope jumps at m = y."""
        return math.inf

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """y, made finite."""
        return numbers(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        return np.abs(margin - y)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """A subgradient, the sign of m - y (0 at 0), elementwise, as a new array."""
        slopes = margin - y
        return np.sign(slopes, out=slopes)
