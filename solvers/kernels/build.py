"""Compile loops when their module is imported, for one signature each, or load them from numba's cache.

Numba's cache notices changes in the file of a function only, while a loop contains the code of all functions that it
calls. So the cached name contains a digest of this folder, and no loop is used after a change of its sources.
"""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

import numba

from solvers.kernels.digests import FOLDER, of_function

if numba.config.USING_SVML:
    raise ImportError(
        "numba uses Intel's vector math library, whose rounding can depend on the position of a number: "
        "set NUMBA_DISABLE_INTEL_SVML=1"
    )

ENTRIES: dict[str, Any] = {}
"""Each compiled loop by its name, except those that only other loops call; `solvers.kernels.ENTRIES` has them all."""

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": False}

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(signature: Any, allocates: bool = True, is_wrapper: bool = False) -> Callable[[_Function], _Function]:
    """Compile a loop for one signature now.

    Parameters
    ----------
    allocates : whether the loop makes arrays. One that does not counts no references to its arguments, which is several
        times faster for a short loop over `Records`.
    is_wrapper : whether the function becomes a part of the machine code of its callers
    """

    def decorate(function: _Function) -> _Function:
        named = _named(function)
        options = {"nogil": True, "_nrt": allocates, "forceinline": is_wrapper, **_OPTIONS}
        result: _Function = _cached(lambda **cache: numba.njit(signature, **cache, **options)(named))
        if not function.__name__.startswith("_"):
            ENTRIES[function.__name__] = result
        return result

    return decorate


def inlined(function: _Function) -> _Function:
    """Mark a function whose source becomes a part of every loop that uses it, because a call would cost more."""
    result: _Function = numba.njit(inline="always", **_OPTIONS)(function)
    return result


def called(function: _Function) -> _Function:
    """Mark a function that makes no array and whose machine code becomes a part of the loops that call it."""
    result: _Function = numba.njit(forceinline=True, _nrt=False, **_OPTIONS)(function)
    return result


@cache
def c_function(function: Callable[..., float]) -> Any:
    """Return m_k = f(m_k, y_k, a, ...) for k < n as a C function; loops call its `address` on (m, y, n, a, b, c).

    f takes two numbers and up to three parameters, and may call functions of this folder only.
    """
    scope = {"derivative": called(function), "PARAMETER_COUNT": function.__code__.co_argcount - 2}
    named = _named(_each, scope, of_function(function))
    double, several = numba.types.float64, numba.types.CPointer(numba.types.float64)
    signature = numba.types.void(several, several, numba.types.int64, double, double, double)
    return _cached(lambda **cache: numba.cfunc(signature, **cache, **_OPTIONS)(named))


def _each(m: Any, y: Any, n: int, a: float, b: float, c: float) -> None:
    parameters = (a, b, c)[:PARAMETER_COUNT]  # type: ignore[name-defined]  # noqa: F821
    for k in range(n):
        m[k] = derivative(m[k], y[k], *parameters)  # type: ignore[name-defined]  # noqa: F821


def _named(function: Callable[..., Any], scope: dict[str, Any] | None = None, digest: str = "") -> FunctionType:
    """Return the function with a name that contains the digests of its sources."""
    assert isinstance(function, FunctionType)
    named = FunctionType(function.__code__, function.__globals__ | (scope or {}), function.__name__)
    named.__qualname__, named.__module__ = f"{function.__qualname__}_{FOLDER}{digest}", function.__module__
    return named


def _cached(make: Callable[..., Any]) -> Any:
    """Return the compiled function, cached in a file if numba has a folder for it, otherwise in memory."""
    try:
        return make(cache=True)
    except (RuntimeError, OSError):  # nowhere to write
        return make()
