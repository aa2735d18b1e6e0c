"""The hinge loss, f(m, y) = max(0, 1 - y m), y in {-1, +1}."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class Hinge(OneMargin):
    """Hinge loss: f(m, y) = max(0, 1 - y m),  |f'| <= 1, with no bound on the curvature, because f' jumps at y m = 1.

    m is the margin <x, w>, y in {-1, +1}. Convex, not smooth: `huber_hinge` is its smooth form.
    """

    takes: ClassVar[Literal["class"]] = "class"
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = math.inf

    name: Literal["hinge"] = "hinge"

    @staticmethod
    def derivative(m: float, y: float) -> float:
        """Return -y if y m < 1, and 0 otherwise."""
        return -y if y * m < 1.0 else 0.0

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        return np.maximum(0.0, 1.0 - y * margin)
