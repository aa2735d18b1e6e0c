"""Released numbers as tables: text for a terminal, HTML for a notebook, a frame of pandas, cells for a page."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from purse import text
from purse.extras import needing

MAX_HTML_ROWS: Final = 20
INTERVAL_STDS: Final = 1.96  # half-width of a 95 % interval, in stds
_MAX_CURVE_ROWS = 10  # of a ROC curve on a terminal
_BAR_COLUMNS = 40  # of the longest bar on a terminal
_LEAST_P_VALUE = 0.001  # shown with digits
_DURATIONS = {"days": timedelta(days=1), "seconds": timedelta(seconds=1)}

Look = Literal["plain", "bars", "heat", "histogram", "roc", "calibration"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A released number and its interval.

    Parameters
    ----------
    date : days or seconds, if the number is a date, counted from 1970-01-01
    """

    value: float
    low: float
    high: float
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers, or of dates as in `Estimate`."""

    low: float
    high: float
    date: str | None = None


class _Interval(Protocol):
    """A released number and its interval in a message."""

    @property
    def value(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


class PValue(float):
    """A p-value. Text shows one below 0.001 as `< 0.001`, because further digits of it say nothing."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"< {_LEAST_P_VALUE}" if self < _LEAST_P_VALUE else text.number(float(self))

    @property
    def statement(self) -> str:
        """The value in a sentence: `p = 0.03`, or `p < 0.001`."""
        return f"p {self}" if self < _LEAST_P_VALUE else f"p = {self}"


