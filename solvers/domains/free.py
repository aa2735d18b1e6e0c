"""The whole space."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.errors import Unsuitable


@dataclass(frozen=True, slots=True)
class Free:
    """C = R^d."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["free"] = "free"

    def diameter(self, dimension: int) -> float:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """w."""
        return w

    def minimize_linear(self, g: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """Never: a linear function has no minimum on the whole space.

        Raises
        ------
        Unsuitable
        """
        raise Unsuitable(
            "linear minimization needs a bounded domain; the whole space is not: name a ball or the simplex"
        )

    def minkowski_norm(self, w: NDArray[np.float64]) -> float:  # noqa: ARG002
        """0."""
        return 0.0

    def gaussian_width(self, dimension: int) -> float:  # noqa: ARG002
        """Infinite."""
        return math.inf
