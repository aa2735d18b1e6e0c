"""`python -m tests.heavy.load 20 COMMAND ...`: the command beside so many processes that never rest.

They end with it: when it is over, when this process is gone, and after two hours whatever happens.
"""

import os
import subprocess
import sys
import time

LONGEST = 7200.0  # seconds


def spin(parent: int) -> None:
    """Work until the parent is another, or for LONGEST."""
    end = time.monotonic() + LONGEST
    while os.getppid() == parent and time.monotonic() < end:
        sum(range(100_000))


def main() -> int:
    """The command's own exit code."""
    count, command = int(sys.argv[1]), sys.argv[2:]
    code = f"from tests.heavy.load import spin; spin({os.getpid()})"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        return subprocess.call(command)
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
