"""The compiled loops out of one file, without numba: the instructions that numba made, so the same bits.

`docker/link.py` makes the file and its list: of which sources it is, and what each loop takes and gives. A loop
reads its arguments as memory, so each is looked at before. Calls release the interpreter's lock, as numba's do.
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

FILE = Path(__file__).with_name("loops.so")  # not of this module's name: Python would load it in its place
_FINE = (0, -2)  # numba's codes of a return, with something and with nothing
_ROOM = 15  # numbers of eight bytes: more than any result has


@dataclass(frozen=True, slots=True)
class Formula:
    """A loss's derivative; loops call its address."""

    address: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array in one piece, row after row, of this type and so many axes."""

    dtype: np.dtype[Any]
    axes: int
    readonly: bool

    def slots(self, value: Any) -> tuple[int, ...]:
        """The array as numba passes one on: no owner, its sizes, where it is, its lengths and strides."""
        if type(value) is not np.ndarray or value.dtype != self.dtype or value.ndim != self.axes:
            raise TypeError(f"an array of {self.dtype} with {self.axes} axes")
        flags = value.flags
        if not (flags.c_contiguous and flags.aligned and (self.readonly or flags.writeable)):
            raise TypeError("an array in one piece" + ("" if self.readonly else ", to write to"))
        return 0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides


@dataclass(frozen=True, slots=True)
class Loop:
    """f(*arguments), of the kinds that its list says: d, q or ? for a number, a list of kinds for a tuple, an array."""

    code: Any
    arguments: list[Any]
    result: Any
    packed: struct.Struct
    free: Any

    def __call__(self, *given: Any) -> Any:
        """Raises TypeError where an argument is of another kind, MemoryError where there is no room."""
        slots: list[int | float] = []
        _flatten(self.arguments, given, slots)
        room = (ctypes.c_int64 * _ROOM)()
        if self.code(room, self.packed.pack(*slots)) not in _FINE:
            raise MemoryError
        kind = self.result
        if not isinstance(kind, Array):
            found = () if kind is None else struct.unpack_from("".join(kind), room)
            return found if isinstance(kind, list) else found[0] if kind else None
        answer = np.empty(room[5 : 5 + kind.axes], kind.dtype)
        ctypes.memmove(answer.ctypes.data, room[4], answer.nbytes)
        self.free(room[0])
        return answer


def _flatten(kinds: list[Any], given: Any, slots: list[int | float]) -> None:
    if not isinstance(given, tuple) or len(given) != len(kinds):
        raise TypeError("as many arguments as the loop takes")
    for kind, value in zip(kinds, given, strict=True):
        if isinstance(kind, Array):
            slots += kind.slots(value)
        elif isinstance(kind, list):
            _flatten(kind, value, slots)
        else:
            slots.append(float(value) if kind == "d" else index(value) if kind == "q" else bool(value))


def _kind(listed: Any) -> Any:
    if isinstance(listed, dict):
        return Array(np.dtype(listed["dtype"]), listed["axes"], listed["readonly"])
    return [_kind(each) for each in listed] if isinstance(listed, list) else listed


def _format(kinds: list[Any]) -> str:
    """Of numbers of eight bytes."""
    parts = (f"{5 + 2 * k.axes}q" if isinstance(k, Array) else _format(k) if isinstance(k, list) else k for k in kinds)
    return "".join(parts).replace("?", "q")


@cache
def load(file: Path) -> dict[str, Any]:
    """What `solvers.kernels` has of loops, by name, from the file and its list; both of these very sources."""
    listed, library = json.loads(file.with_suffix(".json").read_text()), ctypes.CDLL(str(file))
    if listed["sources"] != FOLDER:
        raise ImportError(f"{file} was made of other sources")
    free = library.NRT_MemInfo_call_dtor
    free.argtypes, free.restype = [ctypes.c_void_p], None
    loops: dict[str, Any] = {}
    for name, kinds in listed["loops"].items():
        code = library[f"call_{name}"]
        code.argtypes, code.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int32
        arguments = _kind(kinds["arguments"])
        loops[name] = Loop(code, arguments, _kind(kinds["result"]), struct.Struct(_format(arguments)), free)

    def c_function(function: Callable[..., float]) -> Formula:
        address = ctypes.cast(library[f"formula_{of_function(function)}"], ctypes.c_void_p).value
        assert address is not None
        return Formula(address)

    return {**loops, **listed["constants"], "ENTRIES": loops, "c_function": cache(c_function)}
