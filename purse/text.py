"""Tables and facts for people, as text."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows under headings, each a line."""
    cells = [list(headings), *([number(cell) for cell in row] for row in rows)]
    widths = [max(len(row[position]) for row in cells) for position in range(len(headings))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values, one pair a line."""
    told = list(pairs)
    width = max(len(name) for name, _ in told)
    return "".join(f"{name:<{width}}  {number(value)}\n" for name, value in told)


def number(value: object) -> str:
    """A number in six digits; anything else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
