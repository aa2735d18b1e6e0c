"""The command `purse`.

Exit codes: 0 done; 1 refused, or something failed; 2 the command line is wrong. Errors are one line on stderr, the
stable code first; with --json the same as a JSON document on stdout.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from app.calculation import calculators


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # A server's prices are calculated in a process of its own: it loads its libraries while this one loads ours.
    begun = calculators.begin() if given[:1] == ["serve"] and "--help" not in given else None
    try:
        from app.cli import commands

        commands.run(given, begun)
    finally:
        if begun is not None:  # a server that was refused ends before it is warm
            begun.process.kill()
            begun.process.wait()
