"""Inputs of `solve`: sparse rows and tables, which are never unfolded, and the errors for all others."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from accounting.privacy import Privacy
from solvers import kernels, solve
from solvers.bounds import gradient_error
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.sparse import Sparse
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Loss, Softmax, Squared
from solvers.methods import DpGd, DpSvrg
from solvers.preparation import Declared
from solvers.problem import Problem
from solvers.solve import data_of
from tests.support.coded_rows import unfolded
from tests.support.plain_loops import added, examples

Floats = NDArray[np.float64]
COLUMNS = Columns((1, 3, 1, 300, 2))
N, D = 400, 57


def sparse() -> Any:
    return sp.random(N, D, density=0.1, format="csr", rng=np.random.default_rng(1))


def problem(loss: Loss, d: int = D, columns: Columns | None = None, n: int = N) -> Problem:
    return Problem(loss, n=n, d=d, row_norm=1.2 if columns is None else columns.row_norm, columns=columns)


def labels(n: int = N) -> Floats:
    return np.where(np.random.default_rng(5).random(n) < 0.4, 1.0, -1.0)


def coded(X: Any, task: Problem, y: Floats | None = None) -> Data:
    return Data.coded(inputs.records(X, task), labels(task.n) if y is None else y, task)


def test_sums_over_sparse_rows_are_those_of_the_unfolded_ones_to_the_last_bit() -> None:
    X, w, y = sparse(), np.random.default_rng(2).standard_normal(D), labels()
    data, dense = coded(X, problem(Logistic())), X.toarray()
    assert np.array_equal(rows_of(data), dense * data.scale[:, None])
    margins = np.zeros(N)
    for j in range(D):
        margins += dense[:, j] * w[j]
    slopes = np.clip(Logistic().slope(margins * data.scale, y), -1, 1) * data.scale
    actual = kernels.gradient_sum(examples(data.records, y, data.scale), np.arange(3, 390), w, Logistic().compiled)
    np.testing.assert_array_equal(actual, added((slopes[:, None] * dense)[3:390]))
    places = np.random.default_rng(4).permutation(N)[:77]
    actual = kernels.gradient_sum(examples(data.records, y, data.scale), places, w, Logistic().compiled)
    np.testing.assert_array_equal(actual, added((slopes[:, None] * dense)[places]))


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_every_reader_sees_the_same_rows(loss: Loss) -> None:
    y = labels() if loss.outputs == 1 else np.array(np.arange(N) % 3, dtype=float)
    task = problem(loss)
    sparse_data, dense_data = (coded(X, task, y) for X in (sparse(), sparse().toarray()))
    assert np.allclose(sparse_data.scale, dense_data.scale, rtol=1e-14)
    w = np.random.default_rng(2).standard_normal(task.size)
    drawn = np.random.default_rng(3).integers(0, N, N)
    for first, second in ((sparse_data, dense_data), (sparse_data.drawn(drawn), dense_data.drawn(drawn))):
        for arguments in ((w,), (w, w + 0.1, 0.05)):
            gap = gradient_sum(first, slice(0, N), *arguments) - gradient_sum(second, slice(0, N), *arguments)
            assert np.linalg.norm(gap) / N <= 4 * gradient_error(task, N, float(np.linalg.norm(w)) + 1)
        assert np.array_equal(rows_of(first) != 0, rows_of(second) != 0)


def test_sparse_rows_are_clipped_and_absurd_ones_are_zeros() -> None:
    X = sparse()
    X.data *= 1000
    X.data[X.indptr[7]] = np.nan
    X.data[X.indptr[9]] = 1e200
    original = X.data.copy()
    data = coded(X, problem(Logistic()))
    assert np.array_equal(X.data, original, equal_nan=True)
    assert not rows_of(data)[[7, 9]].any()
    norms = np.linalg.norm(rows_of(data), axis=1)
    assert norms.max() <= 1.2 * (1 + 1e-13)
    assert (np.abs(norms - 1.2) < 1e-12).sum() > N / 2


def test_entries_of_one_coordinate_are_added() -> None:
    """Entries are added first, because the squares of parts are less than the square of their sum."""
    X = sp.csr_matrix((np.array([3.0, 4.0, 1.0]), np.array([2, 2, 0]), np.array([0, 3])), shape=(1, 5))
    task = problem(Logistic(), d=5, n=1)
    data = coded(X, task)
    assert np.linalg.norm(rows_of(data)) == pytest.approx(1.2)
    assert rows_of(data)[0] == pytest.approx(1.2 * np.array([1, 0, 7, 0, 0]) / np.sqrt(50))
    assert X.nnz == 3


@pytest.mark.parametrize("kind", [sp.bsr_matrix, sp.bsr_array])
def test_rows_in_blocks_are_refused(kind: Any) -> None:
    """An entry of one puts a zero into the others of its block, which can change the order that theirs are added in."""
    with pytest.raises(Unsuitable, match=r"X\.tocsr\(\)"):
        inputs.records(kind(np.ones((4, 5)), blocksize=(2, 1)), Problem(Logistic(), n=4, d=5, row_norm=9.0))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_the_cached_form_of_a_matrix_is_not_trusted(kind: Any) -> None:
    """SciPy checks once whether coordinates are distinct and does not notice a change in place."""
    X = kind((np.array([3.0, 4.0, 1.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 5))
    assert X.has_canonical_format
    X.indices[:] = 2
    assert X.has_canonical_format
    assert np.linalg.norm(rows_of(coded(X, problem(Logistic(), d=5, n=1)))) <= 1.2 * (1 + 1e-13)
    assert X.nnz == 3


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "coo_array", "coo_matrix"])
def test_the_order_of_a_record_s_entries_changes_no_other_record(kind: str) -> None:
    """The order decides whether 1 plus 38 times 1e-16 is 1, or more than 1 and beyond the declaration."""
    n, own = 50, [1.0, *[1e-16] * 38, 1.0]
    columns = Columns((1, 1))
    task = Problem(Logistic(), n=n, d=3, row_norm=columns.row_norm, columns=columns)

    def other_rows(last: list[int]) -> Floats:
        values = np.array(own * (n - 1) + [0.5, 0.25, 1.0])
        at = np.array(([0] * 39 + [2]) * (n - 1) + last)
        row = np.append(np.repeat(np.arange(n - 1), 40), [n - 1] * 3)
        form = ((row, at),) if kind.startswith("coo") else (at, np.append(np.arange(n) * 40, len(at)))
        return rows_of(coded(getattr(sp, kind)((values, *form), shape=(n, 3)), task))[:-1]

    assert np.array_equal(other_rows([0, 1, 2]), other_rows([1, 0, 2]))


def test_rows_that_do_not_begin_one_after_the_other_are_refused() -> None:
    X = sp.csr_array((np.ones(10), np.arange(10)[::-1] % 5, [0, 3, 5, 8, 10]), shape=(4, 5))
    X.indptr[1:3] = 5, 3
    with pytest.raises(Unsuitable, match="must not decrease"):
        coded(X, problem(Logistic(), d=5, n=4))


@pytest.mark.slow
def test_wide_sparse_rows_are_never_unfolded() -> None:
    """Unfolded, the rows would take 8 GB."""
    n, d = 5000, 200_000
    X = sp.random(n, d, density=1e-4, format="csr", rng=np.random.default_rng(3))
    task = Problem(Logistic(), n=n, d=d, row_norm=1.0)
    release = solve(DpGd(steps=2), task, X, labels(n), Privacy(1.0, 1e-6))
    assert np.isfinite(release.coefficients).all()
    release = solve(DpSvrg(epochs=1, inner_steps=5, batch=50), task, X.tocoo(), labels(n), Privacy(4.0, 1e-6))
    assert np.isfinite(release.coefficients).all()


def broken_rows() -> Floats:
    X = unfolded(N, COLUMNS)
    X[1, 0], X[2, 1:4], X[3, 1:4], X[4, -1] = 1.5, 0.0, (1.0, 1.0, 0.0), 0.0
    X[5, 4], X[6, 1:4], X[7, 8:], X[8] = np.nan, (0.5, 0.5, 0.0), 0.0, 0.0
    return X


def test_sparse_rows_of_declared_columns_are_folded_into_codes() -> None:
    X, task = broken_rows(), problem(Logistic(), COLUMNS.d, COLUMNS)
    records = inputs.records(sp.csr_array(X), task)
    assert isinstance(records, Sparse)
    assert records.codes.shape == (N, 1 + 2 + 1)
    np.testing.assert_array_equal(rows_of(coded(sp.csr_array(X), task)), rows_of(coded(X, task)))
    alone = Problem(Logistic(), n=3, d=1, row_norm=1.0, columns=Columns(()))
    assert rows_of(coded(sp.csr_array(np.array([[1.0], [0.0], [1.0]])), alone, np.ones(3))).tolist() == [[1.0]] * 3


class Polars:
    """Frame like that of Polars: names in `columns`, and columns by name, each with `to_numpy`."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> Any:
        return _Column(self._columns[name])


