"""Readers of containers: in coupled pairs, one record changes the code of no other."""

import numpy as np
import pytest

from solvers.data_access import containers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("scikit_learn")]  # the readers of estimators load it

PAIRS = 4_000  # twenty pairs of columns of each kind, and a hundred pairs of matrices of each form

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library, reason=f"{library} is not installed: its columns are not tried")


def test_no_record_changes_how_another_one_is_read() -> None:
    """Try 152 kinds of columns and matrices of nine forms. No value raises an error or a warning either."""
    from tests.support.containers import complaints

    assert complaints(seed=1, pairs=PAIRS) == []


def test_coupled_pairs_show_a_reader_that_looks_at_its_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier reader let NumPy choose the dimensions of a list and the type of an array. Twenty pairs show it."""
    from tests.support.containers import complaints

    def column(values: object) -> object:
        return np.array(values, dtype=object) if isinstance(values, (list, tuple)) else values

    monkeypatch.setattr(containers, "column", column)
    assert complaints(seed=1, pairs=80, names=("list of lists", "list of arrays"))
