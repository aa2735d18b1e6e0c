"""The box around 0."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite


@dataclass(frozen=True, slots=True)
class LinfBall:
    """C = {w : |w_i| <= radius for every i}. Proofs: docs/proofs/domains.md.

    Parameters
    ----------
    radius : in [1e-6, 1e6]
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    radius: float
    name: Literal["linf_ball"] = "linf_ball"

    def __post_init__(self) -> None:
        if not 1e-6 <= finite(self.radius, "radius") <= 1e6:
            raise ValueError("radius must lie in [1e-6, 1e6]")

    def diameter(self, dimension: int) -> float:
        """sup ||u - w||_2 = 2 radius sqrt(d), between opposite corners."""
        return 2 * self.radius * math.sqrt(dimension)

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest point of the box: each coordinate clipped."""
        return np.clip(w, -self.radius, self.radius)
