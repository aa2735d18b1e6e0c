"""The absolute residual as a loss."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class Absolute(OneMargin):
    """Absolute residual: f(m, y) = |m - y|,  |f'| <= 1, with no bound on the curvature, because f' jumps at m = y.

    Convex, not smooth: `huber` is its smooth form.
    """

    takes: ClassVar[Literal["number"]] = "number"
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = math.inf

    name: Literal["absolute"] = "absolute"

    @staticmethod
    def derivative(m: float, y: float) -> float:
        """Return the sign of m - y, 0 at 0."""
        return 1.0 * (m > y) - 1.0 * (m < y)  # without a branch, whose time would depend on the sign

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        return np.abs(margin - y)
