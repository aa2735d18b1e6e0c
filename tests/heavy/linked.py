"""Compare every loop and formula of a platform's wheel with numba's own, bit for bit, and time the wheel's first fit.

Usage: `make linked`, which needs a C compiler. It runs this module on each Python that `make pythons` has installed.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np

from solvers import kernels
from solvers.kernels.linked import load
from solvers.losses import Logistic, Loss
from solvers.losses.one_margin import OneMargin
from tests.support.plain_loops import walk_constants

ROWS, NUMBERS, CLASSES = 500, 5, (4, 300)


def main() -> None:
    print(f"Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder) / "wheel"
        zipfile.ZipFile(sys.argv[1]).extractall(installed)
        files = sorted((installed / "solvers/kernels").glob("loops-*.so"))
        assert files, "the wheel contains no linked loops"
        for file in files:
            try:
                linked = load(file)
            except ImportError as error:
                print(error)
            else:
                _compare_all(linked)
                print(f"{file.name}: {len(linked['ENTRIES'])} loops and all formulas have numba's bits")
        _time_fits(installed, Path(folder))


def _compare_all(linked: dict[str, Any]) -> None:
    for loss in [kind() for kind in get_args(Loss) if issubclass(kind, OneMargin)]:
        ours = loss.compiled
        theirs = ours._replace(address=linked["c_function"](loss.derivative).address)
        m, y = np.random.default_rng(1).normal(size=(2, 10_000)) * 3
        _assert_equal(kernels.derivatives(ours, m, y), linked["derivatives"](theirs, m, y))
    for framed in (False, True):
        for records in (_dense(np.float64, framed=framed), _dense(np.float32, framed=framed), _sparse(framed=framed)):
            _compare(linked, records)


def _compare(linked: dict[str, Any], records: kernels.Records) -> None:
    arguments, formula = _argument_makers(records), linked["c_function"](Logistic.derivative).address
    assert set(arguments) == set(linked["ENTRIES"]) == set(kernels.ENTRIES)
    for name, make in arguments.items():
        loss = Logistic().compiled
        ours, theirs = make(loss), make(loss._replace(address=formula))
        _assert_equal(kernels.ENTRIES[name](*ours), linked[name](*theirs))
        for own_output, linked_output in zip(ours, theirs, strict=True):
            if isinstance(own_output, np.ndarray):  # what a loop has written to
                _assert_equal(own_output, linked_output)


def _time_fits(installed: Path, folder: Path) -> None:
    """Fit twice with the wheel's modules and an empty cache of numba, and check that nothing was compiled."""
    rng, cache, file = np.random.default_rng(1), folder / "cache", folder / "people.csv"
    x = rng.uniform(size=(10_000, 3))
    labels = np.where(x.sum(axis=1) + rng.normal(size=len(x)) > 1.5, "yes", "no")
    lines = [",".join([*(f"{value:.3f}" for value in row), label]) for row, label in zip(x, labels, strict=True)]
    file.write_text("\n".join(["a,b,c,y", *lines]))
    numbers = [{"name": name, "type": "number", "lower": 0, "upper": 1} for name in "abc"]
    categories = {"name": "y", "type": "category", "categories": ["no", "yes"]}
    (folder / "schema.json").write_text(json.dumps([*numbers, categories]))
    fit = [sys.executable, "-P", "-m", "app.cli", "fit", str(file), "--target", "y", "--epsilon", "1"]
    fit += ["--budget", "3", "--schema", str(folder / "schema.json"), "--home", str(folder / "home")]
    environment = os.environ | {"PYTHONPATH": str(installed), "NUMBA_CACHE_DIR": str(cache)}
    for which in ("first", "second"):
        usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(fit, check=True, env=environment, stdout=subprocess.DEVNULL)
        usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
        print(f"{which} `purse fit` with the wheel: {seconds:.1f} CPU s")
        fit = [word for word in fit if word not in ("--budget", "3")]
    assert not list(cache.rglob("*.nb?")), "numba compiled"


def _assert_equal(actual: object, expected: object) -> None:
    if actual is None or expected is None:
        assert actual is expected
    else:
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected), strict=True)


def _dense(kind: type, *, framed: bool) -> kernels.Records:
    rng = np.random.default_rng(2)
    numbers = rng.uniform(-1, 1, (ROWS, NUMBERS)).astype(kind).view(np.uint8)
    codes = np.column_stack([rng.integers(0, 4, ROWS), np.zeros((ROWS, 2))]).astype(np.uint8)
    codes[:, 1:3] = rng.integers(0, CLASSES[1], ROWS).astype("<u2").view(np.uint8).reshape(ROWS, 2)
    size = NUMBERS + sum(CLASSES) + 1
    center, shrink = (rng.uniform(0, 1, (2, size - 1))) if framed else np.zeros((2, 0))
    return kernels.Records(
        numbers=numbers,
        codes=codes,
        categories=np.array([[0, 1, NUMBERS, CLASSES[0]], [1, 2, NUMBERS + CLASSES[0], CLASSES[1]]]),
        positions=np.arange(size),
        size=size,
        constant=1,
        center=center,
        shrink=shrink,
        intercept=0.5 if framed else 1.0,
        entry_index=np.arange(0),
        entry_values=np.zeros(0),
        is_single=kind is np.float32,
    ).read_only()


