"""Why a file is refused: a function of the declaration, the limits and the form of the file, never of a value."""

from purse.wire.files import ColumnReport, FileReport

_MOST_NAMED = 5


class SourceError(Exception):
    """Root; `detail` may be shown to whoever sent the file."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class Unreadable(SourceError):
    """The file is empty, damaged, ragged, or neither CSV nor Parquet. It is refused whole."""


class TooLarge(SourceError):
    """What the file unfolds to is larger than the service takes."""


class Mismatch(SourceError):
    """A declared column is not in the file, is there twice, or has a type that is not read.

    Parameters
    ----------
    index : position of the column in the declaration
    what : what is wrong with it, beginning with a verb
    """

    def __init__(self, index: int, name: str, what: str) -> None:
        self.index = index
        self.what = what
        super().__init__(f"The column {name!r} {what}.")


class Unparsed(SourceError):
    """Of a column more did not parse than its steward has declared.

    Parameters
    ----------
    report : for whoever sent the file
    """

    def __init__(self, report: FileReport) -> None:
        self.report = report
        super().__init__(" ".join(_sentence(column) for column in report.refused[:_MOST_NAMED]))


def _sentence(column: ColumnReport) -> str:
    lost = next(o for o in column.outcomes if o.what not in ("clamped", "missing"))
    kind = {"not_a_number": "no number", "not_a_date": "no date"}.get(lost.what, "no declared category")
    share = f"{100 * column.unparsed:.3g} % of {column.name!r} is {kind}, first on line {lost.line}"
    return f"{share}; {100 * column.max_unparsed:.3g} % may be."


class Damaged(SourceError):
    """What is stored is not what was stored, or is not there."""


class Away(SourceError):
    """Where records are stored cannot be reached."""
