"""Tables, facts and numbers as text for people."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

WIDTH: Final = 100  # columns
_MIN_COLUMN_WIDTH: Final = 16


def table(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows under headings. The widest columns are wrapped between words if a row is longer than `WIDTH`."""
    cells = [list(headings), *([number(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    least_widths = [
        max(_MIN_COLUMN_WIDTH, _longest_word(row[column] for row in cells)) for column in range(len(widths))
    ]
    least_widths[-1] = _MIN_COLUMN_WIDTH  # a longer word there, such as a bar, shifts no other column
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        spare = [width - least for width, least in zip(widths, least_widths, strict=True)]
        wrappable = [column for column, columns in enumerate(spare) if columns > 0]
        if not wrappable:
            break
        widths[max(wrappable, key=widths.__getitem__)] -= 1
    lines = []
    for row in cells:
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=""):
            lines.append("  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip())
    return "".join(f"{line}\n" for line in lines)


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return names and values, one pair a line. Long values continue on the next line."""
    entries = list(pairs)
    width = max(len(name) for name, _ in entries)
    lines = []
    for name, value in entries:
        first, *continued = _wrapped(number(value), WIDTH - width - 2)
        lines += [f"{name:<{width}}  {first}", *(f"{'':<{width}}  {part}" for part in continued)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def paragraph(sentence: str) -> str:
    """Return a sentence in lines of at most `WIDTH` columns."""
    return "".join(f"{line}\n" for line in _wrapped(sentence, WIDTH))


def number(value: object) -> str:
    """Return a number with four digits, or all digits before the point; anything else as it is.

    Counts have commas between groups of three digits. Other numbers do not, because they are parts of intervals.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def amount(value: float) -> str:
    """Return a large number in words, such as 5.1 million."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.{1 if value < 10 * size else 0}f} {name}"
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.3g} %"


def loss(epsilon: float, delta: float) -> str:
    """Return a privacy loss as text."""
    return f"epsilon {epsilon:.4g} at delta {delta:.3g}"


def _longest_word(texts: Iterable[str]) -> int:
    return max(len(word) for text in texts for word in text.split() or [""])


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text. A word longer than the width has a line of its own."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
