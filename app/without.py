"""Libraries that others load to see whether they are there, and that nothing of ours uses: they are said not to be."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Without:
    """Among the finders of modules, the first: an import of these names fails. What is loaded already stays."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is left out", name=fullname)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """For a while."""
    finder = Without(*names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
