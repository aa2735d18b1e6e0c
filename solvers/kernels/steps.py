"""The walk: many steps of variance-reduced descent in one loop, with noise and batches drawn before it."""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from solvers.kernels.build import compiled
from solvers.kernels.records import RECORDS, Records, add_entries, add_records, entries, inward, margins, outward
from solvers.kernels.slopes import ANSWER, NUMBERS, PLACES, SLOPE, Slope, Vector, slopes
from solvers.kernels.sums import length

Walk = tuple[float, ...]
"""What `walk` knows that is public: L, G, R, the batch's fixed size, two factors of the bound's rounding, the noise
multiplier, two numbers of the lattice, the step, what it is divided by, the radius; the loss's curvature where changes
are centred, else 0, and the two factors of a centred change's bound."""

# Those of solvers.bounds and of accounting.noise, which a test holds; literal, since the cache sees this folder alone.
FARTHEST, NEAREST, RELATIVE, ABSOLUTE = 1e100, 1e-100, 1e-12, 1e-15
FINEST, COARSEST, LARGEST = 2.0**-960, 2.0**900, 2.0**51

_FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
_WALK = types.UniTuple(types.float64, 15)


@compiled(types.boolean(ANSWER, NUMBERS, _FLAGS, types.int64, types.float64))
def round_tails(out: Vector, sizes: Vector, negative: NDArray[np.bool_], first: int, scale: float) -> bool:
    """out_j = round(scale N_(first + j)), or NaN where the size leaves it open; whether all are closed.

    The plain form is `Noise._fill`, with the same tolerances.
    """
    closed = True
    for j in range(out.shape[0]):
        y = sizes[first + j] * scale
        rounded = np.rint(y)
        if 0.5 - abs(y - rounded) <= y * RELATIVE + ABSOLUTE * scale:
            out[j], closed = np.nan, False
        else:
            out[j] = -rounded if negative[first + j] else rounded
    return closed


@compiled(types.UniTuple(types.float64, 2)(types.float64, types.float64, types.float64, types.int64))
def fit(z: float, kept: float, bound: float, k: int) -> tuple[float, float]:
    """Std and spacing as `Lattice.fit` has them; a spacing of 0 where it refuses."""
    std = np.nextafter(z * bound / kept * (1 + 1e-12), np.inf)
    if not (bound > 0 and std < np.inf):
        return 0.0, 0.0
    spacing = 2.0 ** (math.frexp(std)[1] - 1 - k)
    return (std, spacing) if FINEST < spacing < COARSEST else (0.0, 0.0)


@compiled(
    types.Tuple((types.int64, types.float64))(
        RECORDS, NUMBERS, NUMBERS, SLOPE, PLACES, PLACES, NUMBERS, _FLAGS, ANSWER, types.int64, types.boolean,
        NUMBERS, NUMBERS, NUMBERS, types.Array(types.float64, 2, "C"), _WALK,
    )
)  # fmt: skip
def walk(
    records: Records, y: Vector, scale: Vector, loss: Slope, ends: NDArray[np.int64], places: NDArray[np.int64],
    sizes: Vector, negative: NDArray[np.bool_], noise: Vector, start: int, given: bool,
    w: Vector, anchor: Vector, snapshot: Vector, points: Vector, public: Walk,
) -> tuple[int, float]:  # fmt: skip
    """Steps start, start + 1, ... of a `Walk`, each from its own batch and tails; points[t] follows step t.

    Returns (the number of points, 0) at the end. Before a step that it cannot make it returns (that step, s): s > 0 is
    the noise's scale at which some coordinates are open, NaN in `noise`; call again with `noise` closed and `given`.
    s < 0: the step is out of the range of exact arithmetic.
    """
    L, G, R, size, long, summing, z, kept, k, step, shrink, radius, curvature, centred_long, centred_summing = public
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    d, w, old = w.shape[0], w.copy(), inward(records, anchor)
    total, at = np.zeros(old.shape[0] + 8), np.empty(1, np.int64)
    m, a, target, short = np.empty(1), np.empty(1), np.empty(1), np.empty(1)
    for t in range(start, points.shape[0]):
        moved = w - anchor
        reach, distance = length(w), length(moved)
        if not (reach <= FARTHEST and distance < np.inf):
            return t, -1.0
        near = L * distance <= G
        centred = near and curvature > 0.0 and distance >= NEAREST
        bound = L * distance / 2 if centred else min(G, L * distance) if near else G
        if bound == 0.0:
            v = snapshot.copy()
        else:
            own, adding = (centred_long, centred_summing) if centred else (long, summing)
            std, spacing = fit(z, kept, (bound * own + bound * adding) / size, int(k))
            if spacing == 0.0:
                return t, -1.0
            if not (given and t == start) and not round_tails(noise, sizes, negative, t * d, std / spacing):
                return t, std / spacing
            total[:] = 0.0
            inner, low, high, held = inward(records, moved if centred else w), -bound / R, bound / R, 0.0
            for i in places[ends[t] : ends[t + 1]]:
                at[0], target[0], short[0] = i, y[i], scale[i]
                held += 1.0 if scale[i] > 0.0 else 0.0
                margins(m, numbers, single, codes, fields, constant, at, 0, 1, inner)
                entries(m, pairs, values, numbers.shape[0], at, 0, 1, inner)
                if near:
                    margins(a, numbers, single, codes, fields, constant, at, 0, 1, old)
                    entries(a, pairs, values, numbers.shape[0], at, 0, 1, old)
                if centred:
                    rise = curvature * (m[0] * scale[i])
                    m[0], low, high = m[0] + a[0], min(rise, 0.0), max(rise, 0.0)
                slopes(m, loss, target, short, 1)
                if near:
                    slopes(a, loss, target, short, 1)
                    m[0] = min(max(m[0] - a[0], low), high)
                m[0] *= scale[i]
                add_records(total, numbers, single, codes, fields, constant, m, at, 0, 1)
                add_entries(total, pairs, values, numbers.shape[0], m, at, 0, 1)
            v, back = outward(records, total), L / 2 * (1 - held / size) if centred else 0.0
            for j in range(d):
                value = v[j] / size + back * moved[j]
                steps = np.rint(min(max(value / spacing, -LARGEST), LARGEST)) + noise[j] + 0.0
                v[j] = steps * spacing + snapshot[j] if near else steps * spacing
        w = (w - step * v) / shrink
        norm = length(w)
        if norm > radius:
            w *= radius / norm
        points[t] = w
    return points.shape[0], 0.0
