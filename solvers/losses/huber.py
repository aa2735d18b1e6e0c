"""Huber's loss, the smoothed absolute residual."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.numbers import within
from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class Huber(OneMargin):
    """Smoothed absolute residual: f(m, y) = (m - y)^2 / (2 h) if |m - y| <= h, else |m - y| - h / 2.

    |f'| <= 1 and f'' <= 1/h. This is the Moreau envelope of the absolute residual, so it is convex, and at most h / 2
    below it. It is Huber's loss with threshold h, divided by h, so h changes the curvature but not the slope bound.

    Parameters
    ----------
    smoothing : h, in [1e-4, 100], in the unit of encoded targets
    """

    takes: ClassVar[Literal["number"]] = "number"
    slope_bound: ClassVar[float] = 1.0

    smoothing: float = 0.1
    name: Literal["huber"] = "huber"

    def __post_init__(self) -> None:
        within(self.smoothing, "smoothing", 1e-4, 100)

    @property
    def curvature_bound(self) -> float:
        """Curvature bound 1 / h."""
        return 1 / self.smoothing

    @staticmethod
    def derivative(m: float, y: float, smoothing: float) -> float:
        """Return clip((m - y) / h, -1, 1)."""
        return min(max(m - y, -smoothing), smoothing) / smoothing

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        r, h = np.abs(margin - y), self.smoothing
        return np.where(r <= h, np.minimum(r, h) ** 2 / (2 * h), r - h / 2)
