"""Run benchmarks: `python -m benchmarks [PART ...] [--seeds N] [--plots FOLDER]`.

Without a part these are costs, accuracy and tightness.
"""

import argparse
import importlib
import os
from pathlib import Path

# One thread, as in the workers; these variables must be set before numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
# part: module, function, whether it draws plots in a folder with the module's name (`make paper` installs the packages)
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
    "tightness": ("tightness", "report", False),
    "fit": ("fit", "report", False),  # needs the environment of `make peers`
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
    "inference": ("inference", "report", False),
    "load": ("load", "report", False),
    "start": ("start", "report", False),
    "descent": ("trials", "descent", False),
    "peers": ("peers", "report", False),  # needs the environment of `make peers`
}
GROUPS = {"erm_revisited": ["erm_curves", "erm_growth"]}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=", ".join([*PARTS, *GROUPS]))
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell")
    parser.add_argument(
        "--rows", type=int, default=10**7, help="number of rows for `partitions`; each takes 83 bytes on disk"
    )
    parser.add_argument("--repetitions", type=int, default=1000, help="tables per cell of `inference`")
    parser.add_argument(
        "--cells", default="", help="regular expression that selects cells of `inference`, such as 'linear .* d=10 '"
    )
    parser.add_argument(
        "--plots", type=Path, default=DOCS, help="folder for plots, which are written into a subfolder for each part"
    )
    arguments = parser.parse_args()
    for name in arguments.parts or ["costs", "accuracy", "tightness"]:
        for part in GROUPS.get(name, [name]):
            if part not in PARTS:
                parser.error(f"unknown part {part!r}; known parts: {', '.join([*PARTS, *GROUPS])}")
            module, function, draws = PARTS[part]
            report = getattr(importlib.import_module(f"benchmarks.{module}"), function)
            if part == "costs":
                report()
            elif part == "partitions":
                report(arguments.rows)
            elif part == "inference":
                report(arguments.repetitions, arguments.cells)
            elif draws:
                report(arguments.seeds, arguments.plots / module)
            else:
                report(arguments.seeds)


if __name__ == "__main__":
    main()
