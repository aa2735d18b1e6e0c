"""The logistic loss, f(m, y) = ln(1 + e^(-y m)), y in {-1, +1}."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from solvers.losses.targets import classes


@dataclass(frozen=True, slots=True)
class Logistic:
    """f(m, y) = ln(1 + exp(-y m));  |f'| <= 1,  f'' <= 1/4.

    m is the margin <x, w>, y in {-1, +1}. Convex and smooth.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["class"]] = "class"
    outputs: ClassVar[int] = 1

    name: Literal["logistic"] = "logistic"

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2."""
        return 0.25

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """+1 or -1."""
        return classes(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        return np.logaddexp(0.0, -y * margin)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = -y / (1 + e^(y m)), elementwise, as a new array."""
        slopes = y * margin
        np.negative(slopes, out=slopes)
        expit(slopes, out=slopes)
        slopes *= y
        return np.negative(slopes, out=slopes)
