"""Compile loops when their module is imported, for one signature each, from a cache if there is one.

Numba stamps what it caches with the file of the function alone, while a loop holds the code of all that it calls. So
the name under which it is kept holds a digest of this whole folder: no loop outlives a change of what it is made of.
"""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

import numba

from solvers.kernels.digests import FOLDER, of_function

if numba.config.USING_SVML:
    raise ImportError("a vector math library may round a number by its place: unset it (NUMBA_DISABLE_INTEL_SVML=1)")

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
        result: _Function = _kept(lambda **cache: numba.njit(signature, **cache, **options)(named))
        if not function.__name__.startswith("_"):
            ENTRIES[function.__name__] = result
        return result

    return decorate


def inlined(function: _Function) -> _Function:
    """Part of every loop that names it, before that is compiled: a call would cost more than what it does."""
    result: _Function = numba.njit(inline="always", **_OPTIONS)(function)
    return result


def called(function: _Function) -> _Function:
    """Of numbers, for other loops to call; the machine's code holds it within theirs."""
    result: _Function = numba.njit(forceinline=True, **_OPTIONS)(function)
    return result


@cache
def c_function(function: Callable[..., float]) -> Any:
    """m_k = f(m_k, y_k, a, ...) for k < n, behind a pointer: loops call its `address`, on (m, y, n, a, b, c).

    f is a function of two numbers and up to three parameters that calls nothing of ours but this folder's.
    """
    scope = {"derivative": called(function), "GIVEN": function.__code__.co_argcount - 2}
    named = _named(_each, scope, of_function(function))
    double, several = numba.types.float64, numba.types.CPointer(numba.types.float64)
    signature = numba.types.void(several, several, numba.types.int64, double, double, double)
    return _kept(lambda **cache: numba.cfunc(signature, **cache, **_OPTIONS)(named))


def _each(m: Any, y: Any, n: int, a: float, b: float, c: float) -> None:
    parameters = (a, b, c)[:GIVEN]  # type: ignore[name-defined]  # noqa: F821
    for k in range(n):
        m[k] = derivative(m[k], y[k], *parameters)  # type: ignore[name-defined]  # noqa: F821


def _named(function: Callable[..., Any], scope: dict[str, Any] | None = None, digest: str = "") -> FunctionType:
    """The function under a name that holds the digest, and that of what else it is made of."""
    assert isinstance(function, FunctionType)
    named = FunctionType(function.__code__, function.__globals__ | (scope or {}), function.__name__)
    named.__qualname__, named.__module__ = f"{function.__qualname__}_{FOLDER}{digest}", function.__module__
    return named


def _kept(make: Callable[..., Any]) -> Any:
    """From the cache where numba finds a folder for one, else in memory."""
    try:
        return make(cache=True)
    except (RuntimeError, OSError):  # nowhere to write
        return make()
