<<<<<<< HEAD
"""`python -m benchmarks [costs] [accuracy] [tuning] [erm_revisited] [--seeds N]`; costs and accuracy if none is named.

erm_revisited has two halves that can be named alone, erm_curves and erm_growth.
"""
=======
"""`python -m benchmarks [costs] [accuracy] [tuning] [wide] [--seeds N]`; costs and accuracy if none is named."""
>>>>>>> 8ea49be00cf4f9f88c68f92c0a5b4ac518bfa359

import argparse
import os
from pathlib import Path

# One thread, as the workers run; it must be said before numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from benchmarks import accuracy, costs, tuning, wide  # noqa: E402

PLOTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "erm_revisited"


def main() -> None:
    """Run what was asked for, costs and accuracy by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
<<<<<<< HEAD
    parser.add_argument("parts", nargs="*", help="costs, accuracy, tuning, erm_revisited")
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="where erm_revisited writes its plots")
=======
    parser.add_argument("parts", nargs="*", help="costs, accuracy, tuning, wide")
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell of the accuracy table")
>>>>>>> 8ea49be00cf4f9f88c68f92c0a5b4ac518bfa359
    arguments = parser.parse_args()
    parts = arguments.parts or ["costs", "accuracy"]
    if "costs" in parts:
        costs.report()
    if "accuracy" in parts:
        accuracy.report(arguments.seeds)
    if "tuning" in parts:
        tuning.report(arguments.seeds)
<<<<<<< HEAD
    if {"erm_revisited", "erm_curves", "erm_growth"} & set(parts):
        from benchmarks import erm_revisited  # draws, with packages that only `make paper` installs

        if "erm_growth" not in parts:
            erm_revisited.curves(arguments.seeds, arguments.plots)
        if "erm_curves" not in parts:
            erm_revisited.growth(arguments.seeds, arguments.plots)
=======
    if "wide" in parts:
        wide.report(arguments.seeds)
>>>>>>> 8ea49be00cf4f9f88c68f92c0a5b4ac518bfa359


if __name__ == "__main__":
    main()
