"""The smoothed hinge loss."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.numbers import within
from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class HuberHinge(OneMargin):
    """Smoothed hinge loss: f(m, y) = 0 if y m >= 1, (1 - y m)^2 / (2 h) if 1 - h <= y m <= 1, else 1 - y m - h / 2.

    This is the Moreau envelope of the hinge loss, min over u of max(0, 1 - u) + (u - y m)^2 / (2 h). So it is convex,
    and at most h / 2 below the hinge;  |f'| <= 1,  f'' <= 1/h. y in {-1, +1}.

    Parameters
    ----------
    smoothing : h, in [1e-4, 100], in the unit of the margin
    """

    takes: ClassVar[Literal["class"]] = "class"
    slope_bound: ClassVar[float] = 1.0

    smoothing: float = 0.5
    name: Literal["huber_hinge"] = "huber_hinge"

    def __post_init__(self) -> None:
        within(self.smoothing, "smoothing", 1e-4, 100)

    @property
    def curvature_bound(self) -> float:
        """Curvature bound 1 / h."""
        return 1 / self.smoothing

    @staticmethod
    def derivative(m: float, y: float, smoothing: float) -> float:
        """Return -y clip((1 - y m) / h, 0, 1)."""
        return -(y * min(max((1.0 - y * m) / smoothing, 0.0), 1.0))

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        gap, h = np.maximum(0.0, 1.0 - y * margin), self.smoothing
        return np.where(gap <= h, np.minimum(gap, h) ** 2 / (2 * h), gap - h / 2)
