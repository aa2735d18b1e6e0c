"""Data: each record passes the same map on its own, and no row is longer than R."""

import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solvers import Problem
from solvers.bounds import BLOCK, GROUP, block_rows, unfolded_rows
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.data import Data, pieces
from solvers.data_access.rows import Coded, slices
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Squared
from solvers.solve import data_of

ABSURD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e160, 5e-324, 0.0]


def test_long_rows_are_scaled_and_short_ones_left_alone() -> None:
    problem = Problem(Squared(), n=3, d=2, row_norm=1.0)
    data = inputs.of_arrays(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), np.zeros(3), problem)
    assert data.scale == pytest.approx([0.2, 1.0, 1.0])
    assert rows_of(data)[0] == pytest.approx([0.6, 0.8])


def test_no_row_is_longer_than_its_norm() -> None:
    problem = Problem(Squared(), n=5000, d=40, row_norm=2.5)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 40)) * 10.0 ** rng.uniform(-20, 20, (5000, 1))
    data = inputs.of_arrays(X, np.zeros(5000), problem)
    norms = np.linalg.norm(rows_of(data).astype(np.longdouble), axis=1)
    assert norms.max() <= 2.5 * (1 + 48 * 2.0**-53)
    assert norms.max() >= 2.5 * (1 - 48 * 2.0**-53)


@pytest.mark.parametrize("value", ABSURD)
def test_absurd_rows_become_rows_of_norm_at_most_r_and_change_no_other_row(value: float) -> None:
    problem = Problem(Logistic(), n=4, d=2, row_norm=1.0)
    X = np.array([[0.1, 0.2], [value, 0.5], [value, value], [0.3, 0.4]])
    original = X.copy()
    data = inputs.of_arrays(X, np.array([1.0, value, -1.0, 1.0]), problem)
    rows = rows_of(data)
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    assert rows[[0, 3]].tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert set(data.y) <= {-1.0, 1.0}
    assert np.array_equal(X, original, equal_nan=True)  # the caller's array is unchanged


def test_each_record_is_mapped_alone() -> None:
    rng = np.random.default_rng(2)
    X = rng.choice([*ABSURD, 0.5, 2.0], (64, 3))
    y = rng.choice([*ABSURD, 1.0, -1.0], 64)
    for loss in (Logistic(), Squared()):
        whole = inputs.of_arrays(X, y, Problem(loss, n=64, d=3, row_norm=1.0))
        for i in range(64):
            alone = inputs.of_arrays(X[i : i + 1], y[i : i + 1], Problem(loss, n=1, d=3, row_norm=1.0))
            assert np.array_equal(rows_of(alone)[0], rows_of(whole)[i])
            assert alone.y[0] == whole.y[i]


def test_a_memory_map_of_the_service_is_not_copied(tmp_path: Path) -> None:
    stored = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=(100, 3))
    stored[:] = np.arange(300.0).reshape(100, 3)
    problem = Problem(Squared(), n=100, d=3, row_norm=1.0)
    data = Data.coded(inputs.plain(stored), np.zeros(100), problem, in_place=True)
    assert np.shares_memory(data.records.numbers, stored)
    assert type(data.records.numbers) is np.ndarray


@pytest.mark.parametrize("form", ["array", "declared", "table", "sparse"])
def test_broken_rows_make_no_other_copies(form: str) -> None:
    """A copy made only for a broken row would reveal that row through the time of a run.

    The test compares the memory that NumPy reports: its peak, and the rest afterwards. Both differ by a few objects.
    """
    n, columns = 20_000, Columns((1, 3, 1), ((-1.0, 1.0), (0.0, 1.0)))
    declared = Problem(Logistic(), n=n, d=columns.d, row_norm=columns.row_norm, columns=columns)
    problem = Problem(Logistic(), n=n, d=6, row_norm=1.0) if form in ("array", "sparse") else declared
    X, y = np.tile([0.5, 1.0, 0.0, 0.0, 0.5, 1.0], (n, 1)), np.ones(n)

    def work(broken: slice) -> tuple[int, int]:
        rows = X.copy()
        rows[broken, :2] = np.nan
        features: Any = sparse.csr_array(rows) if form == "sparse" else rows
        if form == "table":
            features = {"a": rows[:, 0], "b": rows[:, 1] - 1, "c": rows[:, 4]}
        tracemalloc.start()
        try:
            data = data_of(problem, features, y)
            remaining, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not np.shares_memory(data.records.numbers, rows)
        return remaining, peak

    work(slice(0))  # the first use also loads modules
    measurements = np.array([work(slice(0)), work(slice(7, 8)), work(slice(None))])
    assert np.ptp(measurements, axis=0).max() < n


