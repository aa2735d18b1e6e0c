"""Counts of the operations of a piece of work: bytecodes, calls into C, and elements of NumPy's loops."""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

import numpy as np


def operations(work: Callable[[], object]) -> Counter[tuple[str, int]]:
    """How often each bytecode of each function ran, and how often each C function was called."""
    counts: Counter[tuple[str, int]] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            counts[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}", frame.f_lasti] += 1
        return trace

    def profile(_: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            counts[called.__qualname__, -1] += 1

    hooks_before, collects = (sys.gettrace(), sys.getprofile()), gc.isenabled()
    gc.disable()  # a collection comes when it likes, and its callbacks are counted
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reports opcodes only if a frame asks before `settrace`
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(hooks_before[1])
        sys.settrace(hooks_before[0])
        if collects:
            gc.enable()
    return counts


class Counted(np.ndarray[Any, np.dtype[Any]]):
    """An array that counts the elements of every loop that it, or what is computed from it, goes through."""

    elements: ClassVar[Counter[str]] = Counter()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, Counted) else x for x in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(x) for x in options["out"])
        self.elements[f"{ufunc.__name__}.{method}"] += max(np.size(x) for x in arrays)
        return _counted(getattr(ufunc, method)(*arrays, **options))

    def __array_function__(self, function: Any, _: Any, given: Any, options: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, Counted) else x for x in given]
        self.elements[function.__name__] += max(np.size(x) for x in plain)
        return _counted(function(*plain, **options))


def _counted(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_counted, result))
    return result.view(Counted) if isinstance(result, np.ndarray) and result.ndim else result


def elements(work: Callable[[Any], object], values: Any) -> Counter[str]:
    """The loops that `work` runs over an array, and over how many elements each."""
    Counted.elements.clear()
    work(np.array(values).view(Counted))
    return Counter(Counted.elements)
