"""One job on records like Adult's in its own process, and its memory besides the mapped files."""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

from accounting.privacy import Privacy
from app.sources.design import Design, load
from app.sources.matrix import CodedWriter, checksum, code_count, write_meta
from app.sources.singles import ends
from app.wire import JobPrivacy, JobRequest
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from solvers import plan
from solvers.data_access.data import Data
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.selection import Auto
from solvers.solve import run

_ROWS = 100_000


def stored(folder: Path, n: int, widths: tuple[int, ...]) -> list[Column]:
    """Writes n records as an upload would, the last column the target; returns the declaration."""
    columns: list[Column] = [
        NumberColumn(name=f"x{j}", type="number", lower=-1.0, upper=1.0)
        if width == 1
        else CategoryColumn(name=f"x{j}", type="category", categories=[str(k) for k in range(width - 1)])
        for j, width in enumerate((*widths, 3))
    ]
    rng = np.random.default_rng(1)
    with CodedWriter(folder, [code_count(column) for column in columns], ends(columns)) as writer:
        for start in range(0, n, _ROWS):
            block = rng.uniform(-1, 1, (min(_ROWS, n - start), len(columns)))
            for j, column in enumerate(columns):
                if isinstance(column, CategoryColumn):
                    block[:, j] = rng.integers(0, len(column.categories), len(block))
            writer.append(block)
    write_meta(folder, columns, {"rows": n})
    return columns


class Peak(threading.Thread):
    """The most memory that this process holds of its own, pages of files left out, looked at all the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.most = self._now()
        self.start()

    def run(self) -> None:
        """Sample until the process ends."""
        while True:
            self.most = max(self.most, self._now())
            time.sleep(0.002)

    def _now(self) -> int:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) * 1024


def main() -> None:
    """`python -m benchmarks.coded_job FOLDER N WIDTH ...`: of each column, 1 for a number, else its categories."""
    folder = Path(sys.argv[1])
    n = int(sys.argv[2])
    columns = stored(folder, n, tuple(map(int, sys.argv[3:])))
    spec = DatasetSpec(name="benchmark", columns=columns, budget=Budget(epsilon=1.0, delta=1e-9))
    target = columns[-1]
    request = JobRequest(dataset="ds", target=target.name, privacy=JobPrivacy(epsilon=1.0))
    design = Design.of(spec, request)
    problem = Problem(Logistic(), n=n, d=design.d, row_norm=design.row_norm, columns=design.columns)
    quote = plan(Auto(), problem, Privacy(1.0, 1e-9))
    memory = Peak()
    start = time.perf_counter()
    checksum(folder)
    data = Data.coded(*load(design, folder, folder), problem)
    run(quote.method, problem, data, quote.release)
    size = sum((folder / name).stat().st_size for name in ("numbers.npy", "codes.npy"))
    told = {"anonymous": memory.most - memory.first, "all": memory.most, "stored": size}
    print(json.dumps(told | {"seconds": time.perf_counter() - start, "method": quote.method.name}))


if __name__ == "__main__":
    main()
