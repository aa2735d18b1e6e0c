"""Counts as bars in an SVG file."""

from typing import Final
from xml.etree import ElementTree

from purse.tables import Table

_ROW_PIXELS: Final = 22
_BAR_PIXELS: Final = 14
_LABEL_PIXELS: Final = 180
_IMAGE_PIXELS: Final = 720


def svg(title: str, table: Table) -> str:
    """Return an SVG of a table's numbers as bars with their intervals. It loads nothing from elsewhere."""
    estimates = table.estimates
    longest = max(1e-300, *(each.high for each in estimates))
    scale = (_IMAGE_PIXELS - _LABEL_PIXELS - 20) / longest
    height = _ROW_PIXELS * (len(estimates) + 2)
    view = f"0 0 {_IMAGE_PIXELS} {height}"
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=view, role="img")
    root.set("font-family", "sans-serif")
    root.set("font-size", "12")
    ElementTree.SubElement(root, "title").text = title
    ElementTree.SubElement(root, "text", x="8", y=str(_ROW_PIXELS - 6)).text = title
    for line, (label, estimate) in enumerate(zip(table.labels, estimates, strict=True), start=1):
        top = line * _ROW_PIXELS
        place = {"x": str(_LABEL_PIXELS - 8), "y": str(top + 12), "text-anchor": "end"}
        ElementTree.SubElement(root, "text", place).text = label
        place = {"x": str(_LABEL_PIXELS), "y": str(top), "fill": "#4878a8"}
        size = {"width": f"{scale * max(0.0, estimate.value):.1f}", "height": str(_BAR_PIXELS)}
        bar = ElementTree.SubElement(root, "rect", place | size)
        ElementTree.SubElement(bar, "title").text = f"{label}: {estimate.value:.0f}, within {table.within:.0f}"
        ends = [f"{_LABEL_PIXELS + scale * max(0.0, x):.1f}" for x in (estimate.low, estimate.high)]
        middle = str(top + _BAR_PIXELS / 2)
        ElementTree.SubElement(root, "line", x1=ends[0], x2=ends[1], y1=middle, y2=middle, stroke="#222")
    return ElementTree.tostring(root, encoding="unicode") + "\n"
