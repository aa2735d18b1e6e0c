"""`python -m benchmarks [costs] [accuracy] [tuning] [wide] [erm_revisited] [--seeds N]`; costs and accuracy by default.

erm_revisited has two halves that can be named alone, erm_curves and erm_growth.
"""

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
    parser.add_argument("parts", nargs="*", help="costs, accuracy, tuning, wide, erm_revisited")
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="where erm_revisited writes its plots")
    arguments = parser.parse_args()
    parts = set(arguments.parts or ["costs", "accuracy"])
    if "costs" in parts:
        costs.report()
    if "accuracy" in parts:
        accuracy.report(arguments.seeds)
    if "tuning" in parts:
        tuning.report(arguments.seeds)
    if "wide" in parts:
        wide.report(arguments.seeds)
    if parts & {"erm_revisited", "erm_curves", "erm_growth"}:
        from benchmarks import erm_revisited  # draws, with packages that only `make paper` installs

        if parts & {"erm_revisited", "erm_curves"}:
            erm_revisited.curves(arguments.seeds, arguments.plots)
        if parts & {"erm_revisited", "erm_growth"}:
            erm_revisited.growth(arguments.seeds, arguments.plots)


if __name__ == "__main__":
    main()
