"""Suppression of imports that other libraries attempt although nothing of ours uses the imported module."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Without:
    """An import finder that fails for these names; modules that are already loaded stay."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is not imported, because nothing here uses it", name=fullname)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let imports of these names fail inside the block."""
    finder = Without(*names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
