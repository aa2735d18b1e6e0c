"""Run benchmarks: `python -m benchmarks [PART ...] [--seeds N] [--plots FOLDER]`.

Without a part these are costs, accuracy and tightness.
"""

import argparse
import importlib
import inspect
import os
from pathlib import Path

# One thread, as in the workers; these variables must be set before numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
# Parts of the function `report` in the module of their name. `growth`, `nonsmooth` and the paper draw plots, with
# packages that `make paper` installs; `fit` and `peers` need the environment of `make peers`.
REPORTS = (
    "costs accuracy tuning wide running last_iterate growth nonsmooth coded quotes admitted tightness fit ours "
    "profiles forecast trials variants partitions inference load start scale peers"
)
# Parts of another function: module and function.
OTHER_PARTS = {
    "centred": ("accuracy", "centred"),
    "erm_curves": ("erm_revisited", "curves"),
    "erm_growth": ("erm_revisited", "growth"),
    "newest": ("peers", "newest"),
    "passes": ("nonsmooth", "passes"),
    "preparation": ("ours", "preparation"),
    "steps": ("trials", "steps"),
    "small": ("trials", "small"),
    "descent": ("trials", "descent"),
}
PARTS = {name: (name, "report") for name in REPORTS.split()} | OTHER_PARTS
GROUPS = {"erm_revisited": ["erm_curves", "erm_growth"]}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=", ".join([*PARTS, *GROUPS]))
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell")
    parser.add_argument(
        "--rows", type=int, default=10**7, help="number of rows for `partitions`; each takes 83 bytes on disk"
    )
    parser.add_argument("--charges", type=int, default=10**6, help="number of charges for `scale`")
    parser.add_argument("--repetitions", type=int, default=1000, help="tables per cell of `inference`")
    parser.add_argument(
        "--cells",
        default="",
        help="regular expression: cells of `inference` such as 'linear .* d=10 ', methods of `peers`, or `variants`",
    )
    parser.add_argument(
        "--plots", type=Path, default=DOCS, help="folder for plots, which are written into a subfolder for each part"
    )
    options = vars(parser.parse_args())
    for name in options["parts"] or ["costs", "accuracy", "tightness"]:
        for part in GROUPS.get(name, [name]):
            if part not in PARTS:
                parser.error(f"unknown part {part!r}; known parts: {', '.join([*PARTS, *GROUPS])}")
            _run(part, options)


def _run(part: str, options: dict[str, object]) -> None:
    """Call the function of a part with the options that its parameters name."""
    from benchmarks.datasets import MissingDataset

    module, function = PARTS[part]
    report = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    values = options | {"plots": Path(str(options["plots"])) / module}
    try:
        report(**{name: values[name] for name in inspect.signature(report).parameters})
    except MissingDataset as error:
        print(f"{part}: {error}")


if __name__ == "__main__":
    main()
