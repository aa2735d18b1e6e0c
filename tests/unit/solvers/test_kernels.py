"""Compiled loops against their plain forms, to the last bit where both are made of single operations."""

import dataclasses
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers.data_access import kernels
from solvers.losses import (
    Absolute,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    Power,
    Quantile,
    Sigmoid,
    Softmax,
    Squared,
)
from tests.support.patience import PATIENCE

Vector = NDArray[np.float64]
ROOT = Path(__file__).parents[3]
EXACT: list[Loss] = [
    Logistic(),
    Hinge(),
    HuberHinge(0.3),
    Sigmoid(),
    Squared(0.7),
    Huber(0.3),
    Absolute(),
    Quantile(0.3),
    Quantile(0.8, 0.2),
]
POWERS: list[Loss] = [Power(), Power(1.001, 3.0), Power(2.0, 0.5)]  # the two libraries' pow differ in the last bit


def coded(loss: Loss) -> kernels.Slope:
    code = kernels.slope_of(loss)
    assert code is not None
    return code


def margins(X: Vector, w: Vector) -> Vector:
    """The plain form: padded with zeros to a multiple of 8, column j to sum j mod 8, the sums by halves."""
    n, d = X.shape
    wide = np.zeros((n, -(-d // 8) * 8))
    wide[:, :d] = X * w
    lanes = np.zeros((n, 8))
    for j in range(0, wide.shape[1], 8):
        lanes += wide[:, j : j + 8]
    for half in (4, 2, 1):
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def multipliers(X: Vector, y: Vector, scale: Vector, w: Vector, loss: Loss) -> Vector:
    return np.clip(loss.slope(margins(X, w) * scale, y), -loss.slope_bound, loss.slope_bound)


def added(rows: Vector) -> Vector:
    """One row after the other."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total


def drawn(n: int, d: int, seed: int = 1) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return X, y, rng.uniform(0.2, 1.0, n), rng.standard_normal(d), rng.standard_normal(d)


@pytest.mark.parametrize("loss", [*EXACT, *POWERS], ids=repr)
def test_slopes_are_the_losses_own(loss: Loss) -> None:
    """At random margins, at kinks and their neighbors, and out to where everything overflows."""
    rng, code = np.random.default_rng(2), coded(loss)
    ends = [0.0, -0.0, 1.0, -1.0, 0.3, 0.7, 1.3, 1e-300, 30.0, 36.8, 700.0, 709.9, 745.2, 1e10, 1e200]
    near = [float(np.nextafter(m, up)) for m in ends for up in (-np.inf, np.inf)]
    m = np.array([*ends, *near, *rng.standard_normal(20_000), *(rng.standard_normal(2000) * 100)])
    m = np.concatenate([m, -m])
    for y in [1.0, -1.0] if loss.takes == "class" else [1.0, -1.0, 0.0, 0.3, 1e300]:
        with np.errstate(over="ignore"):
            plain = np.clip(loss.slope(m, np.full_like(m, y)), -loss.slope_bound, loss.slope_bound)
        found = np.array([kernels.slope(code, float(v), y) for v in m])
        assert np.abs(found).max() <= loss.slope_bound
        if loss in POWERS:
            np.testing.assert_allclose(found, plain, rtol=1e-15, atol=0)
        else:
            np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("loss", [*EXACT, *POWERS], ids=repr)
def test_no_parameter_of_a_loss_is_left_out(loss: Loss) -> None:
    """A loss that is compiled as a rougher one has no curvature bound, and everything that contracts fails with it."""
    for field in dataclasses.fields(loss):
        if field.name != "name":
            changes: dict[str, Any] = {field.name: getattr(loss, field.name) * 0.9995 or 0.2}
            other = dataclasses.replace(loss, **changes)
            assert kernels.slope_of(other) != kernels.slope_of(loss), field.name
    assert kernels.slope_of(loss) is not None
    assert {type(known) for known in [*EXACT, *POWERS]} == set(get_args(Loss)) - {Softmax}


@pytest.mark.parametrize("loss", [f for f in [*EXACT, *POWERS] if math.isfinite(f.curvature_bound)], ids=repr)
def test_a_compiled_slope_bends_no_more_than_the_loss_says(loss: Loss) -> None:
    code, m = coded(loss), np.linspace(-2.0, 2.0, 4001)
    slopes = np.array([kernels.slope(code, float(v), 1.0) for v in m])
    assert np.abs(np.diff(slopes)).max() <= loss.curvature_bound * 1e-3 * (1 + 1e-9)


def test_a_loss_of_several_outputs_has_no_compiled_form() -> None:
    assert kernels.slope_of(Softmax(3)) is None


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 16, 54, 117])
def test_sums_are_the_plain_ones_to_the_last_bit(d: int) -> None:
    X, y, scale, w, anchor = drawn(300, d)
    loss, code = Logistic(), coded(Logistic())
    slopes = multipliers(X, y, scale, w, loss)
    own = (slopes * scale)[:, None] * X
    np.testing.assert_array_equal(kernels.sum_of_range(X, y, scale, 17, 290, w, code), added(own[17:290]))
    places = np.random.default_rng(4).permutation(300)[:101]
    np.testing.assert_array_equal(kernels.sum_of_places(X, y, scale, places, w, code), added(own[places]))
    for limit in (1e-3, 0.1, 2.0):
        change = np.clip(slopes - multipliers(X, y, scale, anchor, loss), -limit, limit) * scale
        np.testing.assert_array_equal(
            kernels.sum_of_changes(X, y, scale, places, w, anchor, code, limit), added((change[:, None] * X)[places])
        )
    np.testing.assert_array_equal(kernels.norms(X), np.sqrt(np.concatenate([margins(x[None], x) for x in X])))


@pytest.mark.parametrize("d", [5, 54, 64])
def test_a_records_slope_is_the_same_wherever_it_stands(d: int) -> None:
    """Alone, in every position of every batch, at every alignment of the array: the same bits."""
    X, y, scale, w, _ = drawn(64, d, seed=5)
    code = coded(Logistic())
    alone = [kernels.sum_of_range(X, y, scale, i, i + 1, w, code) for i in range(64)]
    for shift in range(8):
        room = np.zeros(64 * d + shift)
        moved = room[shift:].reshape(64, d)
        moved[:] = X
        order = np.roll(np.arange(64), shift)
        for i in range(64):
            only = scale * (np.arange(64) == i)  # the others add zeros
            margin_scale = np.where(only > 0, only, 0.0)
            np.testing.assert_array_equal(kernels.sum_of_places(moved, y, margin_scale, order, w, code), alone[i])


def test_readonly_and_mapped_rows_need_no_other_compilation(tmp_path: Path) -> None:
    X, y, scale, w, _ = drawn(50, 6)
    np.save(tmp_path / "X.npy", X)
    mapped = np.require(np.load(tmp_path / "X.npy", mmap_mode="r"), requirements=["C", "A", "E"])
    code = coded(Logistic())
    np.testing.assert_array_equal(
        kernels.sum_of_range(mapped, y, scale, 0, 50, w, code), kernels.sum_of_range(X, y, scale, 0, 50, w, code)
    )


_FRESH = """
import numpy as np, solvers.data_access.kernels as k
from solvers.losses import Logistic
compiled = [f for f in vars(k).values() if hasattr(f, "signatures")]
before = [len(f.signatures) for f in compiled]
k.sum_of_range(np.ones((3, 2)), np.ones(3), np.ones(3), 0, 3, np.ones(2), k.slope_of(Logistic()))
hits, misses = (sum(sum(c.values()) for c in (getattr(f.stats, n) for f in compiled)) for n in
                ("cache_hits", "cache_misses"))
assert before == [len(f.signatures) for f in compiled] == [1] * len(compiled)
print(hits, misses, len(compiled))
"""


def _fresh(environment: dict[str, str]) -> list[int]:
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _FRESH], env=kept | environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.slow
def test_the_import_compiles_all_and_the_next_one_loads_it_from_the_cache(tmp_path: Path) -> None:
    """Nothing is compiled by a first call, so never in a job: a worker imports this module as it starts."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    hits, misses, count = _fresh(environment)
    assert (hits, misses) == (0, count)
    hits, misses, count = _fresh(environment)
    assert (hits, misses) == (count, 0)


@pytest.mark.slow
def test_without_a_folder_to_write_it_still_loads(tmp_path: Path) -> None:
    """A read-only source and no home, as a service may have: compiled in memory."""
    shutil.copytree(ROOT / "solvers", tmp_path / "solvers", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "solvers" / "__pycache__").write_text("a file where the cache would be")
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), "/proc/nowhere")
    assert _fresh({"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", **nowhere})[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("entrance", ["app.main", "app.worker.task"])
def test_server_and_worker_load_the_loops_as_they_start(entrance: str) -> None:
    """Before the one is ready and the other takes a job."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    code = f"import sys, {entrance}; sys.exit('solvers.data_access.kernels' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=kept, timeout=PATIENCE).returncode == 0
