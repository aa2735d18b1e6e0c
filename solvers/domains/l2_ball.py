"""The Euclidean ball around 0."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite


@dataclass(frozen=True, slots=True)
class L2Ball:
    """C = {w : ||w||_2 <= radius}.

    Parameters
    ----------
    radius : in [1e-6, 1e6]
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    radius: float
    name: Literal["l2_ball"] = "l2_ball"

    def __post_init__(self) -> None:
        if not 1e-6 <= finite(self.radius, "radius") <= 1e6:
            raise ValueError("radius must lie in [1e-6, 1e6]")

    def diameter(self, dimension: int) -> float:  # noqa: ARG002
        """sup ||u - w||_2 = 2 radius."""
        return 2 * self.radius

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest point of the ball."""
        norm = float(np.linalg.norm(w))
        return w if norm <= self.radius else w * (self.radius / norm)

    def minimize_linear(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """argmin over the ball of <g, w>; 0 if g = 0."""
        largest = float(np.abs(g).max())
        if largest == 0:
            return np.zeros_like(g)
        g = g / largest  # so that no square is too small or too large to have
        return g * (-self.radius / float(np.linalg.norm(g)))

    def minkowski_norm(self, w: NDArray[np.float64]) -> float:
        """inf {t >= 0 : w in t C} = ||w||_2 / radius."""
        return float(np.linalg.norm(w)) / self.radius

    def gaussian_width(self, dimension: int) -> float:
        """E sup <g, w> over w in C, g ~ N(0, I): radius E ||g||_2 = radius sqrt(2) Gamma((d+1)/2) / Gamma(d/2)."""
        return self.radius * math.sqrt(2) * math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
