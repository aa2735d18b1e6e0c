"""The sigmoid loss, f(m, y) = 1 / (1 + e^(y m)), y in {-1, +1}."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from scipy.special import expit

from solvers import kernels
from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class Sigmoid(OneMargin):
    """Sigmoid loss: f(m, y) = 1 / (1 + exp(y m)),  |f'| <= 1/4,  |f''| <= sqrt(3)/18.

    m is the margin <x, w>, y in {-1, +1}. The loss is smooth and not convex. It is a smooth count of errors, to which
    one outlier adds at most 1. Its minimizer predicts a class instead of a probability: if P(y = 1) = p, the mean loss
    p + (1 - 2 p) s with s = 1 / (1 + e^-m) is linear in s, so the best s is 0 or 1. The slope is steepest at m = 0, and
    f'' = s (1 - s) (1 - 2 s) is largest at s = 1/2 +- sqrt(3)/6.
    """

    takes: ClassVar[Literal["class"]] = "class"
    is_convex: ClassVar[bool] = False
    slope_bound: ClassVar[float] = 0.25
    curvature_bound: ClassVar[float] = math.sqrt(3) / 18

    name: Literal["sigmoid"] = "sigmoid"

    @staticmethod
    def derivative(m: float, y: float) -> float:
        """Return -y / ((1 + e^m) (1 + e^-m))."""
        return (1.0 / (1.0 + kernels.exp(-m))) * (1.0 / (1.0 + kernels.exp(m))) * -y

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        result: Floats = expit(-y * margin)
        return result
