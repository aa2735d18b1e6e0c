"""Loops linked into one file, which give numba's bits without numba and refuse arguments of another type."""

import ctypes
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers import kernels
from solvers.kernels import linked
from solvers.losses import Logistic, Quantile

ROOT = Path(__file__).parents[3]
_LINK = """
import runpy, sys
from pathlib import Path
from solvers.kernels import build, slopes
from solvers.kernels.digests import of_function
from solvers.losses import Quantile
formulas = {of_function(Quantile.derivative): build.c_function(Quantile.derivative)}
runpy.run_path(sys.argv[1])["link"](Path(sys.argv[2]), build.ENTRIES, formulas, {"MOST_PARAMETERS": 3})
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to link with"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One module's loops and one formula; `make linked` compares all of them."""
    folder = tmp_path_factory.mktemp("linked")
    library = linked.file_of("x86-64-v2" if platform.machine() == "x86_64" else "generic", folder)
    link = [sys.executable, "-c", _LINK, str(ROOT / "building/link.py"), str(library)]
    subprocess.run(link, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", "NUMBA_CACHE_DIR": str(folder / "cache")})
    return library


def _losses(loops: dict[str, Any]) -> tuple[kernels.Slope, kernels.Slope]:
    """The same loss for numba's loops and for the linked ones."""
    loss = Quantile(0.3).compiled
    return loss, loss._replace(address=loops["c_function"](Quantile.derivative).address)


def test_every_bit_is_the_same(file: Path) -> None:
    loops = linked.load(file)
    ours, theirs = _losses(loops)
    m, y = np.random.default_rng(5).normal(size=(2, 200))
    np.testing.assert_array_equal(loops["derivatives"](theirs, m, y), kernels.derivatives(ours, m, y))
    assert loops["slope"](theirs, 0.25, 1) == kernels.slope(ours, 0.25, 1.0)
    linked_slopes, compiled_slopes, scale = m.copy(), m.copy(), np.full(200, 0.5)
    assert loops["slopes"](linked_slopes, theirs, y, scale, 200) is None
    assert kernels.ENTRIES["slopes"](compiled_slopes, ours, y, scale, 200) is None
    np.testing.assert_array_equal(linked_slopes, compiled_slopes)
    assert loops["derivatives"](theirs, m[:0], y[:0]).shape == (0,)


def test_arguments_of_another_type_are_refused(file: Path) -> None:
    loops = linked.load(file)
    _, loss = _losses(loops)
    m, y = np.zeros(6), np.zeros(6)
    for wrong in (m[::2], m.astype(np.float32), m.reshape(2, 3), m.tolist(), np.ma.masked_array(m)):
        with pytest.raises(TypeError):
            loops["derivatives"](loss, wrong, y)
    locked = m.copy()
    locked.flags.writeable = False
    loops["derivatives"](loss, locked, y)
    for arguments in ((locked, loss, y, m, 6), (m, loss, y, m, 6.0), (m, loss[:4], y, m, 6)):
        with pytest.raises(TypeError):
            loops["slopes"](*arguments)


def _with_other_sources(file: Path, copy: Path) -> Path:
    shutil.copy(file, copy)
    description = file.with_suffix(".json").read_text()
    copy.with_suffix(".json").write_text(description.replace('"sources": "', '"sources": "0'))
    return copy


def test_a_formula_that_was_not_linked_is_compiled(file: Path) -> None:
    loops = linked.load(file)
    m, y = np.random.default_rng(6).normal(size=(2, 50))
    ours = Logistic().compiled
    theirs = ours._replace(address=loops["c_function"](Logistic.derivative).address)
    np.testing.assert_array_equal(loops["derivatives"](theirs, m, y), kernels.derivatives(ours, m, y))


def test_a_file_of_other_sources_is_refused(file: Path, tmp_path: Path) -> None:
    """The file is refused before it is opened, because it is not a library and opening it would raise OSError."""
    foreign = _with_other_sources(file, tmp_path / "other.so")
    foreign.write_bytes(b"")
    with pytest.raises(ImportError, match="other sources"):
        linked.load(foreign)


def test_a_file_for_a_newer_processor_is_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Newer(ctypes.CDLL):
        def runs_here(self) -> int:
            return 0

    assert ctypes.CDLL(str(file)).runs_here() == 1
    for source in (file, file.with_suffix(".json")):
        shutil.copy(source, tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", Newer)
    with pytest.raises(ImportError, match="processor"):
        linked.load(tmp_path / file.name)


def test_the_first_file_that_fits_is_used_and_without_one_numba_compiles(file: Path, tmp_path: Path) -> None:
    for name in ("stale", "foreign", "mixed"):
        (tmp_path / name).mkdir()
    newest, *older = linked.LEVELS
    assert linked.loops(tmp_path) is None
    _with_other_sources(file, linked.file_of(newest, tmp_path / "stale"))
    assert linked.loops(tmp_path / "stale") is None
    foreign = linked.file_of(newest, tmp_path / "foreign")
    foreign.write_bytes(b"a library of another platform")
    shutil.copy(file.with_suffix(".json"), foreign.with_suffix(".json"))
    assert linked.loops(tmp_path / "foreign") is None
    _with_other_sources(file, linked.file_of(newest, tmp_path / "mixed"))
    fitting = linked.file_of(older[-1], tmp_path / "mixed")
    shutil.copy(file, fitting)
    shutil.copy(file.with_suffix(".json"), fitting.with_suffix(".json"))
    assert linked.loops(tmp_path / "mixed") is linked.load(fitting)
