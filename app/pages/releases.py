"""A release on its page: its tables as text, with bars, shades and charts. All numbers in them are released already.

A page shows the first rows and columns of a large release. The file contains all of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.pages import charts, words
from app.pages.charts import Chart
from purse import tables
from purse.model import COEFFICIENT_HEADING, INTERCEPT, Model
from purse.tables import Dates, Estimate, as_estimate, written
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.profiles import DatasetProfile
from purse.wire.statistics import ReleasedStatistic

MOST_ROWS, MOST_COLUMNS, MOST_CELLS = 500, 24, 2000  # shown of one table
MOST_OF_PAGE = 5000  # cells of a page, after which no further table is shown
MOST_BYTES = 2**21  # of a release that is read for a page: reading one keeps all other threads waiting
_DARKEST_SHADE = 0.5  # text on it stays readable
Release = Model | ReleasedStatistic | ReleasedEvaluation | DatasetProfile
_DOCUMENTS: Mapping[str, type[Release]] = {
    "statistic": ReleasedStatistic,
    "evaluation": ReleasedEvaluation,
    "profile": DatasetProfile,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar beside a row, and the interval of its value; lengths from -1 to 1.

    Parameters
    ----------
    length : from zero to the value
    low, high : ends of the interval; both equal to the length if there is none
    """

    length: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PageTable:
    """One table as a page shows it.

    Parameters
    ----------
    caption, note : its heading, and a sentence below
    heads : over its columns
    rows : a name, and cells
    bars : one for each row, if there are bars
    shades : opacity of the color behind each cell after the name, if the table is a heat map
    chart : the same numbers as a chart, if there is one
    left_out, columns_left_out : numbers of further rows and columns, which are not shown
    """

    caption: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[Bar, ...] = ()
    shades: tuple[tuple[float, ...], ...] = ()
    chart: Chart | None = None
    left_out: int = 0
    columns_left_out: int = 0

    @property
    def number_heads(self) -> tuple[str, ...]:
        """The headings of the columns that hold numbers. The first column names the rows."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.heads)
        named = list(zip(self.heads, columns, strict=True))[1:]
        return tuple(head for head, cells in named if any(map(is_number, cells)))

    @classmethod
    def of(cls, table: tables.Table) -> "PageTable":
        """Return the part of a table that a page shows."""
        columns = min(len(table.headings), 1 + MOST_COLUMNS)
        most_rows = min(MOST_ROWS, MOST_CELLS // columns)
        rows = [row[:columns] for row in table.rows[:most_rows]]
        return cls(
            caption=table.caption,
            note=table.note,
            heads=tuple(table.headings[:columns]),
            rows=tuple(tuple(written(cell, words.large) for cell in row) for row in rows),
            bars=_bars(replace(table, rows=rows)) if table.look == "bars" else (),
            shades=_shades([row[1:] for row in rows]) if table.look == "heat" else (),
            chart=charts.of_table(table),
            left_out=max(len(table.rows) - most_rows, 0),
            columns_left_out=len(table.headings) - columns,
        )


@dataclass(frozen=True, slots=True)
class View:
    """The part of a release that a page shows.

    Parameters
    ----------
    release : the document; None if there is none, or it is too large to be read for a page
    tables : the first of its tables
    is_all : whether these are all tables of the release
    """

    release: Release | None = None
    tables: tuple[PageTable, ...] = ()
    is_all: bool = True


def view(kind: str, content: bytes, dates: Dates) -> View:
    """Return the first tables of a release; `dates` are the columns that hold days or seconds."""
    if len(content) > MOST_BYTES:
        return View(is_all=False)
    release = _DOCUMENTS.get(kind, Model).model_validate_json(content)
    first: list[PageTable] = []
    cells = 0
    for each in map(_without_zeros, _tables(release, dates)):
        if cells >= MOST_OF_PAGE:
            return View(release, tuple(first), is_all=False)
        table = PageTable.of(each)
        first.append(table)
        cells += len(table.rows) * len(table.heads)
    return View(release, tuple(first))


def _tables(release: Release, dates: Dates) -> Iterable[tables.Table]:
    """Return the tables of a release, and the forest plot of a regression table."""
    if isinstance(release, ReleasedStatistic):
        return release.lay_out(dates)
    if isinstance(release, Model) and release.table is not None:
        return [*release.lay_out(), release.regression.forest()]
    return release.lay_out()


def is_number(cell: str) -> bool:
    """Return whether a cell's text is a number, perhaps with an interval, or the dash of a missing one."""
    return cell == "–" or cell[-1:].isdecimal() or cell.endswith(("]", " million", " billion"))


def _without_zeros(table: tables.Table) -> tables.Table:
    """Return a table of coefficients without those that are 0, which would fill a page; any other table as it is."""
    if table.headings[0] != COEFFICIENT_HEADING:
        return table
    rows = [row for row in table.rows if as_estimate(row[1]).value != 0]
    zeros = len(table.rows) - len(rows)
    note = f"{table.note} {zeros} coefficients are 0 and left out here." if zeros else table.note
    return replace(table, rows=rows, note=note)


def _bars(table: tables.Table) -> tuple[Bar, ...]:
    """Return bars of numbers, with the ends of their intervals.

    Bars are scaled without the intercept. It may be cut, so that the coefficients can be compared.
    """
    estimates = table.estimates
    compared = [each for row, each in zip(table.rows, estimates, strict=True) if row[0] != INTERCEPT] or estimates
    scale = max((abs(end) for each in compared for end in (each.value, each.low, each.high)), default=0.0) or 1.0
    ends = ((min(max(end / scale, -1.0), 1.0) for end in (each.value, each.low, each.high)) for each in estimates)
    return tuple(Bar(*lengths) for lengths in ends)


def _weight(estimate: Estimate) -> float:
    """Return how far a number is from 0; 0 if its interval contains 0, so that noise is not shaded."""
    if estimate.low < 0 < estimate.high:
        return 0.0
    return abs(estimate.value)


def _shades(rows: Sequence[Sequence[object]]) -> tuple[tuple[float, ...], ...]:
    """Return shades of correlations, or of counts in proportion to the largest one."""
    weights = [[_weight(as_estimate(cell)) for cell in row] for row in rows]
    largest = max((weight for row in weights for weight in row), default=0.0) or 1.0
    return tuple(tuple(_DARKEST_SHADE * weight / largest for weight in row) for row in weights)
