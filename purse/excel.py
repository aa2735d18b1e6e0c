"""A sheet of an Excel workbook as a CSV file for the server, with cells by their types in the declared dialect.

Row r of the sheet becomes line r of the file, apart from cells with line breaks. A row without values is not a record.
Nothing is guessed: the sheet is the only one or named, and its first row has the column names.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from purse.extras import needing
from purse.frames import write
from purse.wire.files import PLAIN, Dialect

ENDINGS: Final = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})


@contextmanager
def readable(file: Path, dialect: Dialect = PLAIN, sheet: str | None = None) -> Iterator[Path]:
    """Yield the file itself; for a workbook, by its ending, a temporary CSV file of its sheet.

    Parameters
    ----------
    dialect : of the CSV file
    sheet : name of the sheet, if the workbook has several

    Raises
    ------
    ValueError
        if the sheet does not exist, none of several is named, or a value cannot be written. Messages hold names and
        line numbers, never values.
    NotInstalled
        without the extra `excel`.
    """
    if file.suffix.lower() not in ENDINGS:
        if sheet is not None:
            raise ValueError(
                f"sheet is for Excel workbooks, whose names end with {', '.join(sorted(ENDINGS))}. Leave it out"
            )
        yield file
        return
    with tempfile.TemporaryDirectory() as folder:
        converted = Path(folder) / f"{file.stem}.csv"
        _write(converted, _rows(file, sheet), dialect)
        yield converted


def _rows(file: Path, sheet: str | None) -> Iterator[Sequence[object]]:
    """Yield the rows of the sheet."""
    with needing("reading a workbook", "excel"):
        from python_calamine import CalamineError, CalamineWorkbook  # late: an extra

    try:
        with CalamineWorkbook.from_path(file) as workbook:
            names = workbook.sheet_names
            if sheet is None and len(names) != 1:
                raise ValueError(f"the workbook has several sheets. Name one of {', '.join(map(repr, names))}")
            if sheet is not None and sheet not in names:
                raise ValueError(f"the workbook has no such sheet; it has {', '.join(map(repr, names))}")
            yield from workbook.get_sheet_by_name(names[0] if sheet is None else sheet).iter_rows()
    except CalamineError:
        raise ValueError("the file cannot be read as a workbook. Save it again, or save the sheet as CSV") from None


def _write(file: Path, rows: Iterator[Sequence[object]], dialect: Dialect) -> None:
    with file.open("w", encoding=dialect.encoding, newline="") as text:
        write(text, (row if any(value != "" for value in row) else [] for row in rows), dialect, "sheet")
