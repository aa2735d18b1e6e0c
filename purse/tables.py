"""Released numbers as tables: text for a terminal, HTML for a notebook, a frame of pandas."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from purse.extras import needing
from purse.text import number

MAX_HTML_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]

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


class Tabular:
    """A released document that a notebook shows as a table."""

    __slots__ = ()

    def _as_table(self) -> Table:
        """Return the main numbers of the document."""
        raise NotImplementedError

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
