"""Tables of how the values of a file were read, for the person who has the file."""

from collections.abc import Iterator

from purse import text
from purse.wire.files import FileReport


def outcomes(report: FileReport) -> str:
    """Return a table of all columns."""
    rows = []
    for column in report.columns:
        counts = {outcome.what: outcome.count for outcome in column.outcomes}
        values = (column.parsed, counts.get("clamped", 0), counts.get("missing", 0))
        shares = (text.percent(column.unparsed), text.percent(column.max_unparsed))
        rows.append((column.name, *values, *shares, "refused" if column.is_refused else "accepted"))
    return text.table(("column", "parsed", "clamped", "missing", "unparsed", "allowed", "result"), rows)


def cures(report: FileReport) -> Iterator[str]:
    """Yield a line for each warning, and one for each kind of values that has a likely remedy."""
    yield from (f"warning: {warning}" for warning in report.warnings)
    for column in report.columns:
        for outcome in column.outcomes:
            if outcome.cure is not None:
                kind = f"{outcome.count:,} {outcome.what.replace('_', ' ')}, first on line {outcome.line:,}"
                yield f"{column.name}: {kind}. {outcome.cure}"
