"""No regularizer."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class NoRegularizer:
    """No penalty: r(w) = 0."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["none"] = "none"

    @property
    def strong_convexity(self) -> float:
        """Strong convexity, 0."""
        return 0.0

    def value(self, w: NDArray[np.float64]) -> float:  # noqa: ARG002
        """Return 0."""
        return 0.0

    def prox(self, w: NDArray[np.float64], step: float) -> NDArray[np.float64]:  # noqa: ARG002
        """Return w."""
        return w