def test_shapes_and_types_must_be_the_problems() -> None:
    problem = Problem(Squared(), n=3, d=2, row_norm=1.0)
    wrong: tuple[tuple[Any, Any], ...] = (
        (np.zeros((2, 2)), np.zeros(2)),
        (np.zeros((3, 1)), np.zeros(3)),
        (np.zeros((3, 2)), np.zeros((3, 1))),
        (np.zeros((3, 2), dtype=np.float32), np.zeros(3)),
        (np.zeros((3, 2)), np.zeros(3, dtype=np.int64)),
    )
    for X, y in wrong:
        with pytest.raises(Unsuitable):
            inputs.of_arrays(X, y, problem)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 54, 10**6])
@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, GROUP + 1])
def test_blocks_cover_every_row_once_in_order(n: int, d: int) -> None:
    problem = Problem(Squared(), n=n, d=d, row_norm=1.0)
    all_rows = np.arange(n)
    assert np.array_equal(np.concatenate([all_rows[rows] for rows in slices(n, d)]), all_rows)
    assert max(rows.stop - rows.start for rows in slices(n, d)) <= unfolded_rows(d) <= max(BLOCK, d)
    limit = block_rows(problem)
    assert limit <= min(GROUP, max(BLOCK, d))
    for places in (slice(0, n), all_rows, slice(n // 3, n), all_rows[n // 3 :: 2]):
        rows_by_group = [(group, all_rows[own]) for group, own in pieces(places, limit)]
        assert np.array_equal(np.concatenate([own for _, own in rows_by_group]), all_rows[places])
        assert all(0 < len(own) <= limit and (own // GROUP == group).all() for group, own in rows_by_group)
    ((_, nothing),) = pieces(np.empty(0, dtype=np.int64), limit)
    assert not isinstance(nothing, slice)
    assert not len(nothing)


@pytest.mark.parametrize("row_norm", [0.5, 2.0, 9.0])
def test_a_damaged_record_becomes_the_empty_one_and_is_no_longer_than_the_others(row_norm: float) -> None:
    """Numbers out of [-1, 1] and codes beyond their block, in what is stored; R is less than such a row's norm, too."""
    columns = Columns((1, 3, 300, 1))
    stored = Coded(np.full((8, 2), 0.5), np.tile(np.array([[2, 43, 1]], dtype=np.uint8), (8, 1)), (0, 0, 1, 1))
    stored.numbers[:5, 0] = np.nan, np.inf, 1.0000001, -1e300, 1.0
    stored.codes[5, 0], stored.codes[6] = 3, (2, 44, 1)  # of 3 and of 300
    problem = Problem(Logistic(), n=8, d=columns.d, row_norm=row_norm, columns=columns)
    data = Data.coded(stored, np.ones(8), problem)
    rows = rows_of(data)
    empty = np.zeros(columns.d)
    empty[[1, 4, -1]] = 1.0
    for i in (0, 1, 2, 3, 5, 6):
        assert rows[i] == pytest.approx(empty * min(1.0, row_norm / math.sqrt(3)))
    assert rows[7, 3] > 0
    assert rows[7, 4 + 299] > 0
    assert np.linalg.norm(rows, axis=1).max() <= row_norm * (1 + 1e-12)
    total = gradient_sum(data, slice(0, 6), np.full(columns.d, -1e9))
    assert np.linalg.norm(total) <= 6 * problem.G * (1 + 1e-12)
    assert np.isnan(stored.numbers[0, 0])  # what is stored stays as it is


@pytest.mark.parametrize(
    ("widths", "places"), [((1, 1), (0, 0)), ((300, 3), (0, 1)), ((300, 300), (0, 0)), ((3, 300), (1, 0))]
)
def test_a_stored_column_is_no_two_features(widths: tuple[int, ...], places: tuple[int, ...]) -> None:
    """It would stand twice in a row whose norm counts it once."""
    columns = Columns(widths)
    stored = Coded(np.zeros((2, 2)), np.zeros((2, 3), dtype=np.uint8), places)
    problem = Problem(Logistic(), n=2, d=columns.d, row_norm=columns.row_norm, columns=columns)
    with pytest.raises(Unsuitable, match="two features"):
        Data.coded(stored, np.ones(2), problem)


@pytest.mark.parametrize(
    "places",
    [
        *[(0, 0), (0, 0, 2), (1, 0, 1), (-1, 0, 1), (0, -1, 1), (0, 3, 1)],
        *[(2**63 - 1, 0, 1), (0, 2**63 - 1, 1), (2**63, 0, 1), (0.5, 0, 1)],
    ],
)
def test_features_that_are_not_stored_are_refused(places: tuple[int, ...]) -> None:
    columns = Columns((1, 3, 300))
    problem = Problem(Logistic(), n=2, d=columns.d, row_norm=columns.row_norm, columns=columns)
    stored = Coded(np.zeros((2, 1)), np.zeros((2, 3), dtype=np.uint8), places)
    with pytest.raises(Unsuitable):
        Data.coded(stored, np.ones(2), problem)
    with pytest.raises(Unsuitable, match="n records"):
        Data.coded(Coded(stored.numbers[:1], stored.codes, (0, 0, 1)), np.ones(2), problem)
