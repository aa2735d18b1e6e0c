"""Linked into one file, the loops give numba's bits without numba, and read no argument that is not theirs."""

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
    found = folder / "loops.so"
    link = [sys.executable, "-c", _LINK, str(ROOT / "docker/link.py"), str(found)]
    subprocess.run(link, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", "NUMBA_CACHE_DIR": str(folder / "cache")})
    return found


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
    one, other, scale = m.copy(), m.copy(), np.full(200, 0.5)
    assert loops["slopes"](one, theirs, y, scale, 200) is None
    assert kernels.ENTRIES["slopes"](other, ours, y, scale, 200) is None
    np.testing.assert_array_equal(one, other)
    assert loops["derivatives"](theirs, m[:0], y[:0]).shape == (0,)


def test_what_is_not_its_own_is_not_read(file: Path) -> None:
    loops = linked.load(file)
    _, loss = _losses(loops)
    m, y = np.zeros(6), np.zeros(6)
    for wrong in (m[::2], m.astype(np.float32), m.reshape(2, 3), m.tolist(), np.ma.masked_array(m)):
        with pytest.raises(TypeError):
            loops["derivatives"](loss, wrong, y)
    held = m.copy()
    held.flags.writeable = False
    loops["derivatives"](loss, held, y)
    for given in ((held, loss, y, m, 6), (m, loss, y, m, 6.0), (m, loss[:4], y, m, 6)):
        with pytest.raises(TypeError):
            loops["slopes"](*given)


def test_other_sources_and_unknown_formulas_are_refused(file: Path) -> None:
    with pytest.raises(AttributeError):
        linked.load(file)["c_function"](Logistic.derivative)
    other = file.with_name("other.so")
    shutil.copy(file, other)
    other.with_suffix(".json").write_text(
        file.with_suffix(".json").read_text().replace('"sources": "', '"sources": "0')
    )
    with pytest.raises(ImportError, match="other sources"):
        linked.load(other)
