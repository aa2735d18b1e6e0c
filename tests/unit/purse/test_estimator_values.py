"""What estimators read of lists and frames: each value by itself, whatever stands beside it."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import purse
from purse.estimators.values import columns

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("scikit_learn")]  # the first of them loads it


def _logistic(**more: Any) -> Any:
    return purse.PrivateLogisticRegression(**({"classes": [0, 1], "method": "dp_gd"} | more))


_BIG = 12_345_678_901  # in shortest form a float of that size is written with an exponent


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.0, 1.0, 2.0], {"categories": {0: ["0", "1", "2"]}}),
        ([_BIG, _BIG + 1, 3], {"categories": {0: [_BIG, _BIG + 1, 3]}}),
        ([0.1, 0.2, 0.3], {"categories": {0: [0.1, 0.2, 0.3]}}),
        ([True, False, True], {"categories": {0: ["true", "false"]}}),
        ([True, False, True], {"bounds": (0, 1)}),
        ([1, 2, 3], {"bounds": (1, 3)}),
    ],
)
@pytest.mark.parametrize("odd", ["x", None, np.nan, 0.5, 10**400])
def test_no_value_changes_how_another_one_is_read(values: list[Any], said: Any, odd: Any) -> None:
    """A list of numbers and a text is an array of texts to NumPy, and one of a missing value makes floats of integers:
    one label that was no number made all others the first class.
    """
    y: list[Any] = [0, 1, 1]
    other = [*values[:2], odd]

    def unread(X: Any, y: Any = y, **said: Any) -> dict[str, float]:
        found: dict[str, float] = _logistic(**said).unread(X, y)
        return found

    for labels, classes in ((y, [0, 1]), ([float(label) for label in y], ["0", "1"]), ([False, True, True], [0, 1])):
        X = [[1.0]] * 3
        assert unread(X, labels, classes=classes, bounds=(0, 1))["the target"] == 0
        changed = unread(X, [*labels[:2], odd], classes=classes, bounds=(0, 1))
        assert changed["the target"] == pytest.approx(1 / 3)
    assert unread([[value] for value in values], **said)["column 0"] == 0
    assert unread([[value] for value in other], **said)["column 0"] in (0, pytest.approx(1 / 3))


def test_no_value_is_refused_as_a_number_or_as_a_category() -> None:
    """After the charge an error would tell of a row."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: its missing time is not tried")
    odd: list[Any] = [pandas.NaT, pandas.NA, np.timedelta64(1, "s"), np.datetime64("2020-01-01"), 2j, b"1", object()]
    model = _logistic(bounds={0: (0, 1)}, categories={1: ["a"]}).fit([[value, value] for value in odd], odd)
    assert len(np.unique(model.decision_function([[value, value] for value in odd]))) == 1


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("beside", [[1, 2, 3], [1.0, None, 3.0], [1, None, 3], ["1", "x", "3"], [True, None, False]])
def test_columns_of_a_frame_are_read_each_by_itself(library: str, beside: list[Any]) -> None:
    """As one array they have one type, that of all of them: a flag beside integers was one of them, and no flag."""
    module = pytest.importorskip(library, reason=f"{library} is not installed: its frames are not tried")
    own = {"id": [_BIG, 2**53 + 1, 5], "flag": [True, False, True], "beside": beside}
    frame = module.table(own) if library == "pyarrow" else module.DataFrame(own)
    said: Any = {"categories": {"id": [_BIG, 2**53 + 1, 5], "flag": ["true", "false"]}, "bounds": {"beside": (0, 3)}}
    model = _logistic(**said)
    found = model.unread(frame, [0, 1, 1])
    assert (found["id"], found["flag"]) == (0, 0)
    twice = model.fit(frame, [0, 1, 1]).decision_function(frame)
    assert twice.shape == (3,)


@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.coo_matrix])
def test_where_a_record_s_entries_stand_changes_no_other_record(kind: Any) -> None:
    """1 and 38 times 1e-16 are 1 or more than 1, by the order in which they are added."""
    n, model = 20, _logistic(bounds=(0, 1))

    def read(first: bool) -> list[float]:
        values, row = [1.0, *[1e-16] * 38] * n, np.repeat(np.arange(n), 39).tolist()
        values, row = ([0.5, *values], [n, *row]) if first else ([*values, 0.5], [*row, n])
        X = model._taken(kind((values, (row, [0] * len(row))), shape=(n + 1, 1)))
        [column] = columns(X, model._features(X))
        return np.asarray(column).tolist()

    assert read(True) == read(False)


def test_rows_in_blocks_are_refused() -> None:
    """An entry of one row would put a zero into the others of its block."""
    model = _logistic(bounds=(0, 1))
    with pytest.raises(ValueError, match=r"X\.tocsr\(\)"):
        model.fit(sparse.bsr_array(np.ones((4, 2)), blocksize=(2, 1)), [0, 1, 0, 1])