class _Column:
    def __init__(self, values: Any) -> None:
        self._values = values

    def to_numpy(self) -> Any:
        return np.asarray(self._values)


def columns_of(X: Floats) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for k, (start, width) in enumerate(zip(COLUMNS.starts, COLUMNS.widths, strict=True)):
        columns[f"f{k}"] = X[:, start] if width == 1 else X[:, start : start + width].argmax(axis=1)
    return columns


def tables() -> list[Any]:
    kinds: list[Any] = [pa.table, Polars, dict]
    for name in ("pandas", "polars"):
        try:
            kinds.append(__import__(name).DataFrame)
        except ImportError:
            continue
    return kinds


@pytest.mark.parametrize("kind", tables(), ids=lambda kind: getattr(kind, "__module__", "pyarrow"))
def test_tables_of_declared_columns_are_the_rows_they_stand_for(kind: Any) -> None:
    X, task = unfolded(N, COLUMNS), problem(Logistic(), COLUMNS.d, COLUMNS)
    np.testing.assert_array_equal(rows_of(coded(kind(columns_of(X)), task)), X)
    changed = columns_of(X)
    changed["f0"] = changed["f0"].copy()
    changed["f0"][3], changed["f1"] = 2.0, changed["f1"].astype(float)
    changed["f1"][4], changed["f1"][5], changed["f1"][6] = 3, np.nan, 0.5
    rows, empty = rows_of(coded(kind(changed), task)), np.zeros(COLUMNS.d)
    empty[[1, 5, 305, COLUMNS.d - 1]] = 1.0
    assert (rows[3:7] == empty).all()
    assert np.array_equal(rows[7:], X[7:])
    release = solve(DpGd(steps=3), task, kind(columns_of(X)), labels(), Privacy(1.0, 1e-4), Declared())
    assert np.isfinite(release.coefficients).all()


