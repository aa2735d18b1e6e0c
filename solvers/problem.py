"""The public facts of a problem: min over w in C of F(w) + r(w), with F(w) = (1/n) sum_i f(<x_i, w>, y_i).

If a record is a person with up to k rows, F(w) = (1/n) sum_p (1/k) sum over p's rows of f: docs/proofs/persons.md.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import finite, whole
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
    """The public facts of a problem: loss, regularizer, domain, n, d and the bound R on each row's l2 norm.

    w has one coordinate for each column of X. A loss of K outputs has K such blocks, one after another: the columns of
    W, whose margins are W'x. Regularizer and domain act on the flat w.

    If slopes are limited, f' is shortened to a share c of its bound. For one margin this is the derivative of a convex
    function: f where |f'| <= c sup|f'|, and straight lines beyond (docs/proofs/limited_slopes.md).

    Symbols: G = R c sup||f'|| bounds the l2 norm of one record's gradient. L = R^2 sup||f''|| is the smoothness of
    every record's loss, hence of F; it is infinite if f is not smooth, and a smooth r does not add to it. mu is the
    strong convexity of r. k = `unit.slots`.

    Parameters
    ----------
    loss, regularizer, domain : see their packages
    n : number of records, public
    d : number of columns of X, including a constant column if there is one
    row_norm : R, in [1e-6, 1e6], in the unit of the encoded features; longer rows are scaled down to it
    columns : the declared layout of a row, if there is one; a row of another layout counts as an empty row
    slope_limit : c, in [1e-6, 1]; 1 limits nothing
    stretch : the largest length, in units of R, of a record's terms before they are centered; 1 except in a released
        frame, which sets it. It only affects the rounding that noise must cover
    moments : (means, variances, noise stds) of the declared columns if they were released before; see preparation
    relation : the neighboring relation
    unit : the meaning of a record: a row, or a person, whose slots for rows may be empty

    Raises
    ------
    Unsuitable, OutOfRange
        if a number is out of range or not a number, or the domain is a single point
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
        whole(self.n, "n", 1, MAX_ROWS)
        if self.n * self.unit.slots > MAX_ROWS:
            raise Unsuitable(f"n times max_rows must not exceed {MAX_ROWS}. Lower max_rows")
        whole(self.d, "d", 1, MAX_DIMENSION)
        if self.relation not in ("replace_one", "zero_out"):
            raise Unsuitable("relation must be replace_one or zero_out")
        if self.columns is not None and self.columns.d != self.d:
            raise Unsuitable(
                f"d is {self.d}, but the declared columns make rows of length {self.columns.d}. Set d to that"
            )
        if self.moments is not None and (self.columns is None or {len(part) for part in self.moments} != {self.d - 1}):
            raise Unsuitable(
                "moments must have one entry for each coordinate of the declared columns except the constant"
            )
        if not 1e-6 <= finite(self.row_norm, "row_norm") <= 1e6:
            raise Unsuitable("row_norm must lie in [1e-6, 1e6]")
        if not 1e-6 <= finite(self.slope_limit, "slope_limit") <= 1:
            raise Unsuitable("slope_limit must lie in [1e-6, 1]")
        if not finite(self.stretch, "stretch") >= 1:
            raise Unsuitable("stretch must be at least 1")
        if self.size > MAX_DIMENSION:
            raise Unsuitable(f"d times the number of classes must not exceed {MAX_DIMENSION}")
        if self.domain.diameter(self.size) == 0:
            raise Unsuitable("domain is a single point, so there is nothing to learn. Use a larger one")

    @property
    def slots(self) -> int:
        """n k, the number of slots for rows: sums and times depend on it, and never on the number of rows."""
        return self.n * self.unit.slots

    @property
    def outputs(self) -> int:
        """K, the number of margins of a record; 1 for all losses but softmax."""
        return self.loss.outputs

    @property
    def size(self) -> int:
        """d K, the number of coordinates of w."""
        return self.d * self.outputs

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of w by outputs: (d,) for one output, (K, d) for K outputs, with a row for each class."""
        return (self.d,) if self.outputs == 1 else (self.outputs, self.d)

    @property
    def slope_bound(self) -> float:
        """c sup||f'||, the largest norm of a slope."""
        return self.slope_limit * self.loss.slope_bound

    @property
    def compiled(self) -> "kernels.Slope | None":
        """Limited slope for the compiled loops, or None for a loss of several outputs."""
        slope = self.loss.compiled
        return None if slope is None else slope._replace(bound=self.slope_bound)

    @property
    def G(self) -> float:
        """Bound on the l2 norm of one record's gradient, for every w."""
        return self.slope_bound * self.row_norm

    @property
    def L(self) -> float:
        """Smoothness of each record's loss, hence of F; infinite if the loss is not smooth."""
        return self.loss.curvature_bound * self.row_norm**2

    @property
    def is_smooth(self) -> bool:
        """Whether L is finite."""
        return math.isfinite(self.L)

    @property
    def is_convex(self) -> bool:
        """Whether each record's loss is convex; every r and every C is convex.

        A shortened vector slope is not a monotone map, so it does not belong to a convex function. Slopes of two
        classes are an exception, because they have only one direction.
        """
        return self.loss.is_convex and (self.slope_limit == 1 or self.outputs <= 2)

    @property
    def mu(self) -> float:
        """Strong convexity of r."""
        return self.regularizer.strong_convexity

    @property
    def start(self) -> Vector:
        """Public starting point: 0, projected on C."""
        return self.domain.project(np.zeros(self.size))

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin over u in C of step r(u) + ||u - w||^2 / 2.

        This is the regularizer's prox, then the projection, which is exact for every pair (docs/proofs/prox.md). On the
        simplex ||u||_1 is constant, so only the quadratic part of r matters.
        """
        if isinstance(self.domain, Simplex):
            return self.domain.project(w / (1 + step * self.mu))
        return self.domain.project(self.regularizer.prox(w, step))
