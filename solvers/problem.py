"""min over w in C of F(w) + r(w), F(w) = (1/n) sum_i f(<x_i, w>, y_i): what is public about it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.domains import Domain, Free
from solvers.errors import Unsuitable
from solvers.losses import Loss
from solvers.regularizers import NoRegularizer, Regularizer

Vector = NDArray[np.float64]
MAX_DIMENSION = 1_000_000
MAX_ROWS = 10**10


@dataclass(frozen=True, slots=True)
class Problem:
    """Public facts only: loss, regularizer, domain, n, d and the bound R on each row's l2 norm.

    Parameters
    ----------
    loss, regularizer, domain : see their packages
    n : rows, public
    d : coordinates of w, a constant column included if there is one
    row_norm : R > 0; rows are clipped to it

    Raises
    ------
    Unsuitable
        if a number is out of range.

    Symbols: G = R sup|f'| bounds one record's gradient (l2), L = R^2 sup f'' the smoothness of every f_i, mu the strong
    convexity of r.
    """

    loss: Loss
    regularizer: Regularizer = NoRegularizer()
    domain: Domain = Free()
    n: int = 0
    d: int = 0
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        if type(self.n) is not int or not 1 <= self.n <= MAX_ROWS:
            raise Unsuitable("n must be a positive integer")
        if type(self.d) is not int or not 1 <= self.d <= MAX_DIMENSION:
            raise Unsuitable("d must be a positive integer")
        if not (math.isfinite(self.row_norm) and 0 < self.row_norm <= 1e6):
            raise Unsuitable("row_norm must lie in (0, 1e6]")

    @property
    def G(self) -> float:
        """The bound on one record's gradient."""
        return self.loss.slope_bound * self.row_norm

    @property
    def L(self) -> float:
        """The smoothness of each record's loss, hence of F."""
        return self.loss.curvature_bound * self.row_norm**2

    @property
    def mu(self) -> float:
        """The strong convexity of r."""
        return self.regularizer.strong_convexity

    @property
    def start(self) -> Vector:
        """The public starting point, 0 projected on C."""
        return self.domain.project(np.zeros(self.d))

    def prox(self, w: Vector, step: float) -> Vector:
        """argmin over u in C of step r(u) + ||u - w||^2 / 2.

        The regularizer's prox, then the projection: exact because both are radial here.
        """
        return self.domain.project(self.regularizer.prox(w, step))
