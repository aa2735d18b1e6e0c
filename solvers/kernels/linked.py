"""The compiled loops from one file, without numba. Their instructions are those of numba, so their bits are equal.

A platform wheel and the image contain a file for each level of processor. `building/link.py` writes each file and its
list: the digest of the sources, and the arguments and the result of each loop. A loop reads its arguments as memory, so
each argument is checked before the call. Calls release the interpreter's lock, as numba's calls do.
"""

import ctypes
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from solvers.kernels.digests import FOLDER, of_function

LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "generic")
"""LLVM's names of the levels of processors, the newest first. Each file is named after one level."""
_HERE = Path(__file__).parent
_SUCCESS_CODES = (0, -2)  # of numba: returned a value, returned None
_RESULT_WORDS = 15  # of eight bytes; more than any result has


@dataclass(frozen=True, slots=True)
class Formula:
    """The derivative of a loss, which loops call by its address."""

    address: int


@dataclass(frozen=True, slots=True)
class Array:
    """The type of an array argument: contiguous, row-major, of one dtype and number of axes."""

    dtype: np.dtype[Any]
    axes: int
    readonly: bool

    def words(self, value: Any) -> tuple[int, ...]:
        """Return the array in numba's calling convention: no owner, sizes, address, shape and strides."""
        if type(value) is not np.ndarray or value.dtype != self.dtype or value.ndim != self.axes:
            raise TypeError(f"argument must be an array of {self.dtype} with {self.axes} axes")
        flags = value.flags
        if not (flags.c_contiguous and flags.aligned and (self.readonly or flags.writeable)):
            raise TypeError(
                "array argument must be contiguous and aligned" + ("" if self.readonly else ", and writable")
            )
        return 0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled function with its kinds of arguments: d, q or ? for numbers, a list for a tuple, or an `Array`."""

    code: Any
    arguments: list[Any]
    result: Any
    packed: struct.Struct
    free: Any

    def __call__(self, *arguments: Any) -> Any:
        """Call the loop; raise TypeError for an argument of another kind, or MemoryError."""
        words: list[int | float] = []
        _flatten(self.arguments, arguments, words)
        room = (ctypes.c_int64 * _RESULT_WORDS)()
        if self.code(room, self.packed.pack(*words)) not in _SUCCESS_CODES:
            raise MemoryError
        kind = self.result
        if not isinstance(kind, Array):
            values = () if kind is None else struct.unpack_from("".join(kind), room)
            return values if isinstance(kind, list) else values[0] if kind else None
        answer = np.empty(room[5 : 5 + kind.axes], kind.dtype)
        ctypes.memmove(answer.ctypes.data, room[4], answer.nbytes)
        self.free(room[0])
        return answer


def _flatten(kinds: list[Any], arguments: Any, words: list[int | float]) -> None:
    """Append the words of all arguments; raise TypeError if they are not of these kinds."""
    if not isinstance(arguments, tuple) or len(arguments) != len(kinds):
        raise TypeError(f"the loop takes {len(kinds)} arguments here, in a tuple")
    for kind, value in zip(kinds, arguments, strict=True):
        if isinstance(kind, Array):
            words += kind.words(value)
        elif isinstance(kind, list):
            _flatten(kind, value, words)
        else:
            words.append(float(value) if kind == "d" else index(value) if kind == "q" else bool(value))


def _kind(listed: Any) -> Any:
    """Return a kind of argument from its entry in the list."""
    if isinstance(listed, dict):
        return Array(np.dtype(listed["dtype"]), listed["axes"], listed["readonly"])
    return [_kind(each) for each in listed] if isinstance(listed, list) else listed


def _format(kinds: list[Any]) -> str:
    """Return the format of all arguments for `struct`, in numbers of eight bytes."""
    parts = (f"{5 + 2 * k.axes}q" if isinstance(k, Array) else _format(k) if isinstance(k, list) else k for k in kinds)
    return "".join(parts).replace("?", "q")


def file_of(level: str, folder: Path = _HERE) -> Path:
    """Return the path of the loops for a level of processor."""
    return folder / f"loops-{level}.so"


@cache
def loops(folder: Path = _HERE) -> dict[str, Any] | None:
    """Return the names of `solvers.kernels` from the newest file that fits, or None if numba must compile the loops."""
    for file in (file_of(level, folder) for level in LEVELS):
        if file.exists():
            try:
                return load(file)
            except (ImportError, OSError):
                continue
    return None


@cache
def load(file: Path) -> dict[str, Any]:
    """Return the names of `solvers.kernels` from a file and its list.

    Raises ImportError if the sources changed or this processor lacks instructions, and OSError for another platform.
    """
    listed = json.loads(file.with_suffix(".json").read_text())
    if listed["sources"] != FOLDER:
        raise ImportError(f"{file} was linked from other sources: build the wheel or the image again")
    library = ctypes.CDLL(str(file))
    if not library.runs_here():
        raise ImportError(f"{file} has instructions that this processor lacks")
    free = library.NRT_MemInfo_call_dtor
    free.argtypes, free.restype = [ctypes.c_void_p], None
    loops: dict[str, Any] = {}
    for name, kinds in listed["loops"].items():
        code = library[f"call_{name}"]
        code.argtypes, code.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int32
        arguments = _kind(kinds["arguments"])
        loops[name] = Loop(code, arguments, _kind(kinds["result"]), struct.Struct(_format(arguments)), free)

    def c_function(function: Callable[..., float]) -> Any:
        """Return the linked derivative of a loss, or compile one that was not linked."""
        try:
            formula = library[f"formula_{of_function(function)}"]
        except AttributeError:
            from solvers.kernels.build import c_function  # late: numba

            return c_function(function)
        address = ctypes.cast(formula, ctypes.c_void_p).value
        assert address is not None
        return Formula(address)

    return {**loops, **listed["constants"], "ENTRIES": loops, "c_function": cache(c_function)}
