"""Every loop and every formula, linked into one file as for the image, beside numba's own: the same bits, or it fails.

Usage: `make linked`, which needs a C compiler.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np

from solvers import kernels
from solvers.kernels.linked import load
from solvers.losses import Logistic, Loss
from solvers.losses.one_margin import OneMargin

ROOT = Path(__file__).parents[2]
ROWS, NUMBERS, CLASSES = 500, 5, (4, 300)
Records = tuple[Any, ...]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "loops.so"
        fresh = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/cache"}
        subprocess.run([sys.executable, ROOT / "docker/link.py", file], check=True, cwd=ROOT, env=fresh)
        linked = load(file)
        for loss in [kind() for kind in get_args(Loss) if issubclass(kind, OneMargin)]:
            ours, theirs = loss.compiled, (linked["c_function"](loss.derivative).address, *loss.compiled[1:])
            m, y = np.random.default_rng(1).normal(size=(2, 10_000)) * 3
            _same(kernels.derivatives(ours, m, y), linked["derivatives"](theirs, m, y))
            print(f"{loss.name}: the same")
        for framed in (False, True):
            for records in (
                _dense(np.float64, framed=framed),
                _dense(np.float32, framed=framed),
                _sparse(framed=framed),
            ):
                _compare(linked, records)


def _compare(linked: dict[str, Any], records: Records) -> None:
    given, formula = _given(records), linked["c_function"](Logistic.derivative).address
    assert set(given) == set(linked["ENTRIES"]) == set(kernels.ENTRIES)
    for name, make in given.items():
        ours, theirs = make(Logistic().compiled), make((formula, *Logistic().compiled[1:]))
        _same(kernels.ENTRIES[name](*ours), linked[name](*theirs))
        for one, other in zip(ours, theirs, strict=True):
            if isinstance(one, np.ndarray):  # what a loop has written to
                _same(one, other)
        print(f"{name}: the same")


def _same(one: object, other: object) -> None:
    if one is None or other is None:
        assert one is other
    else:
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), strict=True)


def _dense(kind: type, *, framed: bool) -> Records:
    rng = np.random.default_rng(2)
    numbers = rng.uniform(-1, 1, (ROWS, NUMBERS)).astype(kind).view(np.uint8)
    codes = np.column_stack([rng.integers(0, 4, ROWS), np.zeros((ROWS, 2))]).astype(np.uint8)
    codes[:, 1:3] = rng.integers(0, CLASSES[1], ROWS).astype("<u2").view(np.uint8).reshape(ROWS, 2)
    fields = np.array([[0, 1, NUMBERS, CLASSES[0]], [1, 2, NUMBERS + CLASSES[0], CLASSES[1]]])
    size = NUMBERS + sum(CLASSES) + 1
    center, scale = (rng.uniform(0, 1, (2, size - 1))) if framed else np.zeros((2, 0))
    frame = center, scale, 0.5 if framed else 1.0
    return numbers, codes, fields, np.arange(size), size, 1, *frame, np.arange(0), np.zeros(0), kind is np.float32


def _sparse(*, framed: bool) -> Records:
    rng, each, d = np.random.default_rng(3), 7, 40
    begin = np.arange(ROWS + 1) * each
    coordinates = np.concatenate([np.sort(rng.choice(d - 1, each, replace=False)) for _ in range(ROWS)])
    none = np.zeros((ROWS, 0), np.uint8), np.zeros((ROWS, 0), np.uint8), np.zeros((0, 4), np.int64)
    center, scale = rng.uniform(0, 1, (2, d - 1)) if framed else np.zeros((2, 0))
    frame = center, scale, 0.5 if framed else 1.0
    entries = np.append(begin, coordinates), rng.uniform(-1, 1, ROWS * each)
    return (*none, np.arange(d), d, 1, *frame, *entries, False)


def _given(records: Records) -> dict[str, Callable[[kernels.Slope], tuple[Any, ...]]]:
    """What each loop is called with, made anew for each call, since some write to it; of the loss's two addresses."""
    rng, d, n = np.random.default_rng(4), len(records[3]), ROWS
    size: int = records[4]
    numbers, codes, fields, _, _, constant, _, _, _, pairs, values, single = records
    w, anchor, snapshot = rng.normal(size=(3, d)) / 9
    v, weights, places = rng.normal(size=size), rng.normal(size=n), rng.permutation(n)
    y = np.sign(rng.normal(size=n))
    scale = rng.uniform(0.1, 1, n)
    matrix = rng.normal(size=(3, d))
    sizes, negative = rng.uniform(0, 9, 5 * d), rng.random(5 * d) < 0.5
    beside = records if len(pairs) else _sparse(framed=False)
    center = rng.uniform(-1, 1, beside[4] - 1)
    table = kernels.ENTRIES["spans"](center**2)
    public = (0.25, 1.0, 1.0, 50.0, 1e-9, 1e-9, 2.0, 1.0, 20.0, 0.5, 1.0, 1e6, 0.25, 1e-9, 1e-9)

    def walk(loss: kernels.Slope) -> tuple[Any, ...]:
        noise, points = np.zeros(d), np.zeros((5, d))
        batches = np.arange(6) * 50, places, sizes, negative, noise, 0, False
        return records, y, scale, loss, *batches, w, anchor, snapshot, points, public

    return {
        "slopes": lambda loss: (v.copy(), loss, y, scale, min(size, n)),
        "slope": lambda loss: (loss, 0.3, -1.0),
        "derivatives": lambda loss: (loss, weights, y),
        "entries": lambda _: (np.zeros(n), pairs, values, n, places, 3, n - 3, v),
        "add_entries": lambda _: (np.zeros(size + 8), pairs, values, n, weights, places, 3, n - 3),
        "margins": lambda _: (np.zeros(n), numbers, single, codes, fields, constant, places, 3, n - 3, v),
        "inward": lambda _: (records, w),
        "outward": lambda _: (records, np.append(v, np.zeros(8))),
        "add_records": lambda _: (
            np.zeros(size + 8),
            numbers,
            single,
            codes,
            fields,
            constant,
            weights,
            places,
            3,
            n - 3,
        ),
        "norms": lambda _: (records, True),
        "inverse_norms": lambda _: (records,),
        "spans": lambda _: (weights,),
        "from_center": lambda _: (table, np.ones(len(center)), center, beside[9], beside[10], n, 7),
        "distances": lambda _: (beside, center, 3, n),
        "square_sums": lambda _: (beside, center, np.abs(weights[3:]), 3),
        "sum_of_places": lambda loss: (records, y, scale, places, w, loss),
        "sum_of_changes": lambda loss: (records, y, scale, places, w, anchor, loss, 0.1, 0.25),
        "margins_of": lambda _: (records, w, places),
        "weighted_sum": lambda _: (records, weights, places),
        "length": lambda _: (w,),
        "scalar_sum": lambda _: (records, y, scale, 0.5, w, True, 3, n),
        "softmax_sum": lambda _: (records, np.abs(y) + (y > 0), scale, 0.5, matrix, 0, n),
        "residual_sum": lambda _: (records, y, scale, w, 0.7, 3, n),
        "round_tails": lambda _: (np.zeros(d), sizes, negative, 3, 2.7),
        "fit": lambda _: (2.0, 1.0, 0.3, 20),
        "walk": walk,
        "rows": lambda _: (records, scale, places),
    }


if __name__ == "__main__":
    main()
