"""Compiled loops over records: arrays and numbers, nothing of ours but their slopes.

The first name that is taken from here compiles them all, or loads them from numba's cache, and nothing is compiled
later. Who only plans takes none, and is spared half a second: that is why they are not loaded with the package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solvers.kernels.loops import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import solvers.kernels.loops as loops  # not `from`: that would ask here again

    if name not in loops.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(loops, name)
