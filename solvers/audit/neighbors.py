"""Two neighboring datasets that an attacker compares: a worst-case pair of records among records that are all alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.frame import Frame
from solvers.problem import Problem, Vector


@dataclass(frozen=True, eq=False)
class Row:
    """A record; the null record, if `is_null`, consists of zeros and counts nowhere.

    `x` and `y` may be those of all rows for an attacker that computes sums from the data.
    """

    x: Vector
    y: float | Vector
    is_null: bool = False

    def slope(self, problem: Problem, w: Vector) -> Vector:
        """Return the slope of its loss at w: a number, of shape (), or one for each output."""
        return np.asarray(slopes(problem, [self], w[None])[..., 0, 0])

    def gradient(self, problem: Problem, w: Vector) -> Vector:
        """Return the gradient of its loss at w."""
        gradient: Vector = gradients(problem, [self], w[None])[0, 0]
        return gradient

    def framed(self, frame: Frame, row_norm: float) -> "Row":
        """Return the record in a frame, shortened to the row norm."""
        if self.is_null:
            return self
        z = frame.rows(self.x[None])[0]
        return Row(z * (row_norm / max(float(np.linalg.norm(z)), row_norm)), self.y)


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Two neighboring datasets.

    Parameters
    ----------
    rows : the two candidates for the record that differs; for a person, all their rows are alike
    data : the dataset with either candidate
    other_rows : every other record; None for zeros, which add no gradient
    """

    rows: tuple[Row, Row]
    data: tuple[Data, Data]
    other_rows: Row | None = None

    def seen_by(self, problem: Problem) -> "Neighbors":
        """Return the same datasets for another problem on them."""
        first, second = self.data
        return replace(self, data=(first.seen_by(problem), second.seen_by(problem)))


def neighbor(problem: Problem, row: Row, position: int = 0, other_rows: Row | None = None) -> Data:
    """Return records that are all like `other_rows`, except one at `position`, or all rows of one person."""
    X = np.zeros((problem.slots, problem.d))
    y = np.zeros(problem.slots)
    k = problem.unit.slots
    if other_rows is not None:
        X[:], y[:] = other_rows.x, other_rows.y
    own = slice(k * position, k * position + k)
    X[own], y[own] = row.x, row.y
    present = np.ones(problem.slots, np.bool_) if problem.unit.is_person else None
    data = inputs.of_arrays(X, y, problem, present)
    return without(data, own) if row.is_null else data


def without(data: Data, index: slice | int) -> Data:
    """Return the data with null records at the index."""
    scale = data.scale.copy()
    scale[index] = 0.0
    return replace(data, scale=scale)


def slopes(problem: Problem, rows: Sequence[Row], points: Vector) -> Vector:
    """Return the slope of each row at each of the points, (m, size): shape (m, rows), or (K, m, rows) with K outputs.

    All slopes take one call of the loss, because most of the time of an audit is spent on calls.
    """
    X = np.array([row.x for row in rows])
    y = np.tile([row.y for row in rows], len(points))
    margins = np.moveaxis(points.reshape(len(points), *problem.shape) @ X.T, 0, -2)
    values = problem.loss.slope(margins.reshape(*margins.shape[:-2], -1), y).reshape(margins.shape)
    norms = np.abs(values) if values.ndim == 2 else np.linalg.norm(values, axis=0)
    return np.asarray(values * (problem.slope_bound / np.maximum(norms, problem.slope_bound)))


def gradients(problem: Problem, rows: Sequence[Row], points: Vector) -> Vector:
    """Return the gradient of each row at each of the points, shape (rows, m, size)."""
    values = slopes(problem, rows, points)
    X = np.array([row.x for row in rows])
    products = np.einsum("...mr,rd->rm...d", values, X)
    return np.asarray(products.reshape(len(rows), len(points), problem.size))
