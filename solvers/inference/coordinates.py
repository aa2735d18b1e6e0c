"""Coordinates of a regression table, functions of released numbers: rare levels are left out, correlations removed.

Proof: docs/proofs/regression_table.md. Reference: docs/spec 27.3.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting.privacy import REPLACE_ONE, sensitivity_factor
from solvers import moment_bounds
from solvers.full_frame import FullFrame
from solvers.preparation.moments import Moments, columns_of
from solvers.problem import Problem, Vector

Matrix = NDArray[np.float64]

SQUARED_ROW_LIMIT = 2.0
"""Squared norm to which rows are shortened for the second moments."""

_FLOOR_STDS = 2.0  # to which variances are raised, and below which a level is left out
_LEAST_ROWS = 8.0  # in noise stds of a curvature's entry; a level with fewer rows is left out
_LEAST_CORRELATION = 0.02  # eigenvalues of the correlations are raised to it
_LEAST_SHARE = 0.3  # of the mean weight


@dataclass(frozen=True, slots=True)
class Stds:
    """Noise stds of the answers of a plan, without their rounding.

    Parameters
    ----------
    problem : the problem
    multiplier : the noise multiplier of a query
    """

    problem: Problem
    multiplier: Callable[[str], float]

    def of_number(self, query: str, largest: float) -> float:
        """Return the std of a mean of numbers in [0, largest]."""
        return self.of_vector(query, largest / sensitivity_factor(self.problem.relation))

    def of_vector(self, query: str, bound: float) -> float:
        """Return the std of an entry of a mean of vectors that one record moves by at most `bound`."""
        return self.multiplier(query) * bound / self.problem.n

    def of_matrix(self, query: str, trace: float) -> float:
        """Return the std of a diagonal entry of a mean of positive semidefinite matrices of at most this trace."""
        return self.of_vector(query, trace / math.sqrt(sensitivity_factor(self.problem.relation)))


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The coordinates u = L x + o of a table, and what is known about the rows in them.

    Parameters
    ----------
    frame : L, o, and the levels that have a weight
    transform : W, of the coordinates of the first frame
    second : second moments of u per slot, with the likely norm of their noise on the diagonal
    second_estimate : second moments of u per slot
    mean : released mean of u
    weight : released mean weight of a slot
    """

    frame: FullFrame
    transform: Matrix
    second: Matrix
    second_estimate: Matrix
    mean: Vector
    weight: float

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.frame.size

    @property
    def covariance(self) -> Matrix:
        """Bound on the covariance of u over rows."""
        return raised(self.second / self.weight - np.outer(self.mean, self.mean), 0.0)

    @property
    def estimated(self) -> "Coordinates":
        """The same coordinates, with the estimate of the second moments in place of their bound."""
        return replace(self, second=self.second_estimate)

    def constant(self, value: float) -> Vector:
        """Return w whose margins are `value` for every row."""
        last = np.zeros(self.size)
        last[-1] = value * math.sqrt(self.size)
        return np.asarray(np.linalg.solve(self.transform.T, last))


def levels_with_weight(problem: Problem, moments: Moments, share: float, stds: Stds) -> NDArray[np.bool_]:
    """Return whether each coded value is a number, or a level that enough rows are in by released counts, (d - 1,)."""
    columns, relation = columns_of(problem), problem.relation
    if not columns.widths:
        return np.ones(0, dtype=np.bool_)
    curvature_mu = sensitivity_factor(relation) / stds.multiplier("curvature")
    minimum = _LEAST_ROWS * problem.unit.slots / curvature_mu / (1.0 if relation == REPLACE_ONE else math.sqrt(2))
    rows = problem.slots * share
    means_std = stds.of_vector("means", moment_bounds.means(columns, relation, problem.unit)) / share
    center = np.array(moments.center)
    has_weight = np.ones(problem.d - 1, dtype=np.bool_)
    for start, width in zip(columns.starts.tolist(), columns.widths, strict=True):
        if width > 1:
            own = center[start : start + width]
            is_rare = rows * own < max(minimum, _FLOOR_STDS * means_std * rows)
            is_rare[np.argmax(own)] &= not is_rare.all()
            has_weight[start : start + width] = ~is_rare
    return has_weight


def first_frame(problem: Problem, moments: Moments, share: float, stds: Stds) -> FullFrame:
    """Return coordinates of mean square about 1 together: numbers standardized, levels of a category on a basis.

    A category with k' levels has k' - 1 coordinates, the contrasts of its levels. No level is special.
    """
    columns = columns_of(problem)
    center = np.array(moments.center)
    variances = moments.floored(_FLOOR_STDS)
    has_weight = levels_with_weight(problem, moments, share, stds)
    levels = [np.flatnonzero(has_weight[s : s + w]) + s for s, w in zip(columns.starts, columns.widths, strict=True)]
    size = 1 + sum(max(len(own) - 1, w == 1) for own, w in zip(levels, columns.widths, strict=True))
    matrix = np.zeros((size, problem.d - 1))
    shift = np.zeros(problem.d - 1)
    row = 0
    for own, width in zip(levels, columns.widths, strict=True):
        if width == 1:
            matrix[row, own] = 1 / np.sqrt(size * variances[own])
            shift[own] = center[own]
            row += 1
            continue
        shares = np.maximum(center[own], 1e-12)
        shift[own] = shares / shares.sum()
        scale = np.minimum(1 / np.sqrt(size * shift[own]), 1.0)
        basis = complement(1 / scale)
        matrix[row : row + len(own) - 1, own] = basis.T * scale
        row += len(own) - 1
    offset = -matrix @ shift
    offset[-1] += 1 / math.sqrt(size)
    return FullFrame(matrix, offset, has_weight)


def complement(normal: Vector) -> Matrix:
    """Return an orthonormal basis of the complement of a positive vector, (k, k - 1), by a Householder reflection."""
    v = normal / np.linalg.norm(normal)
    v[0] += 1.0
    reflection = np.eye(len(v)) - 2 * np.outer(v, v) / (v @ v)
    return np.asarray(reflection[:, 1:])


def decorrelated(first: FullFrame, second: Matrix, std: float, share: float) -> Coordinates:
    """Return the coordinates of `first` with their correlations removed; each keeps its size.

    Parameters
    ----------
    second : noisy second moments in the first frame
    std : noise std of their diagonal
    share : released share of slots that hold a row
    """
    size = first.size
    noise_norm = std * math.sqrt(2 * size)
    estimate = raised(second, 0.0)
    bound = estimate + noise_norm * np.eye(size)
    scale = np.sqrt(np.diag(bound))
    values, vectors = np.linalg.eigh(bound / np.outer(scale, scale))
    root = (vectors / np.sqrt(np.maximum(values, _LEAST_CORRELATION))) @ vectors.T
    transform = scale[:, None] * root / scale[None, :]
    weight = min(max(float(second[-1, -1]) * size, _LEAST_SHARE * share), 1.0)
    mean = transform @ second[:, -1] * math.sqrt(size) / weight
    frame = FullFrame(transform @ first.matrix, transform @ first.offset, first.has_weight)
    known_moments = transform @ bound @ transform.T, transform @ estimate @ transform.T
    return Coordinates(frame, transform, *known_moments, mean, weight)


def raised(matrix: Matrix, minimum: float) -> Matrix:
    """Return the symmetric matrix with eigenvalues of at least `minimum`."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, minimum)) @ vectors.T)
