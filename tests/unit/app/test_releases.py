"""What a page shows of a large release: its first rows and columns, and how many others are in the file."""

import json
from typing import Any

import pytest

from app.pages import releases
from app.pages.releases import MOST_BYTES, MOST_CELLS, MOST_COLUMNS, MOST_OF_PAGE, MOST_ROWS, PageTable, view
from purse import tables
from purse.tables import Estimate
from purse.wire.columns import CategoryColumn
from purse.wire.models import PrivacyStatement
from purse.wire.profiles import Interval
from purse.wire.statistics import CategoryShares, CovarianceResult, MeansResult, NumberMean, ReleasedStatistic, Result

INTERVAL = Interval(value=0.5, low=0.0, high=1.0)
PRIVACY = PrivacyStatement.model_construct(epsilon=1.0, delta=1e-6)


def _statistic(result: Result) -> bytes:
    statistic = ReleasedStatistic.model_construct(
        kind="statistic", dataset="ds", result=result, job="job", privacy=PRIVACY
    )
    return statistic.model_dump_json().encode()


def _covariance(columns: int) -> CovarianceResult:
    names = [f"column {number}" for number in range(columns)]
    matrix, cells = [[1.0] * columns] * columns, [[INTERVAL] * columns] * columns
    matrices: dict[str, Any] = {"covariance": matrix, "noise_std": matrix, "correlation": cells}
    return CovarianceResult(name="covariance", columns=names, means=[INTERVAL] * columns, **matrices)


@pytest.fixture(autouse=True)
def _any_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement of privacy is no part of a table."""

    def read(content: bytes) -> ReleasedStatistic:
        result = json.dumps(json.loads(content)["result"])
        kind = CovarianceResult if "correlation" in result else MeansResult
        return ReleasedStatistic.model_construct(result=kind.model_validate_json(result))

    monkeypatch.setattr(ReleasedStatistic, "model_validate_json", read)


def test_a_wide_covariance_shows_its_first_rows_and_columns() -> None:
    content = _statistic(_covariance(100))
    assert len(content) < MOST_BYTES
    page = view("statistic", content, {})
    table, _ = page.tables
    assert page.is_all
    assert len(table.heads) == 1 + MOST_COLUMNS
    assert {len(row) for row in table.rows} == {1 + MOST_COLUMNS}
    assert len(table.rows) == MOST_CELLS // len(table.heads)
    assert (table.left_out, table.columns_left_out) == (100 - len(table.rows), 100 - MOST_COLUMNS)


def test_a_correlation_that_noise_hides_is_not_shaded() -> None:
    table = PageTable.of(
        tables.Table(("", "a"), [("a", Estimate(-1.0, -1.0, 1.0)), ("b", Estimate(0.5, 0.25, 0.75))], look="heat")
    )
    assert table.shades[0] == (0.0,)
    assert table.shades[1][0] > 0


def test_bars_are_scaled_without_the_intercept() -> None:
    table = PageTable.of(tables.Table(("input", "encoded"), [("age", 0.5), ("intercept", -4.0)], look="bars"))
    assert [bar.length for bar in table.bars] == [1.0, -1.0]


def test_a_release_that_is_too_large_to_be_read_for_a_page_is_left_to_its_file() -> None:
    content = b"[" + b" " * MOST_BYTES
    assert view("statistic", content, {}) == releases.View(is_all=False)


def test_long_lists_of_tables_and_long_tables_are_cut() -> None:
    numbers = [NumberMean(column=f"number {number}", mean=INTERVAL) for number in range(MOST_ROWS + 7)]
    category = CategoryColumn(name="kind", type="category", categories=[f"part {part}" for part in range(600)])
    shares = CategoryShares(column=category, shares=[INTERVAL] * 601)
    means = MeansResult(name="means", numbers=numbers, categories=[shares] * 9)
    page = view("statistic", _statistic(means), {})
    assert not page.is_all
    assert page.tables[0].left_out == 7
    assert page.tables[1].left_out == 601 - MOST_ROWS
    cells = [len(table.rows) * len(table.heads) for table in page.tables]
    assert MOST_OF_PAGE <= sum(cells) < MOST_OF_PAGE + MOST_CELLS
