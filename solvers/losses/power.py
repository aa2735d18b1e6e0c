"""A power of the residual, with the residual clipped."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.privacy import finite
from solvers.losses.targets import numbers


@dataclass(frozen=True, slots=True)
class Power:
    """f(m, y) = |m - y|^k where |m - y| <= c, and c^k + k c^(k-1) (|m - y| - c) beyond;  |f'| <= k c^(k-1).

    Convex. f'' = k (k - 1) |m - y|^(k-2) has no bound near 0 unless k = 2, where it is 2.

    Parameters
    ----------
    exponent : k, in (1, 2]
    residual_bound : c, in [1e-6, 1e6], in the unit of the target

    Deviation: the power itself has no slope bound on an unbounded domain, so the residual is clipped at the public
    c = `residual_bound`, as in `squared`.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["number"]] = "number"
    outputs: ClassVar[int] = 1

    exponent: float = 1.5
    residual_bound: float = 1.0
    name: Literal["power"] = "power"

    def __post_init__(self) -> None:
        if not 1 < finite(self.exponent, "exponent") <= 2:
            raise ValueError("exponent must lie in (1, 2]")
        if not 1e-6 <= finite(self.residual_bound, "residual_bound") <= 1e6:
            raise ValueError("residual_bound must lie in [1e-6, 1e6]")

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return self.exponent * math.pow(self.residual_bound, self.exponent - 1)

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2; infinite for k < 2, near a residual of 0."""
        return 2.0 if self.exponent == 2 else math.inf

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
        return inside**self.exponent + self.slope_bound * (r - inside)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm = k clip(|m - y|, c)^(k-1) sign(m - y), elementwise, as a new array."""
        r = margin - y
        slopes = np.minimum(np.abs(r), self.residual_bound) ** (self.exponent - 1)
        slopes *= self.exponent * np.sign(r)
        return slopes
