"""Sparse rows of declared columns, stored as entries and codes and never unfolded, with the answers of dense rows."""

import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Privacy, Unit
from solvers import kernels, moment_bounds, plan, solve
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.count_sums import Cells, Histograms, PredictionCounts, Products
from solvers.data_access.data import Data, Work
from solvers.data_access.frames import framed, in_frame
from solvers.data_access.moment_sums import MeanRow, ResidualSum, SpreadSum, Squares, Targets
from solvers.data_access.persons import of_persons
from solvers.data_access.sparse import Sparse
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Logistic, Loss, Softmax, Squared
from solvers.methods import AdaptiveGd, DpGd, DpSvrg
from solvers.problem import Problem
from tests.support.coded_rows import targets, unfolded
from tests.support.noiseless import noiseless
from tests.support.operations import operations
from tests.support.plain_loops import added, examples
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits

Floats = NDArray[np.float64]
RANGES = ((-1.0, 1.0),) * 3 + ((0.0, 1.0), (-0.25, 0.5)) + ((-1.0, 1.0),) * 8
COLUMNS = Columns((1, 3, 1, 1, 1, 300, 1, 2, *(1,) * 8), RANGES)
N, D = 200, COLUMNS.d
NUMBERS = np.flatnonzero(COLUMNS.is_number)
P = len(NUMBERS)


def rows(seed: int = 7, n: int = N) -> Floats:
    """A third of the numbers are there; of one record all, of one none."""
    rng, X = np.random.default_rng(seed), unfolded(n, COLUMNS, seed)
    numbers = np.clip(X[:, NUMBERS], COLUMNS.low, COLUMNS.high) * (rng.random((n, P)) < 0.3)
    numbers[3], numbers[4] = COLUMNS.high, 0.0
    X[:, NUMBERS] = numbers
    return X


def problem(loss: Loss) -> Problem:
    return Problem(loss, n=N, d=D, row_norm=COLUMNS.row_norm, columns=COLUMNS)


def both(loss: Loss, X: Floats | None = None) -> tuple[Data, Data]:
    """Return the data of sparse and of dense rows."""
    X, task = rows() if X is None else X, problem(loss)
    forms = sp.csr_array(X), X
    sparse, dense = (Data.coded(inputs.records(form, task), targets(loss, N), task) for form in forms)
    assert sparse.is_sparse
    assert not dense.is_sparse
    return sparse, dense


def frame(seed: int = 3) -> Frame:
    rng = np.random.default_rng(seed)
    center = np.where(COLUMNS.is_number, rng.uniform(-0.9, 0.9, D - 1), rng.uniform(0, 1, D - 1) / 3)
    return Frame(center, rng.uniform(0.1, 2, D - 1), 0.4)


def test_only_entries_of_numbers_and_codes_are_stored() -> None:
    X = rows()
    sparse, dense = both(Logistic(), X)
    assert sparse.records.numbers.shape == (N, 0)
    assert sparse.records.entry_values.tolist() == X[:, NUMBERS][X[:, NUMBERS] != 0].tolist()
    assert np.array_equal(sparse.records.codes, dense.records.codes)
    assert np.array_equal(rows_of(sparse), rows_of(dense))
    assert np.array_equal(rows_of(sparse), X)
    drawn = np.random.default_rng(1).integers(0, N, N)
    assert np.array_equal(rows_of(sparse.drawn(drawn)), X[drawn])


def test_sums_are_those_of_the_unfolded_rows_in_their_own_order_to_the_last_bit() -> None:
    X, y, w = rows(), targets(Logistic(), N), np.random.default_rng(2).standard_normal(D)
    data = both(Logistic(), X)[0]
    margins = np.zeros(N)
    for start, width in zip(COLUMNS.starts, COLUMNS.widths, strict=True):
        if width > 1:
            margins += X[:, start : start + width] @ w[start : start + width]  # one product, and zeros
    margins += w[-1]
    for j in NUMBERS:
        margins += X[:, j] * w[j]
    places = np.random.default_rng(4).permutation(N)[:77]
    assert np.array_equal(kernels.margins_of(data.records, w, places), margins[places])
    slopes = np.clip(Logistic().slope(margins, y), -1, 1)
    actual = kernels.gradient_sum(examples(data.records, y, data.scale), places, w, Logistic().compiled)
    assert np.array_equal(actual, added((slopes[:, None] * X)[places]))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 40])
