"""Readers of containers: in 10,000 coupled pairs, one record changes the code of no other."""

import numpy as np
import pytest

from solvers.data_access import containers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("scikit_learn")]  # the readers of estimators load it

PAIRS = 10_000

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library, reason=f"{library} is not installed: its columns are not tried")


def test_no_record_changes_how_another_one_is_read() -> None:
    """Of 152 kinds of columns, and of matrices of nine forms; no value is an error or a warning either."""
    from tests.support.containers import complaints

    assert complaints(seed=1, pairs=PAIRS) == []


def test_coupled_pairs_show_a_reader_that_looks_at_its_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of before: NumPy finds out how many dimensions a list has, and what type an array."""
    from tests.support.containers import complaints

    def column(values: object) -> object:
        return np.array(values, dtype=object) if isinstance(values, (list, tuple)) else values

    monkeypatch.setattr(containers, "column", column)
    assert complaints(seed=1, pairs=200, names=("list of lists", "list of arrays"))
