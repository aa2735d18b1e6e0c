"""What estimators read of lists and frames: each value by itself, whatever stands beside it."""

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import purse
from purse.estimators.values import column
from purse.prediction import UnsupportedCategory

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("scikit_learn")]  # the first of them loads it


def _logistic(**settings: Any) -> Any:
    return purse.PrivateLogisticRegression(**({"classes": [0, 1], "method": "dp_gd"} | settings))


_BIG = 12_345_678_901  # in shortest form a float of that size is written with an exponent


def test_a_fit_accepts_every_value_as_a_number_and_as_a_category() -> None:
    """An error after the charge would reveal a value of a row."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: its missing time is not tried")
    odd: list[Any] = [pandas.NaT, pandas.NA, np.timedelta64(1, "s"), np.datetime64("2020-01-01"), 2j, b"1", object()]
    odd += [10**5000, np.timedelta64(5), Decimal("sNaN"), np.complex128(2j), np.longdouble("1e4000"), [], [2, 3]]
    rows = [[value, value] for value in odd]
    frame = pandas.DataFrame({"a": column(odd), "b": column(odd)}, dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X, y in ((rows, odd), (frame, pandas.Series(column(odd), dtype=object))):
            first, second = ("a", "b") if X is frame else (0, 1)
            accountant = purse.BudgetAccountant(1.0, 1e-6)
            declarations: Any = {"bounds": {first: (0, 1)}, "categories": {second: ["a"]}, "accountant": accountant}
            model = _logistic(**declarations).fit(X, y)
            warnings.simplefilter("ignore", UnsupportedCategory)  # a function of released numbers
            margins = model.decision_function(X)
            warnings.simplefilter("error", UnsupportedCategory)
            assert accountant.fits == 1
            assert len(np.unique(margins)) == 1


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("neighbor", [[1, 2, 3], [1.0, None, 3.0], [1, None, 3], ["1", "x", "3"], [True, None, False]])
def test_each_column_of_a_frame_is_read_separately(library: str, neighbor: list[Any]) -> None:
    """In one array all columns have one type, so a flag next to integers was once read as an integer."""
    module = pytest.importorskip(library, reason=f"{library} is not installed: its frames are not tried")
    own = {"id": [_BIG, 2**53 + 1, 5], "flag": [True, False, True], "beside": neighbor}
    frame = module.table(own) if library == "pyarrow" else module.DataFrame(own)
    declarations: Any = {
        "categories": {"id": [_BIG, 2**53 + 1, 5], "flag": ["true", "false"]},
        "bounds": {"beside": (0, 3)},
    }
    model = _logistic(**declarations)
    shares = model.unread(frame, [0, 1, 1])
    assert (shares["id"], shares["flag"]) == (0, 0)
    twice = model.fit(frame, [0, 1, 1]).decision_function(frame)
    assert twice.shape == (3,)


@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.coo_matrix])
def test_where_a_record_s_entries_stand_changes_no_other_record(kind: Any) -> None:
    """1 and 38 times 1e-16 are 1 or more than 1, by the order in which they are added."""
    n, model = 20, _logistic(bounds=(0, 1))

    def unread(first: bool) -> float:
        values, row = [1.0, *[1e-16] * 38] * n, np.repeat(np.arange(n), 39).tolist()
        values, row = ([0.5, *values], [n, *row]) if first else ([*values, 0.5], [*row, n])
        X = kind((values, (row, [0] * len(row))), shape=(n + 1, 1))
        return next(iter(model.unread(X, np.arange(n + 1) % 2).values()))

    assert unread(True) == unread(False)


def test_an_arrow_batch_is_a_frame_with_names() -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: its batches are not tried")
    X = arrow.record_batch({"a": [0.0, 0.5, 1.0], "sex": ["f", "m", None]})
    model = _logistic(bounds={"a": (0, 1)}, categories={"sex": ["f", "m"]})
    assert model.unread(X, arrow.record_batch({"y": [0, 1, 1]})) == {"a": 0, "sex": 1 / 3, "the target": 0}
    model.fit(X, [0, 1, 1])
    assert model.feature_names_in_.tolist() == ["a", "sex"]
    table = arrow.Table.from_batches([X])
    np.testing.assert_array_equal(model.decision_function(X), model.decision_function(table))


@pytest.mark.parametrize("X", [[0.4711] * 4, np.full((4, 1), 0.4711 + 1j), [[0.4711], [1.0, 2.0], [3.0], [4.0]]])
def test_an_error_shows_no_value(X: Any) -> None:
    """scikit-learn's own errors of these shapes and types print the array."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011, the words are asserted below
        _logistic(bounds=(0, 1)).fit(X, [0, 1, 0, 1])
    assert "4711" not in str(refused.value)
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        _logistic(bounds=(0, 1)).fit([[0.5]] * 4, np.full(4, 0.4711 + 1j))
    assert "4711" not in str(refused.value)


def test_rows_in_blocks_are_refused() -> None:
    """An entry of one row would put a zero into the others of its block."""
    model = _logistic(bounds=(0, 1))
    with pytest.raises(ValueError, match=r"X\.tocsr\(\)"):
        model.fit(sparse.bsr_array(np.ones((4, 2)), blocksize=(2, 1)), [0, 1, 0, 1])