def test_the_sum_between_two_positions_is_looked_up(size: int) -> None:
    terms = np.random.default_rng(size).integers(0, 2**40, size).astype(float)
    table, padded = kernels.ENTRIES["spans"](terms), np.concatenate(([0.0], terms, [0.0]))
    for a, b in combinations(range(size + 2), 2):
        k = (a ^ b).bit_length() - 1
        assert table[k, a] + table[k, b] == padded[a + 1 : b].sum()


def exact_length(x: Floats, used: Frame) -> float:
    parts = ((Fraction(a) - Fraction(m)) * Fraction(s) for a, m, s in zip(x, used.center, used.scale, strict=True))
    return math.sqrt(sum((part**2 for part in parts), Fraction(used.constant) ** 2))


@pytest.mark.parametrize("wide", [1.0, 1e9])
def test_norms_in_a_frame_lose_no_digits_to_absent_entries(wide: float) -> None:
    """All records have a number far from 0 with a large scale. A total minus the record's own would lose digits."""
    X, used = rows(), frame()
    at = NUMBERS[1]
    X[:, at] = 0.75
    used.center[at], used.scale[at] = 0.75, wide
    sparse, dense = both(Logistic(), X)
    sparse_norms, dense_norms = (kernels.inverse_norms(in_frame(data, used)) for data in (sparse, dense))
    lengths = [exact_length(x[:-1], used) for x in X]
    assert sparse_norms * lengths == pytest.approx(1, rel=(D / 2 + 9) * 2.0**-53, abs=0)
    assert sparse_norms == pytest.approx(dense_norms, rel=(D + 18) * 2.0**-53, abs=0)


def test_no_row_in_a_frame_is_longer_than_its_norm() -> None:
    sparse, dense = (framed(data, frame(), 0.8) for data in both(Logistic()))
    assert np.allclose(rows_of(sparse), rows_of(dense), rtol=0, atol=1e-14)
    lengths = np.linalg.norm(rows_of(sparse), axis=1)
    assert 0.8 - 1e-13 < lengths.max() <= 0.8 * (1 + 1e-13)


MEAN = np.where(COLUMNS.is_number, 0.2, 0.4)
MODEL = np.random.default_rng(6).normal(size=(1, D))
SUMS: list[Work] = [
    MeanRow(),
    SpreadSum(MEAN, 2.0),
    Squares(MEAN, math.inf),
    Squares(MEAN, 0.7),
    Targets(),
    Targets(0.3),
]
SUMS += [ResidualSum(frame(), MODEL[0], 0.7), Products(MEAN)]


@pytest.mark.parametrize("work", SUMS, ids=lambda work: type(work).__name__)
def test_moments_are_those_of_the_dense_rows(work: Work) -> None:
    sparse_total, dense_total = (data.total(work) for data in both(Squared()))
    assert np.linalg.norm(dense_total) > 1
    assert np.allclose(sparse_total, dense_total, rtol=1e-13, atol=0)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Squared()], ids=lambda loss: str(loss.name))
def test_counts_are_those_of_the_dense_rows(loss: Loss) -> None:
    sparse, dense = both(loss)
    model = np.random.default_rng(6).normal(size=(loss.outputs, D)) / 3
    for work in (Histograms(7), Histograms(1), Histograms(1000), PredictionCounts(model, 10, 0.5)):
        assert np.array_equal(sparse.total(work), dense.total(work))
    layout = Columns((1, 3, 1), RANGES[3:5])
    X = np.column_stack((rows()[:, [6, 1, 2, 3, 7]], np.ones(N)))
    task = Problem(loss, n=N, d=layout.d, row_norm=layout.row_norm, columns=layout)
    counts = [
        Data.coded(inputs.records(form, task), targets(loss, N), task).total(Cells(5)) for form in (sp.csr_array(X), X)
    ]
    assert np.array_equal(counts[0], counts[1])
    assert counts[0].sum() == N


