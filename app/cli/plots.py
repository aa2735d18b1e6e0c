"""Counts as bars, on a terminal and as SVG; spreads of scores as bars."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

_WIDTH = 40  # of the longest bar, in characters
_ROW, _BAR, _LEFT, _ALL = 22, 14, 180, 720  # pixels


def bars(labels: Sequence[str], values: Sequence[float], within: float) -> Iterator[str]:
    """A line a value, its bar as long as it is large; below the line's end what its interval adds, in light."""
    most = max(max(values) + within, 1e-300)
    widest = max(len(label) for label in labels)
    for label, value in zip(labels, values, strict=True):
        sure, may = (round(_WIDTH * max(0.0, end) / most) for end in (value, value + within))
        yield f"{label:<{widest}}  {value:>12.0f}  {'█' * sure}{'░' * (may - sure)}"


def curve(
    labels: Sequence[str], spreads: Sequence[tuple[float, float, float]], least: float, most: float
) -> Iterator[str]:
    """A line for each (low, median, high), between two ends: dark up to the low, lighter to the median and the high."""
    scale, widest = _WIDTH / max(most - least, 1e-300), max(len(label) for label in labels)
    for label, spread in zip(labels, spreads, strict=True):
        low, median, high = (round(scale * min(max(end - least, 0.0), most - least)) for end in spread)
        yield f"{label:<{widest}}  {'█' * low}{'▓' * (median - low)}{'░' * (high - median)}".rstrip()


def drawn(title: str, labels: Sequence[str], values: Sequence[float], within: float) -> str:
    """An SVG of the same bars, each with its interval: no outside resource, readable as text."""
    most = max(max(values) + within, 1e-300)
    scale, height = (_ALL - _LEFT - 20) / most, _ROW * (len(labels) + 2)
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_ALL} {height}", role="img")
    root.set("font-family", "sans-serif")
    root.set("font-size", "12")
    ElementTree.SubElement(root, "title").text = title
    ElementTree.SubElement(root, "text", x="8", y=str(_ROW - 6)).text = title
    for line, (label, value) in enumerate(zip(labels, values, strict=True), start=1):
        y = line * _ROW
        ElementTree.SubElement(root, "text", {"x": str(_LEFT - 8), "y": str(y + 12), "text-anchor": "end"}).text = label
        long = f"{scale * max(0.0, value):.1f}"
        bar = ElementTree.SubElement(root, "rect", x=str(_LEFT), y=str(y), width=long, height=str(_BAR), fill="#4878a8")
        ElementTree.SubElement(bar, "title").text = f"{label}: {value:.0f}, within {within:.0f}"
        ends = [f"{_LEFT + scale * max(0.0, end):.1f}" for end in (value - within, value + within)]
        middle = str(y + _BAR / 2)
        ElementTree.SubElement(root, "line", x1=ends[0], x2=ends[1], y1=middle, y2=middle, stroke="#222")
    return ElementTree.tostring(root, encoding="unicode") + "\n"
