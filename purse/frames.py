"""Tables of rows: lists of mappings, or frames of pandas, Polars and Arrow, which are never imported here."""

import csv
import io
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Any, BinaryIO, Final, Protocol, TextIO, TypeGuard, cast

from purse.wire.files import PLAIN, Dialect

_KINDS: Final = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}


class DataFrame(Protocol):
    """A DataFrame of pandas or Polars, an Arrow table or record batch."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The method that all of them have; it is not called."""


Rows = DataFrame | Sequence[Mapping[str, object]]


def is_frame(value: object) -> TypeGuard[DataFrame]:
    """Return whether a value is a frame, and neither a file nor a list of rows."""
    return _library(value) is not None


def columns(rows: Rows) -> dict[str, list[object]]:
    """Return each column's values, with None for a missing one.

    Raises
    ------
    ValueError
        if rows differ in their columns, are not a list of mappings, or a frame has a column twice.
    """
    if is_frame(rows):
        return _of_frame(rows)
    if isinstance(rows, Mapping):
        raise ValueError("rows must be a list of mappings, and this is one mapping. Put it into a list")
    mappings = list(cast(Sequence[Mapping[str, object]], rows))
    if not all(isinstance(row, Mapping) for row in mappings):
        raise ValueError("rows must be a frame, or a list of mappings from column name to value, one for each row")
    names = dict.fromkeys(mappings[0]) if mappings else {}
    for row in mappings:
        if row.keys() != names.keys():
            differing = ", ".join(sorted(map(str, row.keys() ^ names.keys())))
            raise ValueError(f"the rows differ in their columns: {differing}. Give every row the same columns")
    return {name: [row[name] for row in mappings] for name in names}


def as_csv(frame: DataFrame, dialect: Dialect = PLAIN) -> BinaryIO:
    """Return the frame as an open CSV file in this dialect, at its beginning; missing values are empty fields.

    Raises
    ------
    ValueError
        if the dialect cannot represent some text, because of its encoding or because it has no quotes.
    """
    values = columns(frame)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
    write(text, chain([tuple(values)], zip(*values.values(), strict=True)), dialect, "frame")
    text.flush()
    text.detach()
    file.seek(0)
    return cast(BinaryIO, file)


def write(text: TextIO, rows: Iterable[Sequence[object]], dialect: Dialect, kind: str) -> None:
    """Write row r of a table as line r of a CSV file in this dialect.

    Parameters
    ----------
    kind : what an error calls the table

    Raises
    ------
    ValueError
        with the line number, if the dialect cannot represent some text.
    """
    quoting: Any = {"quotechar": dialect.quote} if dialect.quote else {"quotechar": None, "quoting": csv.QUOTE_NONE}
    lines = csv.writer(text, delimiter=dialect.delimiter, **quoting)
    for line, row in enumerate(rows, start=1):
        try:
            lines.writerow(written(row, dialect))
        except (UnicodeError, csv.Error):
            raise ValueError(
                f"line {line} of the {kind} has text that the declared encoding cannot represent, or that needs the "
                "quotes which the dialect does not have. Declare encoding utf-8, or a quote"
            ) from None


def written(row: Sequence[object], dialect: Dialect) -> list[str]:
    """Return each value as text in the dialect: dates in its format, numbers with its decimal mark."""
    from purse import dates, values  # late: NumPy

    def field(value: object) -> str:
        if isinstance(value, date):
            return dates.formatted(value, dialect.date_format)
        is_number = not isinstance(value, str)
        return values.as_text(value).replace(".", dialect.decimal) if is_number else values.as_text(value)

    return list(map(field, row))


def _library(value: object) -> str | None:
    """Return the library of a frame, or None for anything else."""
    kinds = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__)
    return next((library for library, name in kinds if (library, name) in _KINDS), None)


def _of_frame(frame: Any) -> dict[str, list[object]]:
    library = _library(frame)
    names = list(frame.schema.names) if library == "pyarrow" else list(frame.columns)
    if len({str(name) for name in names}) < len(names):
        raise ValueError("two columns of the frame have the same name. Names are compared as text. Rename or drop one")
    return {str(name): _values(frame[name], library) for name in names}


def _values(column: Any, library: str | None) -> list[object]:
    if library == "pandas":
        pairs = zip(column.tolist(), column.isna(), strict=True)
        return [None if is_missing else value for value, is_missing in pairs]
    return list(column.to_pylist() if library == "pyarrow" else column.to_list())
