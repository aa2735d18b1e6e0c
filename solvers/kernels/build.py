"""How a loop is compiled: when its module is imported, for one signature, and from a cache where there is one.

Numba stamps what it caches with the file of the function alone, while a loop holds the code of all that it calls. So
the name under which it is kept holds a digest of this whole folder: no loop outlives a change of what it is made of.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba

if numba.config.USING_SVML:
    raise ImportError("a vector math library may round a number by its place: unset it (NUMBA_DISABLE_INTEL_SVML=1)")

ENTRIES: dict[str, Any] = {}
"""Every compiled loop by its name; each holds its one signature. Importing `solvers.kernels` makes them all."""

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
_SOURCES = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
_DIGEST = hashlib.sha256(_SOURCES).hexdigest()[:16]

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(signature: Any) -> Callable[[_Function], _Function]:
    """Compile a loop for one signature now."""

    def decorate(function: _Function) -> _Function:
        named = _named(function)
        result: _Function = _kept(lambda **cache: numba.njit(signature, nogil=True, **cache, **_OPTIONS)(named))
        ENTRIES[function.__name__] = result
        return result

    return decorate


def inlined(function: _Function) -> _Function:
    """Part of every loop that names it, before that is compiled: a call would cost more than what it does."""
    result: _Function = numba.njit(inline="always", **_OPTIONS)(function)
    return result


@cache
def c_function(function: Callable[..., float]) -> Any:
    """A function of numbers that calls nothing of ours, behind a pointer: loops call its `address`, on doubles."""
    named = _named(function)
    numbers = numba.types.float64(*[numba.types.float64] * named.__code__.co_argcount)
    return _kept(lambda **cache: numba.cfunc(numbers, **cache, **_OPTIONS)(named))


def _named(function: Callable[..., Any]) -> FunctionType:
    """The function under a name that holds the digest."""
    assert isinstance(function, FunctionType)
    named = FunctionType(function.__code__, function.__globals__, function.__name__)
    named.__qualname__, named.__module__ = f"{function.__qualname__}_{_DIGEST}", function.__module__
    return named


def _kept(make: Callable[..., Any]) -> Any:
    """From the cache where numba finds a folder for one, else in memory."""
    try:
        return make(cache=True)
    except (RuntimeError, OSError):  # nowhere to write
        return make()