def test_a_record_beyond_its_declaration_is_the_empty_one_as_a_dense_one_is() -> None:
    X = rows()
    for record, (number, value) in enumerate(((0, 1.5), (0, -1.001), (3, -0.01), (4, 0.51), (4, -0.26), (4, math.nan))):
        X[record, NUMBERS[number]] = value
    X[6, NUMBERS[0]], X[7, NUMBERS[0]], X[8, -1], X[9, -1] = math.inf, -math.inf, 0.5, 0.0
    X[10, 1:4], X[11, 1:4], X[12, 1:4] = 0.0, (1.0, 1.0, 0.0), (0.5, 0.5, 0.0)
    sparse, dense = both(Logistic(), X)
    assert np.array_equal(rows_of(sparse), rows_of(dense))
    empty = np.zeros(D)
    empty[[1, 7, 308, D - 1]] = 1.0
    assert (rows_of(sparse)[:13] == empty).all()
    assert np.array_equal(rows_of(sparse)[13:], X[13:])


def test_stored_entries_and_codes_are_checked_before_use() -> None:
    """Entries and codes beyond the declaration are neither multiplied nor used as an index."""
    columns = Columns((1, 3))
    task = Problem(Squared(), n=5, d=5, row_norm=columns.row_norm, columns=columns)
    values, codes = np.array([0.25, 1.5, math.nan, -1.01, 0.5]), np.array([[2], [1], [1], [1], [3]], np.uint8)
    stored = Sparse(np.arange(6), np.zeros(5, np.int64), values, codes, (0, 0))
    empty = [0.0, 1.0, 0.0, 0.0, 1.0]
    assert rows_of(Data.coded(stored, np.zeros(5), task)).tolist() == [[0.25, 0.0, 0.0, 1.0, 1.0]] + [empty] * 4


def test_the_bound_of_variances_covers_the_rounding_of_a_computed_norm() -> None:
    p = 5000
    columns = Columns((1,) * p)
    task = Problem(Squared(), n=1, d=p + 1, row_norm=columns.row_norm, columns=columns)

    data = Data.coded(inputs.records(sp.csr_array(np.ones((1, p + 1))), task), np.zeros(1), task)
    planned = Plan((PlannedQuery("variances", 1, Gaussian(), 1.0),))
    with noiseless() as answers:
        StandardisedOracle(task, data, planned, Noise(SeededBits(3))).variances("variances", np.zeros(p), 1.0)
    exact = moment_bounds.variances(columns, np.zeros(p), 1.0)
    assert 1 + p * 2.0**-53 < answers[0].bound / exact < 1 + 2 * p * 2.0**-53


def test_rows_without_an_entry_are_counted_as_well() -> None:
    """An error would reveal whether a piece has such a row."""
    X = rows()
    X[:, NUMBERS] = 0.0
    sparse_total, dense_total = (data.total(Histograms(4)) for data in both(Logistic(), X))
    assert sparse_total.tolist() == dense_total.tolist()
    assert sparse_total.sum() == N * P


def test_stored_zeros_are_removed() -> None:
    X = sp.csr_array(rows())
    X.data[::5] = np.where(X.data[::5] == 1, 1.0, 0.0)
    task = problem(Logistic())
    stored = Data.coded(inputs.records(X, task), targets(Logistic(), N), task)
    assert (stored.records.entry_values != 0).all()
    assert np.array_equal(rows_of(stored), rows_of(both(Logistic(), X.toarray())[1]))


def test_the_work_does_not_depend_on_the_entries() -> None:
    """Other coordinates, values and records take the same operations."""
    columns, n, each = Columns((1,) * 40), 60, 4
    task = Problem(Logistic(), n=n, d=41, row_norm=columns.row_norm, columns=columns)

    def work(seed: int) -> Any:
        rng, X = np.random.default_rng(seed), np.zeros((n, 41))
        for x in X:
            x[rng.choice(40, each, replace=False)] = rng.choice([-1.0, 1.0, 1e-3], each)
        X[:, -1] = 1.0
        form, y = sp.csr_array(X), np.ones(n)
        quote, sums = (
            plan(AdaptiveGd(steps=3), task, Privacy(1.0, 1e-4)),
            (Squares(np.full(40, 0.2), 0.5), Histograms(5)),
        )

        def all_of_it() -> None:
            data = Data.coded(inputs.records(form, task), y, task)
            run_quote(quote, data)
            for each in sums:
                data.total(each)

        all_of_it()  # what is made once
        return operations(all_of_it)

    assert work(1) == work(2) == work(3)