def test_an_arrow_column_with_missing_categories_is_read() -> None:
    task = Problem(Squared(), n=3, d=4, row_norm=2.0, columns=Columns((3,)))
    table = pa.table({"a": pa.array([1, None, 2])})
    assert rows_of(coded(table, task, np.zeros(3))).tolist() == [[0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 1, 1]]


LEARNED = pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode()})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([["a", "b"]] * 3), "array of numbers"),
        ([[1.0], [1.0, 2.0], [3.0]], "array of numbers"),
        (np.ones((3, 2), dtype=complex), "complex128"),
        ([1.0, 2.0, 3.0], "shape"),
        (None, "array of numbers"),
        (np.ones((2, 2)), "shape"),
        (np.ones(3), "shape"),
        (sp.csr_array(np.ones((3, 3))), "shape"),
        (sp.csr_array(np.ones((3, 2), dtype=complex)), "complex"),
        (pa.table({"a": [1.0, 2.0, 3.0]}), "for each feature"),
        (pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0]}), "row for each"),
        (pa.table({"a": ["x", "y", "z"], "b": [1.0, 2.0, 3.0]}), "column 0 of the table must hold numbers"),
    ],
)
def test_rows_of_a_wrong_type_or_shape_are_refused(X: Any, message: str) -> None:
    task = Problem(Squared(), n=3, d=2, row_norm=1.0)
    with pytest.raises(Unsuitable, match=message):
        solve(DpGd(steps=2), task, X, np.zeros(3), Privacy(1.0, 1e-4))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "dp_gd"}, "method has the type str"),
        ({"method": DpGd}, "method has the type type"),
        ({"problem": {"n": 3}}, "problem has the type dict"),
        ({"privacy": (1.0, 1e-4)}, "privacy has the type tuple"),
    ],
    ids=str,
)
def test_a_method_a_problem_or_a_privacy_of_a_wrong_type_is_refused(wrong: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "method": DpGd(steps=2),
        "problem": Problem(Squared(), n=3, d=2, row_norm=1.0),
        "privacy": Privacy(1.0, 1e-4),
    }
    with pytest.raises(Unsuitable, match=message):
        solve(**arguments | wrong, X=np.ones((3, 2)), y=np.zeros(3))


