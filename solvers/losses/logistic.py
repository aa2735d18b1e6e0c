"""The logistic loss, f(m, y) = ln(1 + e^(-y m)), y in {-1, +1}."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers import kernels
from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class Logistic(OneMargin):
    """Logistic loss: f(m, y) = ln(1 + exp(-y m)),  |f'| <= 1,  f'' <= 1/4.

    m is the margin <x, w>, y in {-1, +1}. Convex and smooth.
    """

    takes: ClassVar[Literal["class"]] = "class"
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 0.25

    name: Literal["logistic"] = "logistic"

    @staticmethod
    def derivative(m: float, y: float) -> float:
        """Return -y / (1 + e^(y m))."""
        return -(y * (1.0 / (1.0 + kernels.exp(y * m))))

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        return np.logaddexp(0.0, -y * margin)
