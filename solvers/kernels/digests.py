"""Of what a compiled loop is made: the sources of this folder, and those of a loss's derivative."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


FOLDER = _digest(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
"""Numba stamps what it keeps with the file of one function alone, while a loop holds the code of all that it calls."""


def of_function(function: Callable[..., Any]) -> str:
    """Of its file, and which of the file's functions it is."""
    code = function.__code__
    return _digest(f"{code.co_qualname} {code.co_firstlineno}".encode() + Path(code.co_filename).read_bytes())
