"""A sheet of a workbook is a CSV file of the declared dialect: nothing is guessed, dates are dates."""

import csv
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.sources import ingest
from app.sources.ingest import Reading
from purse.excel import readable
from purse.extras import NotInstalled
from purse.wire.datasets import DatasetSpec
from purse.wire.files import Dialect
from tests.support.workbook import Fault, workbook

DIALECTS: list[dict[str, Any]] = [
    {},
    {"delimiter": ";", "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y %H:%M", "encoding": "latin-1"},
    {"delimiter": "\t", "quote": "'", "encoding": "utf-16", "date_format": "%Y%m%d"},
]
ROWS: list[list[object]] = [
    ["age", "seen", "ward", 2025, "note"],
    [30, dt.date(2020, 1, 31), 'Chir; "urgie"', True, "a"],
    [None, None, None, None, None],
    [0.5, dt.datetime(2020, 2, 29), "'med', M\u00fcller", False, None],
    [1e-7, None, "other", Fault("#DIV/0!"), "b"],
]


@pytest.fixture(autouse=True)
def _needs_the_reader() -> None:
    pytest.importorskip("python_calamine", reason="python-calamine is not installed: no workbook is read")


def _spec(dialect: dict[str, Any]) -> DatasetSpec:
    columns = [
        {"name": "age", "type": "number", "lower": 0, "upper": 100},
        {"name": "seen", "type": "number", "lower": "2019-01-01", "upper": "2021-01-01", "date": "days"},
        {"name": "ward", "type": "category", "categories": ['Chir; "urgie"', "'med', M\u00fcller", "other"]},
        {"name": "2025", "type": "category", "categories": ["true", "false"]},
    ]
    return DatasetSpec.model_validate(
        {"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}, "dialect": dialect}
    ).settled()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sheet_is_read_as_its_cells_are_in_any_dialect(dialect: dict[str, Any], tmp_path: Path) -> None:
    file, spec = workbook(tmp_path / "stays.XLSX", {"2025": ROWS}), _spec(dialect)
    reading, tally = Reading.of(spec)
    with readable(file, spec.dialect) as plain:
        read = np.concatenate(list(ingest.encoded(plain, reading)))
    assert not plain.exists(), "no copy of the data is left"
    first = (dt.date(2020, 1, 31) - dt.date(2019, 1, 1)).days, (dt.date(2020, 2, 29) - dt.date(2019, 1, 1)).days
    days = (dt.date(2021, 1, 1) - dt.date(2019, 1, 1)).days
    np.testing.assert_allclose(read[:, 0], [-0.4, -0.99, 2e-9 - 1], atol=1e-15)
    np.testing.assert_allclose(read[:, 1], [2 * first[0] / days - 1, 2 * first[1] / days - 1, 0.0], atol=1e-12)
    np.testing.assert_array_equal(read[:, 2:], [[0, 0], [1, 1], [2, 2]])
    missing = {column.name: column.outcomes[0] for column in tally.report.columns if column.outcomes}
    assert {name: (what.what, what.line) for name, what in missing.items()} == {
        "seen": ("missing", 5),
        "2025": ("missing", 5),
    }, "a row of the sheet is a line of the file"


def test_a_workbook_of_several_sheets_requires_the_name_of_a_sheet(tmp_path: Path) -> None:
    file = workbook(tmp_path / "stays.xlsx", {"2024": [["x"], [1]], "2025": [["x"], [2]]})
    with readable(file, sheet="2025") as plain, plain.open(newline="") as text:
        assert list(csv.reader(text)) == [["x"], ["2"]]
    for named, says in ((None, "several sheets. Name one of '2024', '2025'"), ("2026", "no such sheet; it has '2024'")):
        with pytest.raises(ValueError, match=says), readable(file, sheet=named):
            pass
    text_file = tmp_path / "stays.csv"
    text_file.write_text("x\n1\n")
    with readable(text_file) as plain:
        assert plain == text_file
    with pytest.raises(ValueError, match="Excel workbooks"), readable(text_file, sheet="2025"):
        pass


@pytest.mark.parametrize(
    ("value", "dialect"),
    [("\u4e2d", {"encoding": "latin-1"}), ("a;b", {"quote": "", "delimiter": ";"})],
)
def test_a_value_that_the_dialect_cannot_express_is_refused_with_its_line(
    value: str, dialect: Any, tmp_path: Path
) -> None:
    file = workbook(tmp_path / "stays.xlsx", {"a": [["x", "y"], [1, 1], [value, 1]]})
    with pytest.raises(ValueError, match="line 3") as refused, readable(file, Dialect(**dialect)):
        pass
    assert value not in str(refused.value)


def test_a_time_that_does_not_fit_the_date_format_is_written_in_full(tmp_path: Path) -> None:
    file = workbook(tmp_path / "stays.xlsx", {"a": [["x"], [dt.datetime(2020, 1, 31, 12, 30)]]})
    with readable(file) as plain:
        assert plain.read_text().split() == ["x", "2020-01-31T12:30:00"]


def test_a_file_that_is_not_a_workbook_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stays.xlsx"
    file.write_bytes(b"x,y\n1,2\n")
    with pytest.raises(ValueError, match="as a workbook"), readable(file):
        pass
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(NotInstalled, match=r"pip install 'privy-purse\[excel\]'"), readable(file):
        pass
