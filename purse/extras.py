"""What the light part does without, and where a person gets it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from purse.errors import ClientError

ARITHMETIC: Final = frozenset({"dp_accounting", "llvmlite", "mpmath", "numba", "randomgen", "scipy"})
"""What the extra `solvers` installs, as it is imported; what else is lacking is the extra `server`'s."""
_OWN: Final = {"sklearn": "sklearn", "onnx": "onnx", "python_calamine": "excel"}


class NotInstalled(ClientError):
    """Something needs an extra that is not installed; the message says which, and how to install it."""


@contextmanager
def needing(what: str, extras: str | None = None) -> Iterator[None]:
    """Says which extra to install where a library is not there.

    Parameters
    ----------
    what : what was asked for, in words
    extras : all that it needs, with commas; by default the one that has the library
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise lacking(what, error, extras) from error


def lacking(what: str, error: ModuleNotFoundError, extras: str | None = None) -> NotInstalled:
    """The sentence for it; the error itself, where what is not there is ours."""
    name = (error.name or "").split(".")[0]
    if name in ("accounting", "app", "purse", "solvers"):
        raise error
    extras = extras or _OWN.get(name, "solvers" if name in ARITHMETIC else "server")
    return NotInstalled(f"{what} needs {name}: pip install 'privy-purse[{extras}]'")
