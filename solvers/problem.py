"""min over w in C of F(w) + r(w), F(w) = (1/n) sum_i f(<x_i, w>, y_i): what is public about it.

Where a record is a person of up to k rows, F(w) = (1/n) sum_p (1/k) sum over p's rows of f: docs/proofs/persons.md.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite
from accounting.privacy import REPLACE_ONE, Relation, Unit
from solvers import kernels
from solvers.columns import Columns
from solvers.domains import Domain, Free, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Loss
from solvers.regularizers import NoRegularizer, Regularizer

Vector = NDArray[np.float64]
MAX_DIMENSION, MAX_ROWS = 1_000_000, 10**10


@dataclass(frozen=True, slots=True)
class Problem:
    """Public facts only: loss, regularizer, domain, n, d and the bound R on each row's l2 norm.

    w has one coordinate per column of X, and for a loss of K outputs K such blocks, one after another: the columns of
    W, whose margins are W'x. Regularizer and domain act on the flat w.

    Where slopes are limited, f' stands for f' shortened to a share c of its bound: for one margin the derivative of the
    convex function that is f where |f'| <= c sup|f'| and straight beyond (docs/proofs/limited_slopes.md).

    Symbols: G = R c sup||f'|| bounds the l2 norm of one record's gradient; L = R^2 sup||f''|| is the smoothness of
    every record's loss, hence of F, and infinite if f is not smooth (a smooth r has its own constant and is not in it);
    mu is the strong convexity of r; k = `unit.slots`.

    Parameters
    ----------
    loss, regularizer, domain : see their packages
    n : records, public
    d : columns of X, a constant column included if there is one
    row_norm : R, in [1e-6, 1e6], in the unit of the encoded features; longer rows are scaled down to it
    columns : how a row is laid out, if that is declared; a row of another layout counts as an empty one
    slope_limit : c, in [1e-6, 1]; 1 limits nothing
    stretch : how many times longer than R what is added up for a record may be before it is centred: 1, or more in a
        released frame, which says it. Only the rounding that noise must cover follows it
    moments : (means, variances, noise stds) of the declared columns if they were released before: see preparation
    relation : which datasets are neighbors
    unit : what a record is: a row, or a person, whose places for rows may be empty

    Raises
    ------
    Unsuitable, OutOfRange
        if a number is not one or is out of range, or the domain is a single point.
    """

    loss: Loss
    regularizer: Regularizer = field(default_factory=NoRegularizer)
    domain: Domain = field(default_factory=Free)
    n: int = field(kw_only=True)
    d: int = field(kw_only=True)
    row_norm: float = field(kw_only=True)
    columns: Columns | None = field(default=None, kw_only=True)
    slope_limit: float = field(default=1.0, kw_only=True)
    stretch: float = field(default=1.0, kw_only=True)
    moments: tuple[tuple[float, ...], ...] | None = field(default=None, kw_only=True)
    relation: Relation = field(default=REPLACE_ONE, kw_only=True)
    unit: Unit = field(default=Unit(), kw_only=True)

    def __post_init__(self) -> None:
        if type(self.n) is not int or not 1 <= self.n <= MAX_ROWS:
            raise Unsuitable(f"n must be an integer in [1, {MAX_ROWS}]")
        if self.n * self.unit.slots > MAX_ROWS:
            raise Unsuitable(f"n times max_rows must not exceed {MAX_ROWS}")
        if type(self.d) is not int or not 1 <= self.d <= MAX_DIMENSION:
            raise Unsuitable(f"d must be an integer in [1, {MAX_DIMENSION}]")
        if self.relation not in ("replace_one", "zero_out"):
            raise Unsuitable("relation must be replace_one or zero_out")
        if self.columns is not None and self.columns.d != self.d:
            raise Unsuitable("the declared columns do not make rows of length d")
        if self.moments is not None and (self.columns is None or len(self.moments[0]) != self.d - 1):
            raise Unsuitable("moments are those of declared columns, one for each coordinate but the constant")
        if not 1e-6 <= finite(self.row_norm, "row_norm") <= 1e6:
            raise Unsuitable("row_norm must lie in [1e-6, 1e6]")
        if not 1e-6 <= finite(self.slope_limit, "slope_limit") <= 1:
            raise Unsuitable("slope_limit must lie in [1e-6, 1]")
        if not finite(self.stretch, "stretch") >= 1:
            raise Unsuitable("stretch is at least 1")
        if self.size > MAX_DIMENSION:
            raise Unsuitable(f"d times the number of classes must not exceed {MAX_DIMENSION}")
        if self.domain.diameter(self.size) == 0:
            raise Unsuitable("the domain is a single point: there is nothing to learn")

    @property
    def places(self) -> int:
        """n k, the places for rows: all that sums, and times, know of how many rows there are."""
        return self.n * self.unit.slots

    @property
    def outputs(self) -> int:
        """K, the margins of a record; 1 but for softmax."""
        return self.loss.outputs

    @property
    def size(self) -> int:
        """d K, the coordinates of w."""
        return self.d * self.outputs

    @property
    def shape(self) -> tuple[int, ...]:
        """That of w when it is laid out by outputs: (d,) for one, (K, d) for K, a row for each class."""
        return (self.d,) if self.outputs == 1 else (self.outputs, self.d)

    @property
    def slope_bound(self) -> float:
        """c sup||f'||: to what slopes are shortened."""
        return self.slope_limit * self.loss.slope_bound

    @property
    def compiled(self) -> "kernels.Slope | None":
        """The limited slope for the compiled loops; None for a loss of several outputs."""
        slope = self.loss.compiled
        return None if slope is None else slope._replace(bound=self.slope_bound)

    @property
    def G(self) -> float:
        """The bound on the l2 norm of one record's gradient, whatever w is."""
        return self.slope_bound * self.row_norm

    @property
    def L(self) -> float:
        """The smoothness of each record's loss, hence of F; infinite if it is not smooth."""
        return self.loss.curvature_bound * self.row_norm**2

    @property
    def is_smooth(self) -> bool:
        """Whether L is finite."""
        return math.isfinite(self.L)

    @property
    def is_convex(self) -> bool:
        """Whether each record's loss is convex; every r and every C is.

        A vector slope that is shortened is no monotone map, hence no convex function's, but for two classes, where it
        has one direction.
        """
        return self.loss.is_convex and (self.slope_limit == 1 or self.outputs <= 2)

    @property
    def mu(self) -> float:
        """The strong convexity of r."""
        return self.regularizer.strong_convexity

    @property
    def start(self) -> Vector:
        """The public starting point, 0 projected on C."""
        return self.domain.project(np.zeros(self.size))

    def prox(self, w: Vector, step: float) -> Vector:
        """argmin over u in C of step r(u) + ||u - w||^2 / 2.

        Exact for every pair (docs/proofs/prox.md): regularizer, then projection; on the simplex ||u||_1 is constant, so
        that only the quadratic part of r counts.
        """
        if isinstance(self.domain, Simplex):
            return self.domain.project(w / (1 + step * self.mu))
        return self.domain.project(self.regularizer.prox(w, step))
