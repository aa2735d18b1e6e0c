"""Half the squared residual, with the residual clipped."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.numbers import within
from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class Squared(OneMargin):
    """Half the squared, clipped residual: f(m, y) = (m - y)^2 / 2 if |m - y| <= c, else c |m - y| - c^2 / 2.

    |f'| <= c and f'' <= 1.

    Parameters
    ----------
    residual_bound : c, in [1e-6, 1e6], in the unit of encoded targets

    Deviation: the plain square has no slope bound on an unbounded domain, so the residual is clipped at the public
    c = `residual_bound` (Huber's loss). A target scaled to [-1, 1] has residuals of at most 1 at w = 0.
    """

    takes: ClassVar[Literal["number"]] = "number"
    curvature_bound: ClassVar[float] = 1.0

    residual_bound: float = 1.0
    name: Literal["squared"] = "squared"

    def __post_init__(self) -> None:
        within(self.residual_bound, "residual_bound", 1e-6, 1e6)

    @property
    def slope_bound(self) -> float:
        """Slope bound c."""
        return self.residual_bound

    @staticmethod
    def derivative(m: float, y: float, residual_bound: float) -> float:
        """Return clip(m - y, -c, c)."""
        return min(max(m - y, -residual_bound), residual_bound)

    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""
        r, c = np.abs(margin - y), self.residual_bound
        return np.where(r <= c, np.minimum(r, c) ** 2 / 2, c * r - c * c / 2)
