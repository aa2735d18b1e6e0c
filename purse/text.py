"""Tables and facts as text for people."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows under headings, one line each."""
    cells = [list(headings), *([number(cell) for cell in row] for row in rows)]
    widths = [max(len(row[position]) for row in cells) for position in range(len(headings))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return names and values, one pair a line."""
    entries = list(pairs)
    width = max(len(name) for name, _ in entries)
    return "".join(f"{name:<{width}}  {number(value)}\n" for name, value in entries)


def number(value: object) -> str:
    """Return a float with six significant digits; any other value as text."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
