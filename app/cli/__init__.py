"""The command `purse`.

Exit codes: 0 success; 1 refused or failed; 2 wrong command line; 130 interrupted. An error is one line on stderr that
starts with the stable code. With --json, the same error is also a JSON document on stdout.
"""

import gc
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from app.cli import late
from app.without import Without

# The command line of httpx would load a library of colors and tables. Arrow would load pandas, if it is installed, to
# test lists for data frames. Only the parser of formulas needs pandas.
_UNUSED = ("httpx._main",)
_UNUSED_WITHOUT_FORMULA = (*_UNUSED, "pandas")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit."""
    if arguments is None:  # in a process of its own
        has_formula = any(word.partition("=")[0] == "--formula" for word in sys.argv)
        sys.meta_path.insert(0, Without(*(_UNUSED if has_formula else _UNUSED_WITHOUT_FORMULA)))
    words = list(sys.argv[1:] if arguments is None else arguments)
    starts_server = words[:1] == ["serve"] or words[:2] == ["server", "start"]
    if not starts_server or "--help" in words:
        if words[:1] == ["fit"]:
            os.environ.update(late.calculators.ONE_THREAD)  # training runs alone, in processes forked from this one
            gc.disable()  # until the service is loaded: loaded modules stay
        late.commands.run(words)
    _serve(words)


def _serve(words: Sequence[str]) -> NoReturn:
    """Run a server. The process that calculates prices starts first and loads its libraries meanwhile."""
    _check_installed()
    calculating = late.calculators.begin()
    try:
        gc.disable()  # loaded modules stay; collecting garbage would take a sixth of the time
        late.load("app.main")
        late.load("app.pages.routers")
        gc.freeze()
        gc.enable()
        late.commands.run(words, calculating)
    finally:  # a server that was refused ends before that process is ready
        calculating.end()


def _check_installed() -> None:
    """Exit with an error if only the client is installed, before any process starts."""
    try:
        if find_spec("fastapi") is None:
            raise ModuleNotFoundError(name="fastapi")
    except ModuleNotFoundError as error:
        late.failures.fail(error, "purse serve")
