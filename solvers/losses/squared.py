"""Half the squared residual, with the residual clipped."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Squared:
    """f(m, y) = (m - y)^2 / 2 where |m - y| <= c, and c |m - y| - c^2 / 2 beyond;  |f'| <= c,  f'' <= 1.

    Parameters
    ----------
    residual_bound : c, in [1e-6, 1e6]

    Deviation: the plain square has no slope bound on an unbounded domain, so the residual is clipped at the public
    c = `residual_bound`; a target scaled to [-1, 1] has no residual beyond 1 at w = 0.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    residual_bound: float = 1.0
    name: Literal["squared"] = "squared"

    def __post_init__(self) -> None:
        if not 1e-6 <= self.residual_bound <= 1e6:
            raise ValueError("residual_bound must lie in [1e-6, 1e6]")

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return self.residual_bound

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2."""
        return 1.0

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """f(m, y), elementwise."""
        r, c = np.abs(margin - y), self.residual_bound
        return np.where(r <= c, r * r / 2, c * r - c * c / 2)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm, the clipped residual, elementwise."""
        return np.clip(margin - y, -self.residual_bound, self.residual_bound)
