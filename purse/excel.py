"""A sheet of an Excel workbook as the CSV file that a server takes: cells by their types, in the declared dialect.

    row r of the sheet is line r of the file (cells with line ends apart);  a row without a value is no record

Nothing is guessed: one sheet is there or named, its first row names the columns. Text that the dialect cannot say is
refused with its line.
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
    """The file itself; of a workbook, told by its name's ending, its sheet as a CSV file as long as the block lasts.

    Parameters
    ----------
    dialect : of the CSV file
    sheet : its name, where there are several

    Raises
    ------
    ValueError
        if there is no such sheet, none is named of several, or a value cannot be written; names and lines, no values.
    NotInstalled
        without the extra `excel`.
    """
    if file.suffix.lower() not in ENDINGS:
        if sheet is not None:
            raise ValueError(f"a sheet is one of an Excel workbook, whose name ends on {', '.join(sorted(ENDINGS))}")
        yield file
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"{file.stem}.csv"
        _write(made, _rows(file, sheet), dialect)
        yield made


def _rows(file: Path, sheet: str | None) -> Iterator[Sequence[object]]:
    """The rows of the sheet, from its first."""
    with needing("reading a workbook", "excel"):
        from python_calamine import CalamineError, CalamineWorkbook

    try:
        with CalamineWorkbook.from_path(file) as workbook:
            names = workbook.sheet_names
            if sheet is None and len(names) != 1:
                raise ValueError(f"the workbook has several sheets; name one of {', '.join(map(repr, names))}")
            if sheet is not None and sheet not in names:
                raise ValueError(f"the workbook has no such sheet; it has {', '.join(map(repr, names))}")
            yield from workbook.get_sheet_by_name(names[0] if sheet is None else sheet).iter_rows()
    except CalamineError:
        raise ValueError("the file cannot be read as a workbook; save it anew, or save the sheet as CSV") from None


def _write(file: Path, rows: Iterator[Sequence[object]], dialect: Dialect) -> None:
    with file.open("w", encoding=dialect.encoding, newline="") as text:
        write(text, (row if any(value != "" for value in row) else [] for row in rows), dialect, "sheet")
