"""Numbers as singles: where they may be, that none leaves its range, and that no count moves one off a part's end."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.sources.ingest import Reading, store
from app.sources.matrix import open_coded, widths
from app.sources.singles import ends, single
from purse.coding import codes_of
from purse.wire.columns import CategoryColumn, NumberColumn
from solvers import kernels
from solvers.columns import Columns
from solvers.data_access.count_sums import Cells, Histograms
from solvers.data_access.data import Data
from solvers.data_access.inputs import offsets
from solvers.data_access.rows import Coded
from solvers.losses import Squared
from solvers.problem import Problem

Vector = NDArray[np.float64]
SMALLEST_NORMAL = 2.0**-126


def column(lower: float, upper: float, origin: float | None = None, scale: float | None = None) -> NumberColumn:
    return NumberColumn(name="x", type="number", lower=lower, upper=upper, origin=origin, scale=scale)


COLUMNS = [
    column(0, 100),
    column(-1e150, 1e150),
    column(0, 1).settled(),
    column(-3, 7, 0, 10),  # codes from -.3 to .7, neither a single
    column(-7, 3, 0, 10),
    column(-1e-40, 1, 0, 1),  # its lower end is no normal single
    column(-1, 1e-40, 0, 1),
    column(-1e-29, 1e-29, 0, 1),
    column(-1e-40, 1e-45, 0, 1),  # all it has is 0
    column(17, 90, 17, 73),
    column(17, 90, 40, 41),
]


def codes(of: NumberColumn) -> Vector:
    """Return codes of a column of every kind: first its ends, then edge cases, then random codes."""
    rng, (low, high) = np.random.default_rng(1), of.code_range
    inside = np.concatenate(
        (rng.uniform(low, high, 1000), 2.0 ** rng.uniform(-300, 0, 1000) * rng.choice([-1, 1], 1000))
    )
    edge_cases = np.array(
        [
            np.nextafter(low, 1),
            np.nextafter(high, -1),
            0.0,
            SMALLEST_NORMAL,
            -SMALLEST_NORMAL,
            SMALLEST_NORMAL * (1 - 2**-30),
            SMALLEST_NORMAL / 2,
        ]
    )
    return np.clip(np.concatenate(([low, high], edge_cases, inside)), low, high)


@pytest.mark.parametrize("of", COLUMNS, ids=repr)
def test_a_single_is_the_nearest_one_inside_the_exact_range(of: NumberColumn) -> None:
    within, x, (low, high) = ends([of]), codes(of), of.code_range
    assert within.dtype == np.float32
    singles = single(x[:, None], within)[:, 0]
    assert singles.dtype == np.float32
    assert ((singles.astype(float) >= low) & (singles.astype(float) <= high)).all()
    assert ((singles == 0) | (np.abs(singles) >= np.float32(SMALLEST_NORMAL))).all(), (
        "subnormal numbers would be slow to read"
    )
    nearest = x.astype(np.float32)
    moved = singles != nearest
    assert not (
        moved & (np.abs(x) >= SMALLEST_NORMAL) & (nearest.astype(float) >= low) & (nearest.astype(float) <= high)
    ).any()
    gap = np.maximum(
        np.spacing(np.maximum(np.abs(nearest), np.float32(SMALLEST_NORMAL))).astype(float), SMALLEST_NORMAL
    )
    assert (np.abs(singles - x) <= gap).all()


def test_categories_alone_have_no_numbers() -> None:
    within = ends([CategoryColumn(name="c", type="category", categories=["a"])])
    assert single(np.zeros((3, 0)), within).shape == (3, 0)


@pytest.mark.parametrize("of", COLUMNS, ids=repr)
def test_no_record_of_singles_is_taken_for_one_that_was_not_declared(of: NumberColumn, tmp_path: Path) -> None:
    """Those are emptied: an end that is no single, rounded to the nearest, would be outside."""
    low, high = of.ends
    (tmp_path / "file.csv").write_text(f"x\n{low}\n{high}\n{(low + high) / 2}\n")
    n, _ = store(tmp_path / "file.csv", Reading([of]), tmp_path / "made")
    coded = open_coded(tmp_path / "made")
    columns = Columns(widths(tmp_path / "made"), (of.code_range,))
    data = Data.coded(coded, np.zeros(n), Problem(Squared(), n=n, d=2, row_norm=columns.row_norm, columns=columns))
    rows = kernels.dense_rows(data.records, data.scale, np.arange(n))
    assert np.array_equal(rows[:, 0], coded.numbers[:, 0].astype(float))
    assert (rows[:, 1] == 1).all()


@pytest.mark.parametrize(("lower", "upper", "bins"), [(0, 10, 10), (17, 90, 73), (-3, 4, 7), (0, 1000, 50), (1, 7, 6)])
@pytest.mark.parametrize("settled", [False, True])
def test_a_number_on_the_end_of_a_part_is_counted_in_the_next_one(
    lower: float, upper: float, bins: int, settled: bool
) -> None:
    """As it is told: a part holds its lower end. A single a little below it counted in the one before."""
    of = column(lower, upper, lower if settled else None, upper - lower if settled else None)
    columns, x = Columns((1,), (of.code_range,)), np.arange(lower, upper + 1.0)
    within, n = ends([of]), len(x)
    coded = Coded(single(codes_of(of, x)[:, None], within), np.empty((n, 0), np.uint8), offsets(columns))
    data = Data.coded(coded, np.zeros(n), Problem(Squared(), n=n, d=2, row_norm=columns.row_norm, columns=columns))
    expected = np.bincount(np.minimum(((x - lower) * bins) // (upper - lower), bins - 1).astype(int), minlength=bins)
    for work in (Histograms(bins), Cells(bins)):
        assert data.total(work).tolist() == expected.tolist()
