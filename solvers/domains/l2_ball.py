"""The Euclidean ball around 0."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.domains.ball import Ball


@dataclass(frozen=True, slots=True)
class L2Ball(Ball):
    """Euclidean ball: C = {w : ||w||_2 <= radius}.

    Parameters
    ----------
    radius : in [1e-6, 1e6]
    """

    name: Literal["l2_ball"] = "l2_ball"

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest point of the ball, by the same operations inside and outside."""
        return w * (self.radius / max(float(np.linalg.norm(w)), self.radius))
