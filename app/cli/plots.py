"""Counts and scores as bars, on a terminal and as SVG."""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

_BAR_COLUMNS: Final = 40  # of the longest bar
_ROW_PIXELS, _BAR_PIXELS, _LABEL_PIXELS, _IMAGE_PIXELS = 22, 14, 180, 720


def bars(labels: Sequence[str], values: Sequence[float], within: float) -> Iterator[str]:
    """Yield a line for each value: a dark bar up to the value, a light one up to the end of its interval."""
    longest = max(max(values) + within, 1e-300)
    label_columns = max(len(label) for label in labels)
    for label, value in zip(labels, values, strict=True):
        dark, end = (round(_BAR_COLUMNS * max(0.0, x) / longest) for x in (value, value + within))
        yield f"{label:<{label_columns}}  {value:>12.0f}  {'█' * dark}{'░' * (end - dark)}"


def spreads(
    labels: Sequence[str], values: Sequence[tuple[float, float, float]], start: float, end: float
) -> Iterator[str]:
    """Yield a line for each (low, median, high), on a scale from `start` to `end`.

    The bar is dark up to the low, lighter up to the median, and lightest up to the high.
    """
    length = max(end - start, 0.0)  # 0 if no model is better than a constant answer
    scale = _BAR_COLUMNS / length if length else 0.0
    label_columns = max(len(label) for label in labels)
    for label, spread in zip(labels, values, strict=True):
        low, median, high = (round(scale * min(max(x - start, 0.0), length)) for x in spread)
        yield f"{label:<{label_columns}}  {'█' * low}{'▓' * (median - low)}{'░' * (high - median)}".rstrip()


def svg(title: str, labels: Sequence[str], values: Sequence[float], within: float) -> str:
    """Return an SVG of the bars with their intervals. It loads nothing from elsewhere."""
    longest = max(max(values) + within, 1e-300)
    scale, height = (_IMAGE_PIXELS - _LABEL_PIXELS - 20) / longest, _ROW_PIXELS * (len(labels) + 2)
    view = f"0 0 {_IMAGE_PIXELS} {height}"
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=view, role="img")
    root.set("font-family", "sans-serif")
    root.set("font-size", "12")
    ElementTree.SubElement(root, "title").text = title
    ElementTree.SubElement(root, "text", x="8", y=str(_ROW_PIXELS - 6)).text = title
    for line, (label, value) in enumerate(zip(labels, values, strict=True), start=1):
        top = line * _ROW_PIXELS
        place = {"x": str(_LABEL_PIXELS - 8), "y": str(top + 12), "text-anchor": "end"}
        ElementTree.SubElement(root, "text", place).text = label
        place = {"x": str(_LABEL_PIXELS), "y": str(top), "fill": "#4878a8"}
        size = {"width": f"{scale * max(0.0, value):.1f}", "height": str(_BAR_PIXELS)}
        bar = ElementTree.SubElement(root, "rect", place | size)
        ElementTree.SubElement(bar, "title").text = f"{label}: {value:.0f}, within {within:.0f}"
        ends = [f"{_LABEL_PIXELS + scale * max(0.0, x):.1f}" for x in (value - within, value + within)]
        middle = str(top + _BAR_PIXELS / 2)
        ElementTree.SubElement(root, "line", x1=ends[0], x2=ends[1], y1=middle, y2=middle, stroke="#222")
    return ElementTree.tostring(root, encoding="unicode") + "\n"
