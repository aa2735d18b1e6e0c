"""The box around 0."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.domains.ball import Ball


@dataclass(frozen=True, slots=True)
class LinfBall(Ball):
    """Box: C = {w : |w_i| <= radius for every i}. Proofs: docs/proofs/domains.md.

    Parameters
    ----------
    radius : in [1e-6, 1e6]
    """

    name: Literal["linf_ball"] = "linf_ball"

    def diameter(self, dimension: int) -> float:
        """Return the largest ||u - w||_2 = 2 radius sqrt(d), between opposite corners."""
        return 2 * self.radius * math.sqrt(dimension)

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest point of the box, with each coordinate clipped."""
        return np.clip(w, -self.radius, self.radius)
