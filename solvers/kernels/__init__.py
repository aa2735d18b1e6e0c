"""Compiled loops over records. They take arrays and numbers, and call nothing of ours but the slopes of losses.

All signatures are explicit. The first use of a name compiles the loops of its module or loads them from numba's cache.
`ENTRIES` compiles all loops at once. Importing this package loads no loop, because planning needs none and loading
takes half a second. Platform wheels and the container image contain the loops in a file (`linked`), without numba.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvers.kernels.layout import Examples as Examples
from solvers.kernels.layout import FramedExamples as FramedExamples
from solvers.kernels.layout import Records as Records
from solvers.kernels.layout import Slope as Slope
from solvers.kernels.layout import WalkAnchor as WalkAnchor
from solvers.kernels.layout import WalkConstants as WalkConstants
from solvers.kernels.layout import WalkDraws as WalkDraws
from solvers.kernels.layout import WalkStart as WalkStart
from solvers.kernels.layout import read_only as read_only
from solvers.kernels.linked import loops

if TYPE_CHECKING:
    from solvers.kernels.build import ENTRIES as ENTRIES
    from solvers.kernels.build import c_function as c_function
    from solvers.kernels.exponential import exp as exp
    from solvers.kernels.frames import inverse_norms as inverse_norms
    from solvers.kernels.limited import bounded_sum as bounded_sum
    from solvers.kernels.limited import logistic_sum as logistic_sum
    from solvers.kernels.limited import residual_sum as residual_sum
    from solvers.kernels.limited import softmax_sum as softmax_sum
    from solvers.kernels.limited import squared_sum as squared_sum
    from solvers.kernels.records import PADDING as PADDING
    from solvers.kernels.records import norms as norms
    from solvers.kernels.slopes import MOST_PARAMETERS as MOST_PARAMETERS
    from solvers.kernels.slopes import derivatives as derivatives
    from solvers.kernels.slopes import slope as slope
    from solvers.kernels.sparse import distances as distances
    from solvers.kernels.sparse import square_sums as square_sums
    from solvers.kernels.steps import fit as fit
    from solvers.kernels.steps import round_tails as round_tails
    from solvers.kernels.steps import walk as walk
    from solvers.kernels.sums import change_sum as change_sum
    from solvers.kernels.sums import gradient_sum as gradient_sum
    from solvers.kernels.sums import length as length
    from solvers.kernels.sums import margins_of as margins_of
    from solvers.kernels.sums import weighted_sum as weighted_sum
    from solvers.kernels.unfolded import dense_rows as dense_rows


def __getattr__(name: str) -> Any:
    unknown = AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name.startswith("_") or Path(__file__).with_name(f"{name}.py").exists():  # the import system loads submodules
        raise unknown
    try:
        linked = loops()
        globals()[name] = value = _compiled(name) if linked is None else linked[name]
    except (KeyError, StopIteration):
        raise unknown from None
    return value


def _compiled(name: str) -> Any:
    modules = list(_modules()) if name == "ENTRIES" else _modules()
    return next(vars(module)[name] for module in modules if name in vars(module))


def _modules() -> Iterator[Any]:
    """Yield the modules, each loaded when it is reached: first those that others build on, last those used least."""
    from solvers.kernels import build, exponential, records, slopes  # late: numba compiles them as they are loaded

    yield from (build, exponential, slopes, records)
    from solvers.kernels import limited, sums

    yield from (sums, limited)
    from solvers.kernels import frames, sparse

    yield from (sparse, frames)
    from solvers.kernels import steps, unfolded

    yield from (unfolded, steps)
