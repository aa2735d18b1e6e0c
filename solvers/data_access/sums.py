"""Sums of clipped gradients over rows; `solvers.bounds` has their per-record bounds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers import kernels
from solvers.bounds import FARTHEST
from solvers.data_access.data import Data, Slots, Work, listed
from solvers.data_access.summed import Summed
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector


def gradient_sum(
    data: Summed,
    slots: Slots,
    w: Vector,
    anchor: Vector | None = None,
    limit: float = 0.0,
    curvature: float = 0.0,
) -> Vector:
    """Return the sum over the slots of s_i x_i', flat, with |s_i| clipped to the slope's bound or a change's limit.

    A record's gradient is its slope, a number or a vector of K, times its row, so clipping the slope clips the norm.
    With a curvature, w is the distance from the anchor, and a change of slope is clipped to between 0 and
    curvature <x_i, w>.
    """
    return data.total(Gradients(w, anchor, limit, curvature), slots)


def mean_gradient(data: Summed, w: Vector) -> Vector:
    """Return the exact grad F(w), without noise: only for answers that add noise to it."""
    slots = data.problem.slots
    return gradient_sum(data, slice(0, slots), w) / slots


@dataclass(frozen=True, slots=True, eq=False)
class Gradients(Work):
    """The sum of `gradient_sum`."""

    w: Vector
    anchor: Vector | None
    limit: float
    curvature: float

    def sum(self, data: Data, rows: Slots) -> Vector:
        """Return the sum over a piece."""
        slots, loss = listed(rows), data.problem.compiled
        if loss is None:
            return _plain_sum(data, slots, self.w, self.anchor, self.limit)
        examples = kernels.Examples(data.records, data.y, data.scale).read_only()
        w = np.ascontiguousarray(self.w)
        if self.anchor is None:
            return kernels.gradient_sum(examples, slots, w, loss)
        return kernels.change_sum(
            examples, slots, w, np.ascontiguousarray(self.anchor), loss, self.limit, self.curvature
        )


@dataclass(frozen=True, slots=True)
class RowCount(Work):
    """The number of slots that hold a row."""

    def sum(self, data: Data, rows: Slots) -> NDArray[np.int64]:
        """Return the number in a piece."""
        return np.array(np.count_nonzero(data.scale[rows]))


def _plain_sum(data: Data, slots: NDArray[np.int64], w: Vector, anchor: Vector | None, limit: float) -> Vector:
    """Return the sum over a piece for a loss of K outputs, whose slopes NumPy computes."""
    y, scale = data.y[slots], data.scale[slots]
    slopes = _slopes(data, slots, y, scale, w)
    if anchor is not None:
        slopes -= _slopes(data, slots, y, scale, anchor)
        clip(slopes, limit)
    slopes *= scale
    return np.concatenate([kernels.weighted_sum(data.records, own, slots) for own in slopes])


def _slopes(data: Data, slots: NDArray[np.int64], y: Vector, scale: Vector, w: Vector) -> Vector:
    """Return f'(scale W'x, y), clipped to its bound: (K, rows)."""
    points, loss = np.ascontiguousarray(w.reshape(data.problem.shape)), data.problem.loss
    margins = np.stack([kernels.margins_of(data.records, point, slots) for point in points])
    margins *= scale
    return clip(loss.slope(margins, y), data.problem.slope_bound)


def clip(slopes: Vector, bound: float) -> Vector:
    """Clip each record's slope, a column, to the l2 norm `bound` > 0, in place."""
    norms = np.sqrt(np.einsum("kn,kn->n", slopes, slopes))
    slopes *= bound / np.maximum(norms, bound)
    return slopes


def center(problem: Problem, moved: Vector, share: float) -> Vector:
    """Return (L/2) u (1 - share), which is added back to centred changes of a batch B.

    share = |B|/b, counted in rows.
    """
    return (problem.L / 2 * (1 - share)) * moved


def checked_norm(problem: Problem, w: Vector) -> float:
    """Return ||w||. Raise `Unsuitable` if w has a wrong shape, or is so long that a margin could overflow."""
    if w.shape != (problem.size,):
        raise Unsuitable("w must have one coordinate for each column and each of the loss's outputs")
    norm = kernels.length(np.ascontiguousarray(w))
    if not norm <= FARTHEST:
        raise Unsuitable("w must be finite and of norm at most 1e100")
    return norm
