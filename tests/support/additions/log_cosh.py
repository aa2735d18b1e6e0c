"""ln cosh of the residual."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers import kernels
from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class LogCosh(OneMargin):
    """f(m, y) = ln cosh(m - y);  |f'| <= 1,  f'' <= 1."""

    takes: ClassVar[Literal["number"]] = "number"
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 1.0

    name: Literal["log_cosh"] = "log_cosh"

    @staticmethod
    def derivative(m: float, y: float) -> float:
        """Return tanh(m - y)."""
        return 1.0 - 2.0 / (1.0 + kernels.exp(2.0 * (m - y)))

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        return np.logaddexp(margin - y, y - margin) - math.log(2)