def _sparse(*, framed: bool) -> kernels.Records:
    rng, entries, d = np.random.default_rng(3), 7, 40
    offsets = np.arange(ROWS + 1) * entries
    positions = np.concatenate([np.sort(rng.choice(d - 1, entries, replace=False)) for _ in range(ROWS)])
    center, shrink = rng.uniform(0, 1, (2, d - 1)) if framed else np.zeros((2, 0))
    return kernels.Records(
        numbers=np.zeros((ROWS, 0), np.uint8),
        codes=np.zeros((ROWS, 0), np.uint8),
        categories=np.zeros((0, 4), np.int64),
        positions=np.arange(d),
        size=d,
        constant=1,
        center=center,
        shrink=shrink,
        intercept=0.5 if framed else 1.0,
        entry_index=np.append(offsets, positions),
        entry_values=rng.uniform(-1, 1, ROWS * entries),
        is_single=False,
    ).read_only()


def _argument_makers(records: kernels.Records) -> dict[str, Callable[[kernels.Slope], tuple[Any, ...]]]:
    """Return how to make each loop's arguments, new for each call, since some loops write to them."""
    rng, d, n = np.random.default_rng(4), len(records.positions), ROWS
    size, only = records.size, kernels.read_only
    w, anchor, snapshot = rng.normal(size=(3, d)) / 9
    v, weights, rows = rng.normal(size=size), rng.normal(size=n), rng.permutation(n)
    y = np.sign(rng.normal(size=n))
    scale = rng.uniform(0.1, 1, n)
    matrix = rng.normal(size=(3, d))
    magnitudes, is_negative = rng.uniform(0, 9, 5 * d), rng.random(5 * d) < 0.5
    sparse = records if len(records.entry_index) else _sparse(framed=False)
    center = rng.uniform(-1, 1, sparse.size - 1)
    table = kernels.ENTRIES["spans"](center**2)
    examples = kernels.Examples(records, only(y), only(scale))
    framed = kernels.FramedExamples(records, only(y), only(scale))
    labels = only(np.abs(y) + (y > 0))

    def walk(loss: kernels.Slope) -> tuple[Any, ...]:
        points = np.zeros((6, d))
        points[0] = w
        return (
            examples,
            kernels.WalkDraws(only(np.arange(6) * 50), only(rows), only(magnitudes), only(is_negative)),
            kernels.WalkAnchor(only(anchor), only(snapshot)),
            walk_constants(loss, batch_size=50.0),
            points,
            np.zeros(d),
            kernels.WalkStart(step=0, has_noise=False),
        )

    return {
        "slopes": lambda loss: (v.copy(), loss, y, scale, min(size, n)),
        "slope": lambda loss: (loss, 0.3, -1.0),
        "derivatives": lambda loss: (loss, weights, y),
        "margins": lambda _: (np.zeros(n), records, rows, 3, n - 3, v),
        "to_storage_order": lambda _: (records, w),
        "from_storage_order": lambda _: (records, np.append(v, np.zeros(kernels.PADDING))),
        "add_records": lambda _: (np.zeros(size + kernels.PADDING), records, weights, rows, 3, n - 3),
        "norms": lambda _: (records, True),
        "inverse_norms": lambda _: (records,),
        "spans": lambda _: (weights,),
        "from_center": lambda _: (table, np.ones(len(center)), center, sparse, 7),
        "distances": lambda _: (sparse, center, 3, n),
        "square_sums": lambda _: (sparse, center, np.abs(weights[3:]), 3),
        "gradient_sum": lambda loss: (examples, rows, w, loss),
        "change_sum": lambda loss: (examples, rows, w, anchor, loss, 0.1, 0.25),
        "margins_of": lambda _: (records, w, rows),
        "weighted_sum": lambda _: (records, weights, rows),
        "length": lambda _: (w,),
        "logistic_sum": lambda _: (framed, 0.5, w, 3, n),
        "bounded_sum": lambda loss: (framed, 0.5, loss, w, 3, n),
        "squared_sum": lambda _: (framed, 0.5, w, 3, n),
        "softmax_sum": lambda _: (framed._replace(targets=labels), 0.5, matrix, 0, n),
        "residual_sum": lambda _: (records, y, scale, w, 0.7, 3, n),
        "round_tails": lambda _: (np.zeros(d), magnitudes, is_negative, 3, 2.7),
        "fit": lambda _: (2.0, 1.0, 0.3, 20),
        "walk": walk,
        "dense_rows": lambda _: (records, scale, rows),
    }


if __name__ == "__main__":
    main()
