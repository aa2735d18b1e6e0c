"""Multinomial logistic regression, f(m, y) = logsumexp(m) - m_y, for K classes."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import whole
from solvers.errors import Unsuitable

MOST_CLASSES = 2**16
_LEAST_EXPONENT = -300.0  # that of the loops (`solvers.kernels.exponential`), which avoids subnormal numbers


@dataclass(frozen=True, slots=True)
class Softmax:
    """Multinomial logistic loss: f(m, y) = ln(sum_k e^(m_k)) - m_y.

    df/dm = p - e_y with ||df/dm|| < sqrt(2), and d2f/dm2 = diag(p) - p p' <= 1/2. m = W'x has one margin per class,
    p_k = e^(m_k) / sum_j e^(m_j), and y is a class in {0, ..., K-1}. The loss is convex and smooth. Both bounds are the
    smallest that hold for every m and y: docs/proofs/softmax.md.

    Parameters
    ----------
    classes : K, in [2, 65536]; None leaves it open, to be filled in from the target's declaration

    Arrays: margins and slopes of shape (K, n), a column for each record; y of shape (n,), float64.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["class"]] = "class"
    is_convex: ClassVar[bool] = True
    slope_bound: ClassVar[float] = math.sqrt(2)  # of ||df/dm||_2, not attained
    curvature_bound: ClassVar[float] = 0.5  # of ||d2f/dm2||_2, attained where two classes have probability 1/2 each
    compiled: ClassVar[None] = None

    classes: int | None = None
    name: Literal["softmax"] = "softmax"

    def __post_init__(self) -> None:
        if self.classes is not None:
            whole(self.classes, "classes", 2, MOST_CLASSES)

    @property
    def outputs(self) -> int:
        """Number of classes, K.

        Raises
        ------
        Unsuitable
            if `classes` is None.
        """
        if self.classes is None:
            raise Unsuitable("softmax: classes is not set, so the number of outputs is unknown. Set classes")
        return self.classes

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return y if it is one of 0, ..., K-1, else 0 (also for NaN)."""
        is_class = (y >= 0) & (y < self.outputs) & (y == np.floor(y))
        classes: NDArray[np.float64] = np.where(is_class, y, 0.0)
        return classes

    def value(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return f(m, y) for each column of (K, n) margins, shape (n,)."""
        below = margin - margin.max(axis=0)
        value: NDArray[np.float64] = np.log(np.exp(below).sum(axis=0)) - below[_at(y)]
        return value

    def slope(self, margin: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return df/dm = p - e_y for each column of (K, n) margins, as a new array; every p is at least e^-300 / K."""
        # exponents are at most 0, and 0 for some class, so nothing overflows and the sum of exponentials is in [1, K]
        slopes: NDArray[np.float64] = np.maximum(margin - margin.max(axis=0), _LEAST_EXPONENT)
        np.exp(slopes, out=slopes)
        slopes /= slopes.sum(axis=0)
        slopes[_at(y)] -= 1.0
        return slopes


def _at(y: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the index of each record's class in a (K, n) array."""
    return y.astype(np.intp), np.arange(len(y))
