"""The sigmoid loss, f(m, y) = 1 / (1 + e^(y m)), y in {-1, +1}."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from solvers.losses.targets import classes


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """f(m, y) = 1 / (1 + exp(y m));  |f'| <= 1/4,  |f''| <= sqrt(3)/18.

    m is the margin <x, w>, y in {-1, +1}. Smooth, not convex: a smooth count of mistakes, which one wild record moves
    by at most 1. Its minimizer is a rule, not a probability: where P(y = 1) = p, its mean p + (1 - 2 p) s, with
    s = 1 / (1 + e^-m), is linear in s, so the best s is 0 or 1 and never p.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["class"]] = "class"
    outputs: ClassVar[int] = 1

    name: Literal["sigmoid"] = "sigmoid"

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|, reached at m = 0."""
        return 0.25

    @property
    def curvature_bound(self) -> float:
        """sup |d^2f/dm^2| = sup s (1 - s) |1 - 2 s|, reached at s = 1/2 +- sqrt(3)/6."""
        return math.sqrt(3) / 18

    @property
    def is_convex(self) -> bool:
        """No."""
        return False

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """+1 or -1."""
        return classes(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        result: NDArray[np.float64] = expit(-y * margin)
        return result

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = -y / ((1 + e^(y m)) (1 + e^(-y m))), elementwise, as a new array."""
        slopes = expit(margin)
        slopes *= expit(-margin)
        slopes *= -y
        result: NDArray[np.float64] = slopes
        return result
