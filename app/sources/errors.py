"""Reasons to refuse a file: functions of the declaration, the limits and the form of the file, never of a value."""

from collections.abc import Iterator

from purse.wire.files import ColumnReport, FileReport, OutcomeKind

_MOST_NAMED_COLUMNS = 5
_KINDS: dict[OutcomeKind, str] = {
    "not_a_number": "not a number",
    "not_a_date": "not a date",
    "not_declared": "not a declared category",
}


class SourceError(Exception):
    """The root of all errors of a file; `detail` may be shown to its sender."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class Unreadable(SourceError):
    """The file is empty, damaged, ragged, or neither CSV nor Parquet. It is refused whole."""


class TooLarge(SourceError):
    """The unpacked file is larger than the service accepts."""


class Mismatch(SourceError):
    """A declared column is not in the file, occurs twice, or has a type that is not read.

    Parameters
    ----------
    index : position of the column in the declaration
    rule : the fault, beginning with a verb
    """

    def __init__(self, index: int, name: str, rule: str) -> None:
        self.index = index
        self.rule = rule
        super().__init__(f"The column {name!r} {rule}.")


class Unparsed(SourceError):
    """More values of a column did not parse, or were clamped, than the declaration allows.

    Parameters
    ----------
    report : for the sender of the file alone
    """

    def __init__(self, report: FileReport) -> None:
        self.report = report
        reasons = (reason for column in report.refused[:_MOST_NAMED_COLUMNS] for reason in refusals(column))
        super().__init__(" ".join(reasons))


def refusals(column: ColumnReport) -> Iterator[str]:
    """Yield a sentence for each limit that a column's values exceed."""
    lines = {outcome.what: outcome.line for outcome in column.outcomes}
    if column.unparsed > column.max_unparsed:
        kind, line = next((_KINDS[kind], line) for kind, line in lines.items() if kind in _KINDS)
        share = f"{100 * column.unparsed:.3g} % of {column.name!r} is {kind}, first on line {line:,}"
        yield f"{share}; `max_unparsed` allows {100 * column.max_unparsed:.3g} %."
    if column.max_clamped is not None and column.clamped > column.max_clamped:
        share = f"{100 * column.clamped:.3g} % of {column.name!r} is outside the bounds, first on line"
        yield f"{share} {lines['clamped']:,}; `max_clamped` allows {100 * column.max_clamped:.3g} %."


class Damaged(SourceError):
    """The stored records are missing or were changed."""


class StorageUnreachable(SourceError):
    """The storage of records cannot be reached."""
