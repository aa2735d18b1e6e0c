"""Released numbers as tables: text for a terminal, HTML for a notebook, a frame of pandas."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal

from purse.extras import needing
from purse.text import number

MAX_HTML_ROWS: Final = 20


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


Cell = str | int | float | Estimate | Span | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under headings.

    Parameters
    ----------
    caption, note : heading of the table, and a sentence about it
    look : a drawing that suits the numbers
    within : distance that each number keeps from the exact one in 95 of 100 releases, if it is the same for all
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    note: str = ""
    look: Look = "plain"
    within: float = 0.0

    def to_frame(self) -> Any:
        """Return the table as a DataFrame of pandas; NotInstalled without pandas."""
        with needing("to_frame"):
            from pandas import DataFrame  # type: ignore[import-untyped]
        return DataFrame(list(self.rows), columns=list(self.headings))

    def to_html(self, caption: str) -> str:
        """Return the first MAX_HTML_ROWS rows as an HTML table."""
        rows = ["".join(f"<td>{escape(number(cell))}</td>" for cell in row) for row in self.rows[:MAX_HTML_ROWS]]
        if len(self.rows) > MAX_HTML_ROWS:
            rows.append(f'<td colspan="{len(self.headings)}">... and {len(self.rows) - MAX_HTML_ROWS} more</td>')
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Tabular(ABC):
    """A released document that a notebook shows as a table."""

    __slots__ = ()

    @abstractmethod
    def _as_table(self) -> Table:
        """Return the main numbers of the document."""

    def to_frame(self) -> Any:
        """Return the main numbers as a DataFrame of pandas.

        Raises
        ------
        NotInstalled
            if pandas is not installed.
        """
        return self._as_table().to_frame()

    def _repr_html_(self) -> str:
        return self._as_table().to_html(repr(self).strip("<>"))
