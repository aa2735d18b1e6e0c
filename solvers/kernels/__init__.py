"""Compiled loops over records. They take arrays and numbers, and call nothing of ours but the slopes of losses.

All signatures are explicit. The first use of a name compiles the loops of its module or loads them from numba's cache.
`ENTRIES` compiles all loops at once. Importing this package loads no loop, because planning needs none and loading
takes half a second. In the container image all loops are one file (`linked`), and numba is not installed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from solvers.kernels.layout import (
    BYTES,
    FIRST_BYTE,
    LEVELS,
    START,
    Examples,
    Records,
    Slope,
    WalkAnchor,
    WalkConstants,
    WalkDraws,
    WalkStart,
    read_only,
)

if TYPE_CHECKING:
    from solvers.kernels.build import ENTRIES, c_function
    from solvers.kernels.exponential import exp
    from solvers.kernels.frames import inverse_norms
    from solvers.kernels.limited import logistic_sum, residual_sum, softmax_sum, squared_sum
    from solvers.kernels.records import PADDING, norms
    from solvers.kernels.slopes import MOST_PARAMETERS, derivatives, slope
    from solvers.kernels.sparse import distances, square_sums
    from solvers.kernels.steps import (
        ABSOLUTE,
        COARSEST,
        FARTHEST,
        FINEST,
        LARGEST,
        NEAREST,
        RELATIVE,
        fit,
        round_tails,
        walk,
    )
    from solvers.kernels.sums import change_sum, gradient_sum, length, margins_of, weighted_sum
    from solvers.kernels.unfolded import dense_rows

__all__ = [
    "ABSOLUTE",
    "BYTES",
    "COARSEST",
    "ENTRIES",
    "FARTHEST",
    "FINEST",
    "FIRST_BYTE",
    "LARGEST",
    "LEVELS",
    "MOST_PARAMETERS",
    "NEAREST",
    "PADDING",
    "RELATIVE",
    "START",
    "Examples",
    "Records",
    "Slope",
    "WalkAnchor",
    "WalkConstants",
    "WalkDraws",
    "WalkStart",
    "c_function",
    "change_sum",
    "dense_rows",
    "derivatives",
    "distances",
    "exp",
    "fit",
    "gradient_sum",
    "inverse_norms",
    "length",
    "logistic_sum",
    "margins_of",
    "norms",
    "read_only",
    "residual_sum",
    "round_tails",
    "slope",
    "softmax_sum",
    "square_sums",
    "squared_sum",
    "walk",
    "weighted_sum",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from solvers.kernels.linked import FILE

    globals()[name] = value = _linked(name) if FILE.exists() else _compiled(name)
    return value


def _linked(name: str) -> Any:
    from solvers.kernels.linked import FILE, load

    return load(FILE)[name]


def _compiled(name: str) -> Any:
    modules = list(_modules()) if name == "ENTRIES" else _modules()
    return next(vars(module)[name] for module in modules if name in vars(module))


def _modules() -> Iterator[Any]:
    """Yield the modules, each loaded when it is reached: first those that others build on, last those used least."""
    from solvers.kernels import build, exponential, records, slopes

    yield from (build, exponential, slopes, records)
    from solvers.kernels import limited, sums

    yield from (sums, limited)
    from solvers.kernels import frames, sparse

    yield from (sparse, frames)
    from solvers.kernels import steps, unfolded

    yield from (unfolded, steps)
