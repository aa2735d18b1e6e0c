"""The simplex."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.domains.ball import Ball


@dataclass(frozen=True, slots=True)
class Simplex(Ball):
    """Simplex: C = {w : w_i >= 0 for every i, sum of w_i = radius}. Proofs: docs/proofs/domains.md.

    C is not symmetric around 0 and has no interior. Theorems that need these properties do not hold on it.

    Parameters
    ----------
    radius : in [1e-6, 1e6]; 1 makes w a distribution
    """

    radius: float = 1.0
    name: Literal["simplex"] = "simplex"

    def diameter(self, dimension: int) -> float:
        """Return the largest ||u - w||_2 = radius sqrt(2), between two vertices; 0 if d = 1."""
        return self.radius * math.sqrt(2) if dimension > 1 else 0.0

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest point of the simplex, by one sort."""
        return onto_simplex(w, self.radius)


def onto_simplex(w: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Return the nearest point of the simplex: max(w - theta, 0), with theta such that the sum is radius.

    theta is the largest (sum of the k largest w_i - radius) / k over k.

    Reference: Held, Wolfe and Crowder 1974; Duchi et al. 2008, Figure 1. Deviation: the largest coordinate is first
    subtracted from w, which shifts theta by as much, so that large coordinates do not absorb the radius.
    """
    shifted = np.maximum(w - w.max(), -radius)  # theta >= -radius now, so lower coordinates end at 0 in any case
    means = (np.cumsum(np.sort(shifted)[::-1]) - radius) / np.arange(1, len(w) + 1)
    nearest: NDArray[np.float64] = np.maximum(shifted - means.max(), 0.0)
    return nearest
