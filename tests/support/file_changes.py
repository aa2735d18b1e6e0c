"""Measure through how many files of the product an upload, a quote, a job and a receipt's verification lead.

    python -m tests.support.file_changes

A change of file is a call from a function into a function of another file; calls of libraries in between are skipped.
The first count has each pair of functions once, as a reader does. The second has every call, so it grows with loops.
Imports and threads that work beside the requests are left out. The first round, which also imports, is not printed.
"""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from purse import Client
from tests.support.live import live
from tests.support.service import JOB, SPEC, people

_ROOT = Path(__file__).parents[2]
_PRODUCT = tuple(f"{_ROOT / package}/" for package in ("accounting", "solvers", "purse", "app"))
_BACKGROUND = ("changes", "checkpoints", "checksums", "warm-up", "webhooks")  # threads


class Recorder:
    """Records the files that are entered, and the calls between them."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._calls: Counter[tuple[CodeType, CodeType]] = Counter()

    def enter(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a call, as a function of `sys.setprofile`. A coroutine counts once, however often it waits."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_PRODUCT) or code.co_name == "<module>":
            return
        is_resumed = code.co_code[frame.f_lasti + 1] & 3 != 0  # the argument of RESUME: after a yield or an await
        if is_resumed or threading.current_thread().name in _BACKGROUND:
            return
        self._files.add(code.co_filename)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(_PRODUCT):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self._calls[caller.f_code, code] += 1

    @contextmanager
    def walk(self, name: str) -> Iterator[None]:
        """Print the figures of the block."""
        self._files.clear()
        self._calls.clear()
        sys.setprofile(self.enter)
        yield
        sys.setprofile(None)
        if name:
            changes, repeated = len(self._calls), self._calls.total()
            print(f"{name:8s} {len(self._files):4d} files  {changes:4d} changes of file  {repeated:6d} repeated")


def _round(recorder: Recorder, client: Client, file: Path, epsilon: float, is_printed: bool) -> None:
    """Upload a new file, price a job on it, run one, and verify its receipt."""
    names = ("upload", "quote", "job", "receipt") if is_printed else ("",) * 4
    with recorder.walk(names[0]):
        dataset = client.datasets.upload(file, spec=SPEC | {"name": file.name})
    with recorder.walk(names[1]):
        client.quote(dataset=dataset, target=JOB["target"], privacy=epsilon)
    with recorder.walk(names[2]):
        job = client.jobs.submit(dataset=dataset, target=JOB["target"], privacy=epsilon / 2)  # priced again
        job.result()
    receipt = job.receipt()
    with recorder.walk(names[3]):
        receipt.verify()


def main() -> None:
    """Print the figures."""
    recorder = Recorder()
    threading.setprofile(recorder.enter)  # for the threads of the service, which start afterwards
    with tempfile.TemporaryDirectory() as home, live(Path(home)) as served, Client(served.url, served.token) as client:
        for number in (1, 2):
            file = Path(home) / f"people {number}.csv"
            file.write_bytes(people(200 + number))
            _round(recorder, client, file, number / 4, is_printed=number == 2)


if __name__ == "__main__":
    main()
