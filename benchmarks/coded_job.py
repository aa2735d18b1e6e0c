"""One job on records like Adult's in its own process, and its memory besides the mapped files."""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

from accounting.privacy import Privacy
from app.sources.design import Design
from app.sources.matrix import CodedWriter, checksum, write_meta
from app.sources.singles import ends
from app.sources.spec import JobSpec
from app.wire import JobPrivacy, JobRequest
from app.worker.execute import Payload, run
from benchmarks.served import anonymous_bytes
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from solvers import plan
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.selection import Auto

_ROWS = 100_000


def stored(folder: Path, n: int, widths: tuple[int, ...]) -> list[Column]:
    """Write n records as an upload does, with the target as the last column, and return the declaration."""
    columns: list[Column] = [
        NumberColumn(name=f"x{j}", type="number", lower=-1.0, upper=1.0)
        if width == 1
        else CategoryColumn(name=f"x{j}", type="category", categories=[str(k) for k in range(width - 1)])
        for j, width in enumerate((*widths, 3))
    ]
    rng = np.random.default_rng(1)
    with CodedWriter(folder, [column.code_count for column in columns], ends(columns)) as writer:
        for start in range(0, n, _ROWS):
            block = rng.uniform(-1, 1, (min(_ROWS, n - start), len(columns)))
            for j, column in enumerate(columns):
                if isinstance(column, CategoryColumn):
                    block[:, j] = rng.integers(0, len(column.categories), len(block))
            writer.append(block)
    write_meta(folder, columns, {"rows": n})
    return columns


class Peak(threading.Thread):
    """A thread that samples the memory of this process without pages of files, and has its largest value."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.largest = anonymous_bytes()
        self.start()

    def run(self) -> None:
        """Sample until the process ends."""
        while True:
            self.largest = max(self.largest, anonymous_bytes())
            time.sleep(0.002)


def main() -> None:
    """Run `python -m benchmarks.coded_job FOLDER N WIDTH ...`; a number has width 1, and a category its levels."""
    folder = Path(sys.argv[1])
    n = int(sys.argv[2])
    columns = stored(folder, n, tuple(map(int, sys.argv[3:])))
    dataset = DatasetSpec(name="benchmark", columns=columns, budget=Budget(epsilon=1.0, delta=1e-9))
    target = columns[-1]
    request = JobRequest(dataset="ds", target=target.name, privacy=JobPrivacy(epsilon=1.0))
    design = Design.of(dataset, request)
    problem = Problem(Logistic(), n=n, d=design.d, row_norm=design.row_norm, columns=design.columns)
    quote = plan(Auto(), problem, Privacy(1.0, 1e-9))
    spec = JobSpec(
        design=design,
        problem=quote.problem,
        method=quote.method,
        preparation=quote.preparation,
        release_plan=quote.release,
    )
    payload = Payload(folder=str(folder), scratch=str(folder / "scratch"), checksum=checksum(folder), spec=spec)
    memory = Peak()
    start = time.perf_counter()
    assert "coefficients" in json.loads(run(payload.model_dump_json()))
    size = sum((folder / name).stat().st_size for name in ("numbers.npy", "codes.npy"))
    sizes = {"anonymous": memory.largest - memory.first, "all": memory.largest, "stored": size}
    print(json.dumps(sizes | {"seconds": time.perf_counter() - start, "method": quote.method.name}))


if __name__ == "__main__":
    main()
