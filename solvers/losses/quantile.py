"""The quantile (pinball) loss, plain or smoothed."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from solvers.losses.targets import numbers


@dataclass(frozen=True, slots=True)
class Quantile:
    """f(m, y) = max(q (y - m), (1 - q) (m - y)), or with h > 0 its Moreau envelope;  |f'| <= max(q, 1 - q).

    With r = m - y, the envelope min over u of max(-q u, (1 - q) u) + (u - r)^2 / (2 h) is r^2 / (2 h) while
    -q h <= r <= (1 - q) h, and -q r - q^2 h / 2 below, (1 - q) r - (1 - q)^2 h / 2 above: convex, f'' <= 1/h, below the
    plain loss by at most max(q, 1 - q)^2 h / 2. Plain (h = 0) the loss is convex and not smooth.

    Parameters
    ----------
    level : q, in [0.001, 0.999]; the least mean loss of a constant is at the q-quantile of y
    smoothing : h, 0 or in [1e-4, 100], in the unit of the target
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["number"]] = "number"
    outputs: ClassVar[int] = 1

    level: float = 0.5
    smoothing: float = 0.0
    name: Literal["quantile"] = "quantile"

    def __post_init__(self) -> None:
        if not 0.001 <= finite(self.level, "level") <= 0.999:
            raise ValueError("level must lie in [0.001, 0.999]")
        if finite(self.smoothing, "smoothing") != 0 and not 1e-4 <= self.smoothing <= 100:
            raise ValueError("smoothing must be 0 or lie in [1e-4, 100]")

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return max(self.level, 1 - self.level)

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2; infinite without smoothing, since the slope jumps at m = y."""
        return 1 / self.smoothing if self.smoothing > 0 else math.inf

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """y, made finite."""
        return numbers(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        s = self.slope(margin, y)
        return s * (margin - y) - self.smoothing * s * s / 2

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = clip((m - y) / h, -q, 1 - q), elementwise, as a new array; with h = 0, 1 - q above y and else -q."""
        slopes, q, h = margin - y, self.level, self.smoothing
        if h == 0:
            return np.where(slopes > 0, 1 - q, -q)
        np.clip(slopes, -q * h, (1 - q) * h, out=slopes)
        slopes /= h
        return slopes
