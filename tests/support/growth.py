"""Print how many code lines each feature of the product has, now and at an earlier commit.

    python -m tests.support.growth fbd3c45a

A file counts for the first feature whose pattern its path contains. Blank lines, comments and docstrings do not count.
"""

import argparse
import io
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from tests.support.size import PRODUCT, ROOT, Module

REMAINDER = "all other files"
FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "regression tables": "inference|regression|weight|solved_tables|terms|formulas|number_functions",
        "descriptions of groups (table1)": r"table1|groups\.py|group_sums",
        "sessions of programs elsewhere": r"app/sessions/|sessions\.py|session_receipt",
        "adapters of other libraries": "purse/integrations/",
        "results as tables, plots and files": r"app/results/|purse/(coding|dates|excel|exports|frames|latex|"
        r"model|onnx_graphs|plots|prediction|results|tables|text|values|"
        r"wire/(evaluations|forecasts|profiles|results|statistics))\.py",
        "pages": "app/pages/",
        "ledgers and receipts": "accounting/records/|app/ledger/",
        "certificates of privacy": "accounting/",
        "access to data": "solvers/data_access/|app/sources/|app/datasets/",
        "client and estimators": "purse/client/|purse/estimators/",
        "command line": "app/cli/",
        "quotes, jobs and workers": "app/(calculation|jobs|quotes|worker)/",
    }
)


def sizes(root: Path) -> Counter[str]:
    """Return the code lines of each feature in a tree of the project."""
    lines: Counter[str] = Counter()
    for path in (path for folder in PRODUCT for path in (root / folder).rglob("*.py")):
        lines[feature(path.relative_to(root).as_posix())] += Module(path).code_lines
    return lines


def feature(name: str) -> str:
    """Return the feature for which a file counts."""
    return next((feature for feature, pattern in FEATURES.items() if re.search(pattern, name)), REMAINDER)


def main() -> None:
    """Print a row for each feature, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the earlier commit")
    commit: str = parser.parse_args().commit
    archive = subprocess.run(["git", "archive", commit, *PRODUCT], cwd=ROOT, check=True, capture_output=True).stdout
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        earlier = sizes(Path(folder))
    now = sizes(ROOT)
    print(f"{'feature':34s} {commit:>9s}       now    growth")
    for row in (*FEATURES, REMAINDER):
        print(f"{row:34s} {earlier[row]:9d} {now[row]:9d} {now[row] - earlier[row]:+9d}")
    print(f"{'sum':34s} {earlier.total():9d} {now.total():9d} {now.total() - earlier.total():+9d}")


if __name__ == "__main__":
    main()
