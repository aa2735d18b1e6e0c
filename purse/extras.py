"""The base class of errors, and errors about optional packages that are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ARITHMETIC: Final = frozenset({"dp_accounting", "llvmlite", "mpmath", "numba", "randomgen", "scipy"})
"""Import names of the extra `solvers`. A package that is in no list here belongs to the extra `server`."""
_EXTRAS: Final = {
    "sklearn": "sklearn",
    "onnx": "onnx",
    "formulaic": "formula",
    "python_calamine": "excel",
    "matplotlib": "plot",
}
_WITHOUT_EXTRA: Final = frozenset({"pandas"})


class ClientError(Exception):
    """Base class of all errors that the client raises on purpose."""


class NotInstalled(ClientError):
    """A package is not installed; the message names it and the command that installs it."""


@contextmanager
def needing(feature: str, extras: str | None = None) -> Iterator[None]:
    """Raise NotInstalled in place of a ModuleNotFoundError.

    Parameters
    ----------
    feature : what the caller uses, in words
    extras : all extras that the feature needs, separated by commas; by default the extra of the missing package
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise lacking(feature, error, extras) from error


def lacking(feature: str, error: ModuleNotFoundError, extras: str | None = None) -> NotInstalled:
    """Return the error for a missing package. Raise the original error if the package is one of our own."""
    name = (error.name or "").split(".")[0]
    if name in ("accounting", "app", "purse", "solvers"):
        raise error
    if name in _WITHOUT_EXTRA:
        return NotInstalled(f"{feature} needs {name}: pip install {name}")
    extras = extras or _EXTRAS.get(name, "solvers" if name in ARITHMETIC else "server")
    return NotInstalled(f"{feature} needs {name}: pip install 'privy-purse[{extras}]'")
