"""What became of a file's values, for whoever holds the file."""

from collections.abc import Iterator

from app.cli.common import percent, table
from purse.wire.files import FileReport


def show(report: FileReport) -> None:
    """A table of all columns, on stdout."""
    rows = []
    for column in report.columns:
        counts = {outcome.what: outcome.count for outcome in column.outcomes}
        known = (column.parsed, counts.get("clamped", 0), counts.get("missing", 0))
        shares = (percent(column.unparsed), percent(column.max_unparsed))
        rows.append((column.name, *known, *shares, "refused" if column.is_refused else "taken"))
    table(("column", "parsed", "clamped", "missing", "unparsed", "at most", "so it is"), rows)


def cures(report: FileReport) -> Iterator[str]:
    """Yield a line for each warning, and one for each kind of values that has a likely remedy."""
    yield from (f"warning: {warning}" for warning in report.warnings)
    for column in report.columns:
        for outcome in column.outcomes:
            if outcome.cure is not None:
                what = f"{outcome.count} {outcome.what.replace('_', ' ')}, first on line {outcome.line}"
                yield f"{column.name}: {what}; {outcome.cure}"
