"""A power of the residual, with the residual clipped."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.errors import OutOfRange
from accounting.numbers import within
from solvers.losses.one_margin import Floats, OneMargin, zero_or_within


@dataclass(frozen=True, slots=True)
class Power(OneMargin):
    """Power of the clipped residual: f(m, y) = |m - y|^k if |m - y| <= c, else c^k + k c^(k-1) (|m - y| - c).

    |f'| <= k c^(k-1), and f is convex. f'' = k (k - 1) |m - y|^(k-2) has no bound near 0, except for k = 2, where it is
    2. With smoothing h > 0, the parabola (k/2) h^(k-2) (m - y)^2 + (1 - k/2) h^k replaces f where |m - y| <= h, with
    the same value and slope at h. The result is convex with |f'| <= k c^(k-1) and f'' <= k h^(k-2), and at most
    (1 - k/2) h^k above the power.

    Parameters
    ----------
    exponent : k, in (1, 2]
    residual_bound : c, in [1e-6, 1e6], in the unit of encoded targets
    smoothing : h, 0 or in [1e-6, c], in the unit of encoded targets

    Deviation: the power itself has no slope bound on an unbounded domain, so the residual is clipped at the public
    c = `residual_bound`, as in `squared`.
    """

    takes: ClassVar[Literal["number"]] = "number"

    exponent: float = 1.5
    residual_bound: float = 1.0
    smoothing: float = 0.0
    name: Literal["power"] = "power"

    def __post_init__(self) -> None:
        if within(self.exponent, "exponent", 1, 2) == 1:
            raise OutOfRange("exponent must lie in (1, 2]")
        within(self.residual_bound, "residual_bound", 1e-6, 1e6)
        zero_or_within(self.smoothing, "smoothing", 1e-6, self.residual_bound)

    @property
    def slope_bound(self) -> float:
        """Slope bound k c^(k-1)."""
        return self.exponent * math.pow(self.residual_bound, self.exponent - 1)

    @property
    def curvature_bound(self) -> float:
        """Curvature bound: 2 for k = 2, k h^(k-2) with smoothing, and otherwise infinite, near a residual of 0."""
        if self.exponent == 2:
            return 2.0
        return self.exponent * math.pow(self.smoothing, self.exponent - 2) if self.smoothing > 0 else math.inf

    @staticmethod
    def derivative(m: float, y: float, exponent: float, residual_bound: float, smoothing: float) -> float:
        """Return k clip(|m - y|, c)^(k-1) sign(m - y), which is linear below h."""
        size = abs(m - y)
        if size < smoothing:
            return (m - y) * math.pow(smoothing, exponent - 2.0) * exponent
        signed = exponent * (m > y) - exponent * (m < y)
        return math.pow(min(size, residual_bound), exponent - 1.0) * signed

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        r, k, h = np.abs(margin - y), self.exponent, self.smoothing
        inside = np.minimum(r, self.residual_bound)
        parabola = k / 2 * h ** (k - 2) * inside**2 + (1 - k / 2) * h**k if h > 0 else 0.0
        return np.where(r < h, parabola, inside**k) + self.slope_bound * (r - inside)
