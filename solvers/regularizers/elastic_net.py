"""The l1 norm and the squared l2 norm together."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import within
from solvers.regularizers.l1 import shrink


@dataclass(frozen=True, slots=True)
class ElasticNet:
    """Elastic net penalty: r(w) = lambda_1 ||w||_1 + (lambda_2 / 2) ||w||_2^2, added to the mean loss.

    The penalty includes the intercept.

    Parameters
    ----------
    l1 : lambda_1, in [0, 1e6]
    l2 : lambda_2, in [0, 1e6]
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    l1: float
    l2: float
    name: Literal["elastic_net"] = "elastic_net"

    def __post_init__(self) -> None:
        for field, value in (("l1", self.l1), ("l2", self.l2)):
            within(value, field, 0, 1e6)

    @property
    def strong_convexity(self) -> float:
        """Strong convexity, lambda_2."""
        return self.l2

    def value(self, w: NDArray[np.float64]) -> float:
        """Return r(w)."""
        return self.l1 * float(np.abs(w).sum()) + self.l2 / 2 * float(w @ w)

    def prox(self, w: NDArray[np.float64], step: float) -> NDArray[np.float64]:
        """Return argmin_u step r(u) + ||u - w||^2 / 2: w shrunk by step lambda_1, divided by 1 + step lambda_2."""
        return shrink(w, step * self.l1) / (1 + step * self.l2)
