"""The cross-polytope around 0."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.domains.ball import Ball
from solvers.domains.simplex import onto_simplex


@dataclass(frozen=True, slots=True)
class L1Ball(Ball):
    """l1 ball: C = {w : ||w||_1 <= radius}. Proofs: docs/proofs/domains.md.

    Parameters
    ----------
    radius : in [1e-6, 1e6]
    """

    name: Literal["l1_ball"] = "l1_ball"

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest point of the ball, by one sort, inside and outside."""
        sizes = np.abs(w)
        return np.sign(w) * np.where(sizes.sum() <= self.radius, sizes, onto_simplex(sizes, self.radius))
