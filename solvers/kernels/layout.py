"""Values that the compiled loops read: records, a loss's slope, the constants of a walk. This module needs no numba."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_Number = TypeVar("_Number", bound=np.generic)

# Columns of `Records.categories`.
FIRST_BYTE, BYTES, START, LEVELS = range(4)


class Records(NamedTuple):
    """Records as they are stored, with the layout of the rows that they stand for; make one with `read_only`.

    A row lists, in storage order: P numbers, of which a row may use some; for each category in use a block with a
    single 1 at its code; then, if the rows have one, a constant. `solvers.kernels.records` has the formulas.
    """

    numbers: Bytes
    """(n, bytes of P numbers); 0 columns for sparse rows."""
    codes: Bytes
    """(n, B), the codes of all categories, little-endian."""
    categories: Indices
    """(C, 4), for each category in use: its first byte in `codes`, number of bytes, block's start, number of levels."""
    positions: Indices
    """(d,), the position in storage order of each coordinate of a point."""
    size: int
    """Length of a row in storage order."""
    constant: int
    """1 if rows end in a constant, otherwise 0."""
    center: Vector
    """(d - 1,), m of the frame; empty without a frame."""
    shrink: Vector
    """(d - 1,), a of the frame; empty without a frame."""
    intercept: float
    """c of the frame: the constant's value; 1 without a frame."""
    entry_index: Indices
    """Sparse rows only: n + 1 offsets of rows into the entries, then each entry's position, rising within a row."""
    entry_values: Vector
    """Sparse rows only: the value of each entry."""
    is_single: bool
    """Whether numbers are stored as float32; otherwise they are float64."""

    def read_only(self) -> "Records":
        """Return the same records with read-only arrays, as the loops' signatures require."""
        return Records._make(read_only(value) if isinstance(value, np.ndarray) else value for value in self)


class Slope(NamedTuple):
    """The derivative of a loss: a C function's address, its parameters, and the bound that slopes are clipped to."""

    address: int
    first: float
    second: float
    third: float
    bound: float


class Examples(NamedTuple):
    """Records with their targets and scales; make one with `read_only`."""

    records: Records
    targets: Vector
    scale: Vector
    """(n,), the factor of each row; 0 for a slot of a person without a row."""

    def read_only(self) -> "Examples":
        """Return the same examples with read-only targets and scales; the records must be read-only already."""
        return Examples(self.records, read_only(self.targets), read_only(self.scale))


class FramedExamples(NamedTuple):
    """Records with their targets and with the inverse norms of their rows in a frame."""

    records: Records
    targets: Vector
    inverse_norms: Vector
    """(n,); 0 for a slot of a person without a row."""

    def read_only(self) -> "FramedExamples":
        """Return the same examples with read-only targets and norms; the records must be read-only already."""
        return FramedExamples(self.records, read_only(self.targets), read_only(self.inverse_norms))


class WalkDraws(NamedTuple):
    """All randomness of a walk, drawn before its first step; arrays are read-only."""

    batch_ends: Indices
    """(steps + 1,), step t takes `rows[batch_ends[t] : batch_ends[t + 1]]`."""
    rows: Indices
    magnitudes: Vector
    """(steps d,), absolute values of standard normal variables."""
    is_negative: NDArray[np.bool_]
    """(steps d,), their signs."""


class WalkAnchor(NamedTuple):
    """The point that changes of gradients start from, and its released gradient; arrays are read-only."""

    point: Vector
    snapshot: Vector


class WalkStart(NamedTuple):
    """The state from which a walk continues: its next step, and whether that step's noise is already rounded."""

    step: int
    has_noise: bool


class WalkConstants(NamedTuple):
    """Public constants of a walk; `solvers.kernels.steps.walk` has the formulas."""

    loss: Slope
    smoothness: float
    """L, bound on the curvature of a record's loss."""
    gradient_bound: float
    """G, bound on the norm of a record's gradient."""
    row_norm: float
    """R, bound on the norm of a row."""
    batch_size: float
    """b, the fixed number of rows that sums are divided by."""
    row_rounding: float
    """Factor of a gradient's bound for the rounding of rows."""
    sum_rounding: float
    """Factor of a gradient's bound for the rounding of sums."""
    noise_multiplier: float
    """z, noise std over the per-record bound."""
    lattice_share: float
    """1 - z sqrt(d) 2^-k, the second result of `accounting.noise.lattice.fineness`."""
    lattice_bits: int
    """k, the first result of `fineness`: the lattice's spacing is at most 2^-k of the noise std."""
    step: float
    """Step length."""
    shrinkage: float
    """1 + step * mu, the divisor of the proximal step."""
    radius: float
    """Radius of the domain; infinite for a free domain."""
    curvature: float
    """Bound on the loss's curvature if changes are centred, otherwise 0."""
    centred_row_rounding: float
    """`row_rounding` of a centred change."""
    centred_sum_rounding: float
    """`sum_rounding` of a centred change."""


def read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return a read-only view of an array in one piece, without a copy."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view
