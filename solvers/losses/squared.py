"""Half the squared residual, with the residual clipped."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from solvers.losses.targets import numbers


@dataclass(frozen=True, slots=True)
class Squared:
    """f(m, y) = (m - y)^2 / 2 where |m - y| <= c, and c |m - y| - c^2 / 2 beyond;  |f'| <= c,  f'' <= 1.

    Parameters
    ----------
    residual_bound : c, in [1e-6, 1e6], in the unit of the target

    Deviation: the plain square has no slope bound on an unbounded domain, so the residual is clipped at the public
    c = `residual_bound` (Huber's loss); a target scaled to [-1, 1] has no residual beyond 1 at w = 0.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["number"]] = "number"
    outputs: ClassVar[int] = 1

    residual_bound: float = 1.0
    name: Literal["squared"] = "squared"

    def __post_init__(self) -> None:
        if not 1e-6 <= finite(self.residual_bound, "residual_bound") <= 1e6:
            raise ValueError("residual_bound must lie in [1e-6, 1e6]")

    @property
    def slope_bound(self) -> float:
        """sup |df/dm|."""
        return self.residual_bound

    @property
    def curvature_bound(self) -> float:
        """sup d^2f/dm^2."""
        return 1.0

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
        return np.where(r <= c, np.minimum(r, c) ** 2 / 2, c * r - c * c / 2)

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """df/dm, the clipped residual, elementwise, as a new array."""
        residuals = margin - y
        return np.clip(residuals, -self.residual_bound, self.residual_bound, out=residuals)
