"""`python -m benchmarks [costs] [accuracy] [tuning] [wide] [erm_revisited] [nonsmooth] [peers] [--seeds N]`.

Costs and accuracy by default; peers needs the environment that `make peers` makes.
erm_revisited has two halves that can be named alone, erm_curves and erm_growth.
"""

import argparse
import os
from pathlib import Path

# One thread, as the workers run; it must be said before numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from benchmarks import accuracy, costs, nonsmooth, peers, tuning, wide  # noqa: E402

PLOTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def main() -> None:
    """Run what was asked for, costs and accuracy by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help="costs, accuracy, tuning, wide, erm_revisited, nonsmooth, peers")
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="in whose folders of their names plots are written")
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
    if "peers" in parts:
        peers.report(arguments.seeds)
    if "nonsmooth" in parts:
        nonsmooth.report(arguments.seeds, arguments.plots / "nonsmooth")
    if parts & {"erm_revisited", "erm_curves", "erm_growth"}:
        from benchmarks import erm_revisited  # draws, with packages that only `make paper` installs

        if parts & {"erm_revisited", "erm_curves"}:
            erm_revisited.curves(arguments.seeds, arguments.plots / "erm_revisited")
        if parts & {"erm_revisited", "erm_growth"}:
            erm_revisited.growth(arguments.seeds, arguments.plots / "erm_revisited")


if __name__ == "__main__":
    main()
