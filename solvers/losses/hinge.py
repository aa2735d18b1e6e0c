"""The hinge loss, f(m, y) = max(0, 1 - y m), y in {-1, +1}."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.losses.targets import classes


@dataclass(frozen=True, slots=True)
class Hinge:
    """f(m, y) = max(0, 1 - y m);  |f'| <= 1, no bound on the curvature.

    m is the margin <x, w>, y in {-1, +1}. Convex, not smooth: `huber_hinge` is its smooth form.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["class"]] = "class"
    outputs: ClassVar[int] = 1

    name: Literal["hinge"] = "hinge"

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """Infinite: the slope jumps at y m = 1."""
        return math.inf

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """+1 or -1."""
        return classes(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        return np.maximum(0.0, 1.0 - y * margin)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """A subgradient, -y where y m < 1 and 0 elsewhere, elementwise, as a new array."""
        return np.where(y * margin < 1.0, -y, 0.0)
