"""A power of the residual, with the residual clipped."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from solvers.losses.targets import numbers


@dataclass(frozen=True, slots=True)
class Power:
    """f(m, y) = |m - y|^k where |m - y| <= c, and c^k + k c^(k-1) (|m - y| - c) beyond;  |f'| <= k c^(k-1).

    Convex. f'' = k (k - 1) |m - y|^(k-2) has no bound near 0 unless k = 2, where it is 2. With smoothing h > 0 the part
    |m - y| <= h gives way to the parabola (k/2) h^(k-2) (m - y)^2 + (1 - k/2) h^k, which meets it in value and slope:
    still convex with |f'| <= k c^(k-1), f'' <= k h^(k-2), and above the power by at most (1 - k/2) h^k.

    Parameters
    ----------
    exponent : k, in (1, 2]
    residual_bound : c, in [1e-6, 1e6], in the unit of the target
    smoothing : h, 0 or in [1e-6, c], in the unit of the target

    Deviation: the power itself has no slope bound on an unbounded domain, so the residual is clipped at the public
    c = `residual_bound`, as in `squared`.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["number"]] = "number"
    outputs: ClassVar[int] = 1

    exponent: float = 1.5
    residual_bound: float = 1.0
    smoothing: float = 0.0
    name: Literal["power"] = "power"

    def __post_init__(self) -> None:
        if not 1 < finite(self.exponent, "exponent") <= 2:
            raise ValueError("exponent must lie in (1, 2]")
        if not 1e-6 <= finite(self.residual_bound, "residual_bound") <= 1e6:
            raise ValueError("residual_bound must lie in [1e-6, 1e6]")
        if finite(self.smoothing, "smoothing") != 0 and not 1e-6 <= self.smoothing <= self.residual_bound:
            raise ValueError("smoothing must be 0 or lie in [1e-6, residual_bound]")

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return self.exponent * math.pow(self.residual_bound, self.exponent - 1)

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2; infinite for k < 2 without smoothing, near a residual of 0."""
        if self.exponent == 2:
            return 2.0
        if self.smoothing == 0:
            return math.inf
        return self.exponent * math.pow(self.smoothing, self.exponent - 2)

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """y, made finite."""
        return numbers(y)

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        r, c = np.abs(margin - y), self.residual_bound
        inside = np.minimum(r, c)
        powers = inside**self.exponent
        if self.smoothing > 0:
            k, h = self.exponent, self.smoothing
            parabola = k / 2 * h ** (k - 2) * inside**2 + (1 - k / 2) * h**k
            powers = np.where(r < h, parabola, powers)
        return powers + self.slope_bound * (r - inside)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = k clip(|m - y|, c)^(k-1) sign(m - y), linear below h, elementwise, as a new array."""
        r = margin - y
        slopes = np.minimum(np.abs(r), self.residual_bound) ** (self.exponent - 1)
        if self.smoothing > 0:
            h = self.smoothing
            slopes = np.where(np.abs(r) < h, np.abs(r) * h ** (self.exponent - 2), slopes)
        slopes *= self.exponent * np.sign(r)
        return slopes