def test_slots_without_a_row_have_no_entries() -> None:
    """Otherwise the work of empty slots would depend on the entries of some record."""
    columns = Columns((1, 3, 1))
    X = np.array([[0.5, 1, 0, 0, 0.2, 1], [0, 0, 1, 0, -0.5, 1], [0, 0, 0, 1, 0, 1], [0.1, 1, 0, 0, 0.9, 1.0]])
    task = Problem(Squared(), n=4, d=6, row_norm=columns.row_norm, columns=columns, unit=Unit("person", 2))
    datasets = [
        of_persons(form, np.arange(4.0), [7, 7, 8, 7], task, Noise(SeededBits(4))) for form in (X, sp.csr_array(X))
    ]
    assert np.array_equal(rows_of(datasets[0]), rows_of(datasets[1]))
    assert datasets[1].present().sum() == 3
    assert len(datasets[1].records.entry_values) == 3  # 0.5 and 0.2, -0.5; the third row of person 7 is cut
    center = np.full(5, 0.7)
    for work in (MeanRow(), SpreadSum(center, 2.0), Squares(center, 0.1), Squares(center, math.inf), Histograms(4)):
        assert np.allclose(datasets[1].total(work), datasets[0].total(work), rtol=1e-14, atol=0)


@pytest.mark.slow
def test_wide_declared_rows_fit_in_memory_that_follows_their_entries() -> None:
    """Written out once, they would take 640 MB."""
    n, p = 2_000, 40_000
    columns = Columns((*(1,) * p, 3))
    rng = np.random.default_rng(3)
    numbers = sp.random(n, p, density=1e-3, format="csr", rng=rng)
    X = sp.hstack((numbers, sp.csr_array(np.eye(3)[rng.integers(3, size=n)]), np.ones((n, 1))), format="csr")
    task = Problem(Logistic(), n=n, d=p + 4, row_norm=columns.row_norm, columns=columns)
    y, promise = targets(Logistic(), n), Privacy(1.0, 1e-6)
    methods = (DpGd(steps=2), AdaptiveGd(steps=2), DpSvrg(epochs=1, inner_steps=2, batch=50))
    for method in methods:
        tracemalloc.start()
        release = solve(method, task, X, y, promise)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.isfinite(release.coefficients).all()
        assert peak < 8e7, f"{method.name}: {peak:.3g} bytes"


@pytest.mark.parametrize(
    ("ends", "coordinates", "message"),
    [
        ([0, 1], [0], "n rows"),
        ([0, 2, 1, 2], [0, 1], "n rows"),
        ([0, 1, 2, 2], [0, 2], "n rows"),
        ([0, 1, 2, 2], [0, -1], "n rows"),
        ([0, 1, 1, 3], [0, 1], "n rows"),
        ([0, 2, 2, 2], [1, 0], "must increase"),
        ([0, 2, 2, 2], [1, 1], "must increase"),
        ([0, 0, 0, 2], [0, 0], "must increase"),
    ],
)
def test_an_invalid_matrix_is_refused_before_it_is_read(ends: list[int], coordinates: list[int], message: str) -> None:
    columns = Columns((1, 1))
    task = Problem(Squared(), n=3, d=3, row_norm=columns.row_norm, columns=columns)
    values, codes = np.full(len(coordinates), 0.5), np.empty((3, 0), np.uint8)
    stored = Sparse(np.array(ends), np.array(coordinates), values, codes, (0, 1))
    with pytest.raises(Unsuitable, match=message):
        Data.coded(stored, np.zeros(3), task)
    fine = Sparse(np.array([0, 1, 1, 2]), np.array([1, 0]), np.ones(2), codes, (0, 1))
    with pytest.raises(Unsuitable, match="offsets"):
        fine.records(replace(task, columns=None))
    with pytest.raises(Unsuitable, match="n records"):
        Data.coded(replace(fine, codes=codes[:2]), np.zeros(3), task)
