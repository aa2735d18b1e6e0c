"""The quantile (pinball) loss, plain or smoothed."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.numbers import within
from solvers.losses.one_margin import Floats, OneMargin, zero_or_within


@dataclass(frozen=True, slots=True)
class Quantile(OneMargin):
    """Quantile loss: f(m, y) = max(q (y - m), (1 - q) (m - y)), or its Moreau envelope if h > 0.

    |f'| <= max(q, 1 - q). With r = m - y, the envelope min over u of max(-q u, (1 - q) u) + (u - r)^2 / (2 h) is
    r^2 / (2 h) for -q h <= r <= (1 - q) h, -q r - q^2 h / 2 for smaller r, and (1 - q) r - (1 - q)^2 h / 2 for larger
    r. It is convex with f'' <= 1/h, and at most max(q, 1 - q)^2 h / 2 below the plain loss. The plain loss (h = 0) is
    convex and not smooth.

    Parameters
    ----------
    level : q, in [0.001, 0.999]; the least mean loss of a constant is at the q-quantile of y
    smoothing : h, 0 or in [1e-4, 100], in the unit of encoded targets
    """

    takes: ClassVar[Literal["number"]] = "number"

    level: float = 0.5
    smoothing: float = 0.0
    name: Literal["quantile"] = "quantile"

    def __post_init__(self) -> None:
        within(self.level, "level", 0.001, 0.999)
        zero_or_within(self.smoothing, "smoothing", 1e-4, 100)

    @property
    def slope_bound(self) -> float:
        """Slope bound max(q, 1 - q)."""
        return max(self.level, 1 - self.level)

    @property
    def curvature_bound(self) -> float:
        """Curvature bound 1 / h; infinite without smoothing, because the slope jumps at m = y."""
        return 1 / self.smoothing if self.smoothing > 0 else math.inf

    @staticmethod
    def derivative(m: float, y: float, level: float, smoothing: float) -> float:
        """Return clip((m - y) / h, -q, 1 - q); for h = 0, 1 - q if m > y, else -q."""
        if smoothing == 0.0:
            return 1.0 - level if m > y else -level
        return min(max(m - y, -level * smoothing), (1.0 - level) * smoothing) / smoothing

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        s = self.slope(margin, y)
        return s * (margin - y) - self.smoothing * s * s / 2