Cell = str | int | float | Estimate | Span | None
Dates = Mapping[str, str | None]
"""By column name, the part of a date that the numbers are, such as days; None for other columns."""
NO_DATES: Dates = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under headings.

    If the first heading is empty, the table is a grid: its other headings are names of the same kind.

    Parameters
    ----------
    caption, note : title of the table, and a sentence about it
    look : the drawing that suits the numbers
    within : distance that each number keeps from the exact one in 95 of 100 releases, if it is the same for all
    origin : value at which bars begin
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    note: str = ""
    look: Look = "plain"
    within: float = 0.0
    origin: float = 0.0

    @classmethod
    def grid(
        cls,
        caption: str,
        names: Sequence[Cell],
        headings: Sequence[str],
        cells: Sequence[Sequence[Cell]],
        note: str = "",
        within: float = 0.0,
    ) -> "Table":
        """Return a table of rows and columns as a heat map."""
        rows = [(name, *row) for name, row in zip(names, cells, strict=True)]
        return cls(("", *headings), rows, caption, note, "heat", within)

    @property
    def estimates(self) -> list[Estimate]:
        """The main number of each row. Its interval reaches `within` to both sides if it has none of its own."""
        return [as_estimate(row[_main_index(row)], self.within) for row in self.rows]

    @property
    def lines(self) -> "Table":
        """The same numbers with one number a line, if the table is a grid; otherwise the table itself."""
        if self.headings[0]:
            return self
        rows = [
            (row[0], heading, cell)
            for row in self.rows
            for heading, cell in zip(self.headings[1:], row[1:], strict=True)
        ]
        return Table(("row", "column", "value"), rows, self.caption, self.note, "bars", self.within)

    @property
    def labels(self) -> list[str]:
        """The text of each row before its main number."""
        return [", ".join(map(written, row[: _main_index(row)])) for row in self.rows]

    def to_frame(self) -> Any:
        """Return the table as a DataFrame of pandas, which must be installed.

        An estimate has three columns: its value, and the ends of its interval. A range has two. A grid has a row for
        each of its numbers.
        """
        with needing("to_frame"):
            from pandas import DataFrame  # type: ignore[import-untyped]  # late: pandas is optional
        table = self.lines
        columns: list[tuple[str, list[object]]] = []
        for index, heading in enumerate(table.headings):
            cells = [row[index] for row in table.rows]
            if not any(isinstance(cell, Span) for cell in cells):
                columns.append((heading, [cell.value if isinstance(cell, Estimate) else cell for cell in cells]))
            if any(isinstance(cell, Estimate | Span) for cell in cells):
                for end in ("low", "high"):
                    columns.append((f"{heading} {end}", [getattr(cell, end, None) for cell in cells]))
        frame = DataFrame(dict(enumerate(values for _, values in columns)))
        return frame.set_axis([heading for heading, _ in columns], axis=1)  # two headings may be equal

    def to_html(self, caption: str, max_rows: int = MAX_HTML_ROWS) -> str:
        """Return the first `max_rows` rows as an HTML table."""
        rows = ["".join(f"<td>{escape(written(cell))}</td>" for cell in row) for row in self.rows[:max_rows]]
        if len(self.rows) > max_rows:
            rows.append(f'<td colspan="{len(self.headings)}">... and {len(self.rows) - max_rows:,} more</td>')
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_text(self) -> str:
        """Return the table for a terminal, with its caption, bars and note. A ROC curve has some of its points."""
        step = max(1, len(self.rows) // _MAX_CURVE_ROWS) if self.look == "roc" else 1
        rows = [[written(cell) for cell in row] for row in self.rows[::step]]
        headings = list(self.headings)
        if self.look in ("bars", "histogram"):
            headings.append("")
            rows = [[*row, bar] for row, bar in zip(rows, self._bars(), strict=True)]
        caption = f"{self.caption}\n" if self.caption else ""
        return caption + text.table(headings, rows) + (text.paragraph(self.note) if self.note else "")

    def _bars(self) -> list[str]:
        """Return a bar for each row: dark up to its interval, lighter up to the number and up to the interval's end."""
        lengths = []
        for each in self.estimates:
            sign = -1 if each.value < self.origin else 1
            lengths.append(sorted(max(sign * (end - self.origin), 0.0) for end in (each.low, each.value, each.high)))
        longest = max((row[-1] for row in lengths), default=0.0)
        scale = _BAR_COLUMNS / longest if longest > 0 else 0.0
        columns = [[round(scale * length) for length in row] for row in lengths]
        return [f"{'█' * low}{'▓' * (middle - low)}{'░' * (high - middle)}" for low, middle, high in columns]


class Tabular(ABC):
    """A released document that a notebook shows as a table."""

    __slots__ = ()

    @abstractmethod
    def lay_out(self) -> Iterable[Table]:
        """Return the tables in which the document is shown to people, one after the other."""

    def tables(self) -> list[Table]:
        """Return the tables in which the document is shown to people."""
        return list(self.lay_out())

    def __str__(self) -> str:
        return "\n".join((repr(self).strip("<>"), *(table.to_text() for table in self.tables())))

    def to_frame(self) -> Any:
        """Return the main numbers as a DataFrame of pandas.

        They are those of the first of `tables()`, and of the others with the same headings. Each of `tables()` has
        `to_frame`, too.

        Raises
        ------
        NotInstalled
            if pandas is not installed.
        """
        return self._main_table().to_frame()

    def _repr_html_(self) -> str:
        return self._main_table().to_html(repr(self).strip("<>"))

    def _main_table(self) -> Table:
        first, *further = self.tables()
        alike = [first, *(table for table in further if table.headings == first.headings)]
        if len(alike) == 1:
            return first
        rows = [(table.caption, *row) for table in alike for row in table.lines.rows]
        return Table(("table", *first.lines.headings), rows)


def written(cell: Cell, number: Callable[[float], str] = text.number) -> str:
    """Return a cell as text: an estimate with its interval unless it is exact, dates as dates, counts with all digits.

    Parameters
    ----------
    number : how numbers are written that are neither counts nor dates
    """
    match cell:
        case None:
            return "–"
        case PValue():
            return str(cell)
        case float():
            return number(cell)
        case Span(low, high, date):
            return " to ".join(dated(end, date) or number(end) for end in (low, high))
        case Estimate(value, low, high, date):
            at, *ends = (dated(each, date) or number(each) for each in (value, low, high))
            return at if low == value == high else f"{at} [{', '.join(ends)}]"
        case int():
            return f"{cell:,}"
        case _:
            return cell


def dated(value: float, date: str | None) -> str | None:
    """Return the nearest date, to the day where days are counted, or None for a number that is not a date."""
    return exact_date(round(value), date)


def exact_date(value: float, date: str | None) -> str | None:
    """Return the date of a number of days or seconds, or None for other numbers, and for years outside the calendar."""
    try:
        moment = datetime(1970, 1, 1) + value * _DURATIONS[date or ""]
    except (KeyError, OverflowError):
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")


def as_estimate(cell: object, within: float = 0.0) -> Estimate:
    """Return a number with its interval, which reaches `within` to both sides if it has no interval of its own."""
    if isinstance(cell, Estimate):
        return cell
    value = float(cell) if isinstance(cell, int | float) else 0.0
    return Estimate(value, value - within, value + within)


def estimate_of(interval: _Interval | None, date: str | None = None) -> Estimate | None:
    """Return a released number with its interval as a cell, or None for a number that was not released."""
    return None if interval is None else Estimate(interval.value, interval.low, interval.high, date)


def spans(edges: Sequence[float], date: str | None = None) -> list[Cell]:
    """Return the ranges between edges."""
    return [Span(low, high, date) for low, high in pairwise(edges)]


def _main_index(row: Sequence[Cell]) -> int:
    """Return the index of a row's estimate, or of its first number behind the name."""
    kinds = (Estimate, int | float, object)
    return next(index for kind in kinds for index in range(1, len(row)) if isinstance(row[index], kind))
