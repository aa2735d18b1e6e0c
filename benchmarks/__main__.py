"""`python -m benchmarks [PART ...] [--seeds N] [--plots FOLDER]`; costs and accuracy if none is named."""

import argparse
import importlib
import os
from pathlib import Path

# One thread, as the workers run; it must be said before numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
# part: module, function, whether it draws into a folder of the module's name (with packages that `make paper` installs)
PARTS: dict[str, tuple[str, str, bool]] = {
    "costs": ("costs", "report", False),
    "accuracy": ("accuracy", "report", False),
    "centred": ("accuracy", "centred", False),
    "tuning": ("tuning", "report", False),
    "wide": ("wide", "report", False),
    "running": ("running", "report", False),
    "last_iterate": ("last_iterate", "report", False),
    "erm_curves": ("erm_revisited", "curves", True),
    "erm_growth": ("erm_revisited", "growth", True),
    "growth": ("growth", "report", True),
    "nonsmooth": ("nonsmooth", "report", True),
    "passes": ("nonsmooth", "passes", False),
    "coded": ("coded", "report", False),
    "quotes": ("quotes", "report", False),
    "admitted": ("admitted", "report", False),
    "fit": ("fit", "report", False),  # with the environment that `make peers` makes
    "ours": ("ours", "report", False),
    "preparation": ("ours", "preparation", False),
    "profiles": ("profiles", "report", False),
    "forecast": ("forecast", "report", False),
    "trials": ("trials", "report", False),
    "steps": ("trials", "steps", False),
    "boosted": ("second_moments", "boosted", False),
    "low_rank": ("second_moments", "low_rank", False),
    "redescending": ("prototypes", "redescending", False),
    "classes": ("prototypes", "classes", False),
    "small": ("trials", "small", False),
    "partitions": ("partitions", "report", False),
    "load": ("load", "report", False),
    "start": ("start", "report", False),
    "descent": ("trials", "descent", False),
    "peers": ("peers", "report", False),  # with the environment that `make peers` makes
}
BOTH = {"erm_revisited": ["erm_curves", "erm_growth"]}


def main() -> None:
    """Run what was asked for, costs and accuracy by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=", ".join([*PARTS, *BOTH]))
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell")
    parser.add_argument("--rows", type=int, default=10**7, help="of `partitions`; 83 bytes of disk each")
    parser.add_argument("--plots", type=Path, default=DOCS, help="where plots are written, in a folder of the part's")
    arguments = parser.parse_args()
    for named in arguments.parts or ["costs", "accuracy"]:
        for part in BOTH.get(named, [named]):
            if part not in PARTS:
                parser.error(f"no part {part}")
            module, function, draws = PARTS[part]
            report = getattr(importlib.import_module(f"benchmarks.{module}"), function)
            if part == "costs":
                report()
            elif part == "partitions":
                report(arguments.rows)
            elif draws:
                report(arguments.seeds, arguments.plots / module)
            else:
                report(arguments.seeds)


if __name__ == "__main__":
    main()
