"""The cross-polytope around 0."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from solvers.domains.simplex import onto_simplex


@dataclass(frozen=True, slots=True)
class L1Ball:
    """C = {w : ||w||_1 <= radius}. Proofs: docs/proofs/domains.md.

    Parameters
    ----------
    radius : in [1e-6, 1e6]
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    radius: float
    name: Literal["l1_ball"] = "l1_ball"

    def __post_init__(self) -> None:
        if not 1e-6 <= finite(self.radius, "radius") <= 1e6:
            raise ValueError("radius must lie in [1e-6, 1e6]")

    def diameter(self, dimension: int) -> float:  # noqa: ARG002
        """sup ||u - w||_2 = 2 radius, between opposite vertices."""
        return 2 * self.radius

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest point of the ball, by one sort."""
        sizes = np.abs(w)
        return w if sizes.sum() <= self.radius else np.sign(w) * onto_simplex(sizes, self.radius)

    def minimize_linear(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """argmin over the ball of <g, w>: the vertex against the largest |g_i|; 0 if g = 0."""
        vertex, largest = np.zeros_like(g), int(np.abs(g).argmax())
        vertex[largest] = -self.radius * np.sign(g[largest])
        return vertex

    def minkowski_norm(self, w: NDArray[np.float64]) -> float:
        """inf {t >= 0 : w in t C} = ||w||_1 / radius."""
        return float(np.abs(w).sum()) / self.radius

    def gaussian_width(self, dimension: int) -> float:
        """E sup <g, w> over w in C, g ~ N(0, I): radius E max |g_i| <= radius sqrt(2 ln(2 d))."""
        return self.radius * math.sqrt(2 * math.log(2 * dimension))
