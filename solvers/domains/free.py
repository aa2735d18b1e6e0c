"""The whole space."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Free:
    """Unbounded domain: C = R^d."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["free"] = "free"

    def diameter(self, dimension: int) -> float:  # noqa: ARG002
        """Return infinity."""
        return math.inf

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return w."""
        return w
