"""A table, whatever holds it: pandas, Polars and Arrow are used if given, and never imported."""

import csv
import io
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Any, BinaryIO, Final, Protocol, TextIO, TypeGuard, cast

from purse.wire.files import PLAIN, Dialect

_KINDS: Final = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}


class Frame(Protocol):
    """A DataFrame of pandas or Polars, an Arrow table or batch."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """What all of them have; it is not called."""
        ...


Rows = Frame | Sequence[Mapping[str, object]]


def is_frame(found: object) -> TypeGuard[Frame]:
    """Whether it is such a table, and no file and no list of rows."""
    return _library(found) is not None


def columns(rows: Rows) -> dict[str, list[object]]:
    """Each column's values, None for what is missing.

    Raises
    ------
    ValueError
        if rows differ in their columns, are none or one mapping, or a frame has a column twice.
    """
    if is_frame(rows):
        return _of_frame(rows)
    if isinstance(rows, Mapping):
        raise ValueError("rows are a list of mappings: put one row into a list")
    found = list(cast(Sequence[Mapping[str, object]], rows))
    if not all(isinstance(row, Mapping) for row in found):
        raise ValueError("rows are a frame, or a list of mappings from a column's name to its value: one for each row")
    names = dict.fromkeys(found[0]) if found else {}
    for row in found:
        if row.keys() != names.keys():
            odd = ", ".join(sorted(map(str, row.keys() ^ names.keys())))
            raise ValueError(f"the rows differ in their columns: {odd}")
    return {name: [row[name] for row in found] for name in names}


def as_csv(frame: Frame, dialect: Dialect = PLAIN) -> BinaryIO:
    """The frame as a CSV file in this dialect, at its beginning; nothing stands for what is missing.

    Raises
    ------
    ValueError
        if there is text that the dialect's encoding or its want of quotes cannot say.
    """
    held = columns(frame)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever sends it closes it
    text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
    write(text, chain([tuple(held)], zip(*held.values(), strict=True)), dialect, "frame")
    text.flush()
    text.detach()
    file.seek(0)
    return cast(BinaryIO, file)


def write(text: TextIO, rows: Iterable[Sequence[object]], dialect: Dialect, of: str) -> None:
    """Row r of the table is line r of a CSV file in this dialect; `of` is what the table is called.

    Raises
    ------
    ValueError
        naming the line, if there is text that the dialect's encoding or its want of quotes cannot say.
    """
    quoting: Any = {"quotechar": dialect.quote} if dialect.quote else {"quotechar": None, "quoting": csv.QUOTE_NONE}
    lines = csv.writer(text, delimiter=dialect.delimiter, **quoting)
    for line, row in enumerate(rows, start=1):
        try:
            lines.writerow(written(row, dialect))
        except (UnicodeError, csv.Error):
            why = "has text that the declared encoding, or its want of quotes, cannot say"
            raise ValueError(f"line {line} of the {of} {why}") from None


def written(row: Sequence[object], dialect: Dialect) -> list[str]:
    """Each value as the dialect says it: dates in its format, numbers with its decimal mark."""
    from purse.dates import said  # late, as the next: NumPy
    from purse.values import as_text

    def one(value: object) -> str:
        if isinstance(value, date):
            return said(value, dialect.date_format)
        is_number = not isinstance(value, str)
        return as_text(value).replace(".", dialect.decimal) if is_number else as_text(value)

    return list(map(one, row))


def _library(found: object) -> str | None:
    named = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(found).__mro__)
    return next((library for library, name in named if (library, name) in _KINDS), None)


def _of_frame(frame: Any) -> dict[str, list[object]]:
    library = _library(frame)
    names = list(frame.schema.names) if library == "pyarrow" else list(frame.columns)
    if len({str(name) for name in names}) < len(names):
        raise ValueError("the frame has a column twice")
    return {str(name): _values(frame[name], library) for name in names}


def _values(column: Any, library: str | None) -> list[object]:
    if library == "pandas":
        pairs = zip(column.tolist(), column.isna(), strict=True)
        return [None if is_missing else value for value, is_missing in pairs]
    return list(column.to_pylist() if library == "pyarrow" else column.to_list())