MISSING: dict[str, Any] = {
    "list": [True, None, False],
    "list with a huge integer": [True, 10**400, False],
    "list with text": [True, "x", False],
    "list with lists": [[True], [], [False]],
    "list with numbers of other kinds": [Decimal(1), Decimal("sNaN"), Fraction(0)],
    "list with a complex number": [np.float32(1), np.complex128(1 + 1j), np.longdouble(0)],
    "objects": np.array([True, None, False], dtype=object),
    "masked": np.ma.MaskedArray([True, True, False], [False, True, False]),
    "pandas objects": ("pandas", [True, None, False], object),
    "pandas booleans": ("pandas", [True, None, False], "boolean"),
    "pandas categories": ("pandas", [1, None, 0], "category"),
    "polars": ("polars", [True, None, False], None),
    "arrow": pa.array([True, None, False]),
    "arrow integers": pa.array([1, None, 0]),
    "arrow chunks": pa.chunked_array([[True, None], [False]]),
}


@pytest.mark.parametrize("column", MISSING.values(), ids=MISSING)
@pytest.mark.filterwarnings("error")
def test_a_value_that_is_not_a_number_never_raises(column: Any) -> None:
    """Such a target becomes 0 and such a row zeros. An error or a warning would reveal the row."""
    if isinstance(column, tuple):
        library, values, dtype = column
        column = pytest.importorskip(library).Series(values, dtype=dtype)
    task = Problem(Squared(), n=3, d=1, row_norm=1.0)
    assert data_of(task, np.ones((3, 1)), column).y.tolist() == [1, 0, 0]
    assert rows_of(data_of(task, {"a": column}, np.zeros(3))).tolist() == [[1], [0], [0]]
    if isinstance(column, (list, np.ndarray)):
        X = [[value] for value in column] if isinstance(column, list) else column[:, None]
        assert rows_of(data_of(task, X, np.zeros(3))).tolist() == [[1], [0], [0]]


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
@pytest.mark.filterwarnings("error")
def test_numbers_beyond_a_double_are_read_without_a_warning(dtype: Any) -> None:
    """The sum of an infinite block, and a number that becomes infinite as a double."""
    X = unfolded(N, COLUMNS).astype(dtype)
    X[3, 1:3] = np.inf, -np.inf
    X[4, 0] = np.finfo(dtype).max
    rows = rows_of(data_of(problem(Logistic(), COLUMNS.d, COLUMNS), X, labels()))
    empty = np.zeros(COLUMNS.d)
    empty[[1, 5, 305, COLUMNS.d - 1]] = 1.0
    assert (rows[3:5] == empty).all()


def test_an_arrow_batch_is_a_table() -> None:
    X, task = unfolded(N, COLUMNS), problem(Logistic(), COLUMNS.d, COLUMNS)
    np.testing.assert_array_equal(rows_of(coded(pa.record_batch(columns_of(X)), task)), X)


def test_categories_learned_from_the_data_are_refused() -> None:
    """One record could change the codes of all others, because codes follow the order of appearance."""
    task = Problem(Squared(), n=3, d=3, row_norm=1.5, columns=Columns((2,)))
    with pytest.raises(Unsuitable, match="public list"):
        solve(DpGd(steps=2), task, LEARNED, np.zeros(3), Privacy(1.0, 1e-4))


@pytest.mark.parametrize(
    "y",
    [
        np.array(["a"] * 3),
        pa.array(["a"] * 3),
        pa.table({"y": [0.0] * 3}),
        np.zeros(2),
        np.zeros((3, 1)),
        None,
        np.zeros(3, dtype=complex),
    ],
    ids=["text", "arrow text", "arrow table", "short", "column", "none", "complex"],
)
def test_targets_of_a_wrong_type_or_shape_are_refused(y: Any) -> None:
    task = Problem(Squared(), n=3, d=2, row_norm=1.0)
    with pytest.raises(Unsuitable, match=r"^y must be"):
        solve(DpGd(steps=2), task, np.ones((3, 2)), y, Privacy(1.0, 1e-4))


def test_sparse_rows_stand_for_no_declared_columns() -> None:
    offsets = tuple(range(COLUMNS.d))
    rows = Sparse(np.arange(N + 1), np.zeros(N, np.int64), np.ones(N), np.empty((N, 0), np.uint8), offsets)
    with pytest.raises(Unsuitable, match="offsets"):
        rows.records(problem(Logistic(), COLUMNS.d, COLUMNS))
