"""`python -m benchmarks [costs] [accuracy] [tuning] [wide] [growth] [--seeds N]`; costs, accuracy if none is named."""

import argparse
import os
from pathlib import Path

# One thread, as the workers run; it must be said before numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from benchmarks import accuracy, costs, tuning, wide  # noqa: E402

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def main() -> None:
    """Run what was asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help="costs, accuracy, tuning, wide, growth")
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell of the accuracy table")
    arguments = parser.parse_args()
    parts = arguments.parts or ["costs", "accuracy"]
    if "costs" in parts:
        costs.report()
    if "accuracy" in parts:
        accuracy.report(arguments.seeds)
    if "tuning" in parts:
        tuning.report(arguments.seeds)
    if "wide" in parts:
        wide.report(arguments.seeds)
    if "growth" in parts:
        from benchmarks import growth  # draws, with a package that only the plots need

        growth.report(arguments.seeds, DOCS / "growth")


if __name__ == "__main__":
    main()
