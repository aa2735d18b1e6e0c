"""The image's compiled loops: made once for one kind of processor, then only read."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# Every signature of every compiled loop, and how many of them came from the cache.
_COUNT = """
import app.worker.task
from solvers import kernels
found = kernels.ENTRIES.values()
print(sum(len(f.signatures) for f in found), sum(sum(f.stats.cache_hits.values()) for f in found))
"""


def _environment() -> dict[str, str]:
    """What the Dockerfile sets for numba, for the processor that it names by default."""
    text = (ROOT / "Dockerfile").read_text()
    [processor] = re.findall(r"^ARG LOOPS=(.+)$", text, re.MULTILINE)
    final = text.rpartition("\nFROM ")[2]
    found = dict(re.findall(r"(NUMBA_\w+)=(\S*)", final))
    return {name: value.strip("'").replace("${LOOPS}", processor) for name, value in found.items()}


def _start(folder: Path, environment: dict[str, str]) -> tuple[int, int]:
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = kept | environment | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", _COUNT], env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    all_of_them, from_cache = map(int, done.stdout.split())
    return all_of_them, from_cache


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the Dockerfile's default processor is an x86-64")
def test_what_the_image_has_compiled_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    settings = _environment()
    locator = settings.pop("NUMBA_CACHE_LOCATOR_CLASSES")
    count, hits = _start(tmp_path, settings)
    assert count >= 10
    assert hits == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert _start(tmp_path, settings | {"NUMBA_CACHE_LOCATOR_CLASSES": locator}) == (count, count)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
