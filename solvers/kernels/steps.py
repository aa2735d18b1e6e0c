"""The walk: many steps of variance-reduced descent in one loop, with noise and batches drawn before it."""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled
from solvers.kernels.layout import Examples, Indices, Vector, WalkAnchor, WalkConstants, WalkDraws, WalkStart
from solvers.kernels.slopes import ANSWER, INDICES, NUMBERS, SLOPE
from solvers.kernels.sums import EXAMPLES, change_sum, gradient_sum, length

# Equal to those of solvers.bounds and accounting.noise, which a test compares. Literal, since numba's cache notices
# changes in this folder alone.
FARTHEST, NEAREST, RELATIVE, ABSOLUTE = 1e100, 1e-100, 1e-12, 1e-15
FINEST, COARSEST, LARGEST = 2.0**-960, 2.0**900, 2.0**51

_GRADIENT, _CHANGE, _CENTRED_CHANGE = range(3)  # kinds of answers of a step
_SIGNS = types.Array(types.boolean, 1, "C", readonly=True)
_DRAWS = types.NamedTuple((INDICES, INDICES, NUMBERS, _SIGNS), WalkDraws)
_ANCHOR = types.NamedUniTuple(NUMBERS, 2, WalkAnchor)
_START = types.NamedTuple((types.int64, types.boolean), WalkStart)
_CONSTANTS = types.NamedTuple(
    (SLOPE, *[types.float64] * 8, types.int64, *[types.float64] * 6),
    WalkConstants,
)


@compiled(types.boolean(ANSWER, NUMBERS, _SIGNS, types.int64, types.float64))
def round_tails(out: Vector, magnitudes: Vector, is_negative: NDArray[np.bool_], first: int, scale: float) -> bool:
    """Set out_j = round(scale N_(first + j)) and return whether all are decided; an undecided one becomes NaN.

    Double precision leaves a coordinate undecided if it is too close to the middle between two integers.
    `Noise._fill` is the plain form, with the same tolerances.
    """
    is_decided = True
    for j in range(out.shape[0]):
        y = magnitudes[first + j] * scale
        rounded = np.rint(y)
        if 0.5 - abs(y - rounded) <= y * RELATIVE + ABSOLUTE * scale:
            out[j], is_decided = np.nan, False
        else:
            out[j] = -rounded if is_negative[first + j] else rounded
    return is_decided


@compiled(types.UniTuple(types.float64, 2)(types.float64, types.float64, types.float64, types.int64))
def fit(z: float, lattice_share: float, bound: float, k: int) -> tuple[float, float]:
    """Return std and spacing as `Lattice.fit` does; the spacing is 0 where that refuses."""
    std = np.nextafter(z * bound / lattice_share * (1 + 1e-12), np.inf)
    if not (bound > 0 and std < np.inf):
        return 0.0, 0.0
    spacing = 2.0 ** (math.frexp(std)[1] - 1 - k)
    return (std, spacing) if FINEST < spacing < COARSEST else (0.0, 0.0)


@compiled(types.Tuple((types.int64, types.float64))(_CONSTANTS, types.float64))
def _kind_and_bound(constants: WalkConstants, distance: float) -> tuple[int, float]:
    """Return the kind of the answer at this distance from the anchor, and what a row adds to its sum at most."""
    change = constants.smoothness * distance
    if not change <= constants.gradient_bound:
        return _GRADIENT, constants.gradient_bound
    if constants.curvature > 0.0 and distance >= NEAREST:
        return _CENTRED_CHANGE, change / 2
    return _CHANGE, min(constants.gradient_bound, change)


@compiled(types.UniTuple(types.float64, 2)(_CONSTANTS, types.int64, types.float64))
def _lattice(constants: WalkConstants, kind: int, bound: float) -> tuple[float, float]:
    """Return the std and the lattice's spacing of an answer whose rows add up to `bound` each."""
    if kind == _CENTRED_CHANGE:
        rows, sums = bound * constants.centred_row_rounding, bound * constants.centred_sum_rounding
    else:
        rows, sums = bound * constants.row_rounding, bound * constants.sum_rounding
    per_record = (rows + sums) / constants.batch_size
    return fit(constants.noise_multiplier, constants.lattice_share, per_record, constants.lattice_bits)


@compiled(ANSWER(EXAMPLES, _CONSTANTS, INDICES, NUMBERS, NUMBERS, types.int64, types.float64))
def _batch_sum(
    examples: Examples, constants: WalkConstants, rows: Indices, w: Vector, anchor: Vector, kind: int, bound: float
) -> Vector:
    """Return the sum over the rows of gradients at w, or of changes of gradients.

    For a centred change, w is the distance from the anchor.
    """
    if kind == _GRADIENT:
        return gradient_sum(examples, rows, w, constants.loss)
    curvature = constants.curvature if kind == _CENTRED_CHANGE else 0.0
    return change_sum(examples, rows, w, anchor, constants.loss, bound / constants.row_norm, curvature)


@compiled(types.Tuple((types.int64, types.float64))(
    EXAMPLES, _DRAWS, _ANCHOR, _CONSTANTS, types.Array(types.float64, 2, "C"), ANSWER, _START
))  # fmt: skip
def walk(
    examples: Examples, draws: WalkDraws, anchor: WalkAnchor, constants: WalkConstants,
    points: Vector, noise: Vector, start: WalkStart,
) -> tuple[int, float]:  # fmt: skip
    """Make the steps start.step, start.step + 1, ... of a walk, each from its own batch and noise.

    points[t + 1] is set to the point after step t; points[0] is the point before the first.

    Returns (the number of steps, 0) at the end. Before a step that it cannot make it returns (that step, s). If s > 0,
    s is the noise's scale at which some coordinates are undecided, NaN in `noise`: decide them and call again with
    `has_noise`. If s < 0, the step is out of the range of exact arithmetic.
    """
    w = points[start.step].copy()
    d = points.shape[1]
    for t in range(start.step, points.shape[0] - 1):
        moved = w - anchor.point
        reach = length(w)
        distance = length(moved)
        if not (reach <= FARTHEST and distance < np.inf):
            return t, -1.0
        kind, bound = _kind_and_bound(constants, distance)
        if bound == 0.0:
            v = anchor.snapshot.copy()
        else:
            std, spacing = _lattice(constants, kind, bound)
            if spacing == 0.0:
                return t, -1.0
            is_given = start.has_noise and t == start.step
            if not is_given and not round_tails(noise, draws.magnitudes, draws.is_negative, t * d, std / spacing):
                return t, std / spacing
            rows = draws.rows[draws.batch_ends[t] : draws.batch_ends[t + 1]]
            v = _batch_sum(
                examples, constants, rows, moved if kind == _CENTRED_CHANGE else w, anchor.point, kind, bound
            )
            correction = 0.0
            if kind == _CENTRED_CHANGE:
                present = 0.0
                for i in rows:
                    present += 1.0 if examples.scale[i] > 0.0 else 0.0
                correction = constants.smoothness / 2 * (1 - present / constants.batch_size)
            for j in range(d):
                value = v[j] / constants.batch_size + correction * moved[j]
                steps = np.rint(min(max(value / spacing, -LARGEST), LARGEST)) + noise[j] + 0.0
                v[j] = steps * spacing if kind == _GRADIENT else steps * spacing + anchor.snapshot[j]
        w = (w - constants.step * v) / constants.shrinkage
        norm = length(w)
        if norm > constants.radius:
            w *= constants.radius / norm
        points[t + 1] = w
    return points.shape[0] - 1, 0.0
