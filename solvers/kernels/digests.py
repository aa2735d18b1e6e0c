"""Digests of the sources of compiled loops: of this folder, and of a loss's derivative."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


FOLDER = _digest(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
"""Digest of all sources in this folder, because a loop contains the code of all functions that it calls."""


def of_function(function: Callable[..., Any]) -> str:
    """Return a digest of a function's file, its name and its line."""
    code = function.__code__
    return _digest(f"{code.co_qualname} {code.co_firstlineno}".encode() + Path(code.co_filename).read_bytes())
