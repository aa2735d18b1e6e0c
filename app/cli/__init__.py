"""The command `purse`.

Exit codes: 0 done; 1 refused, or something failed; 2 the command line is wrong; 130 interrupted. Errors are one line on
stderr, the stable code first; with --json the same as a JSON document on stdout.
"""

import gc
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from app.without import Without

# No command has a frame: Arrow loads pandas, where it is installed, to ask of any list whether it is of one. And none
# is httpx's own, for which that loads a library of colors and tables.
_UNUSED = ("pandas", "httpx._main")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits."""
    if arguments is None:  # in a process of its own
        sys.meta_path.insert(0, Without(*_UNUSED))
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] != ["serve"] or "--help" in given:
        if given[:1] == ["fit"]:
            from app.calculation import calculators

            os.environ.update(calculators.ONE_THREAD)  # it trains here, alone, and so do those that it forks
            gc.disable()  # until the service is there: what is loaded stays
        from app.cli import commands

        commands.run(given)
    _serve(given)


def _serve(given: Sequence[str]) -> NoReturn:
    """Prices are calculated in a process of their own: it loads its libraries while this one loads ours."""
    from app.calculation import calculators

    _check_installed()
    begun = calculators.begin()
    try:
        gc.disable()  # what is loaded now stays; looking for garbage in it is a sixth of the time
        import app.main
        import app.pages.routers  # noqa: F401
        from app.cli import commands

        gc.freeze()
        gc.enable()
        commands.run(given, begun)
    finally:  # a server that was refused ends before it is warm
        begun.process.kill()
        begun.process.wait()


def _check_installed() -> None:
    """Ends with a sentence where the light part alone is installed: no process is begun then."""
    try:
        if find_spec("fastapi") is None:
            raise ModuleNotFoundError(name="fastapi")
    except ModuleNotFoundError as error:
        from app.cli import commands

        commands.fail(error, "purse serve")
