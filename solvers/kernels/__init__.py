"""Compiled loops over records: arrays and numbers, nothing of ours but their slopes.

All signatures are explicit. A name that is taken from here compiles its module's, or loads them from numba's cache;
`ENTRIES` compiles all, and then nothing is compiled later. Who only plans takes none, and is spared half a second: they
are not loaded with this. In an image they are one file, `linked`, and there is no numba.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solvers.kernels.build import ENTRIES, c_function
    from solvers.kernels.exponential import exp
    from solvers.kernels.frames import inverse_norms
    from solvers.kernels.limited import residual_sum, scalar_sum, softmax_sum
    from solvers.kernels.records import Records, norms
    from solvers.kernels.slopes import MOST_PARAMETERS, Slope, derivatives, slope
    from solvers.kernels.sparse import distances, square_sums
    from solvers.kernels.steps import (
        ABSOLUTE,
        COARSEST,
        FARTHEST,
        FINEST,
        LARGEST,
        NEAREST,
        RELATIVE,
        Walk,
        fit,
        round_tails,
        walk,
    )
    from solvers.kernels.sums import length, margins_of, sum_of_changes, sum_of_places, weighted_sum
    from solvers.kernels.unfolded import rows

__all__ = [
    "ABSOLUTE",
    "COARSEST",
    "ENTRIES",
    "FARTHEST",
    "FINEST",
    "LARGEST",
    "MOST_PARAMETERS",
    "NEAREST",
    "RELATIVE",
    "Records",
    "Slope",
    "Walk",
    "c_function",
    "derivatives",
    "distances",
    "exp",
    "fit",
    "inverse_norms",
    "length",
    "margins_of",
    "norms",
    "residual_sum",
    "round_tails",
    "rows",
    "scalar_sum",
    "slope",
    "softmax_sum",
    "square_sums",
    "sum_of_changes",
    "sum_of_places",
    "walk",
    "weighted_sum",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from solvers.kernels.linked import FILE

    globals()[name] = found = _linked(name) if FILE.exists() else _compiled(name)
    return found


def _linked(name: str) -> Any:
    from solvers.kernels.linked import FILE, load

    return load(FILE)[name]


def _compiled(name: str) -> Any:
    modules = list(_modules()) if name == "ENTRIES" else _modules()
    return next(vars(module)[name] for module in modules if name in vars(module))


def _modules() -> Iterator[Any]:
    """Each loaded when it is its turn: first those of which the others are made, last what the fewest take."""
    from solvers.kernels import build, exponential, records, slopes

    yield from (build, exponential, slopes, records)
    from solvers.kernels import limited, sums

    yield from (sums, limited)
    from solvers.kernels import frames, sparse

    yield from (sparse, frames)
    from solvers.kernels import steps, unfolded

    yield from (unfolded, steps)
