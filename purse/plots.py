"""Plots of released numbers: by Matplotlib, which the extra `plot` installs, and as SVG."""

from collections.abc import Sequence
from html import escape
from typing import Any

from purse.extras import needing
from purse.tables import Estimate


def axes_of(axes: Any | None) -> Any:
    """Return the caller's axes, or new ones.

    Raises
    ------
    NotInstalled
        without the extra `plot`.
    """
    with needing("plot"):
        import matplotlib.pyplot as plt  # late: an extra
    return plt.subplots()[1] if axes is None else axes


def bars(
    axes: Any | None, names: Sequence[str], values: Sequence[float], label: str, intervals: Sequence[Estimate] = ()
) -> Any:
    """Draw horizontal bars from the top down and return the axes.

    Parameters
    ----------
    intervals : the value of each bar with its interval, if there are intervals
    """
    axes = axes_of(axes)
    spans = None
    if intervals:
        below = [max(0.0, each.value - each.low) for each in intervals]
        above = [max(0.0, each.high - each.value) for each in intervals]
        spans = [below, above]
    positions = range(len(values))
    axes.barh(positions, values, xerr=spans)
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return axes


def intervals_svg(title: str, names: Sequence[str], estimates: Sequence[Estimate]) -> str:
    """Return an SVG image that loads nothing: a line for each interval, a dot for its value, and a dashed line at 0."""
    ends = [end for each in estimates for end in (0.0, each.low, each.high)]
    low = min(ends, default=0.0)
    scale = 300 / (max(ends, default=0.0) - min(ends, default=0.0) or 1.0)

    def at(value: float) -> str:
        return f"{250 + scale * (value - low):.1f}"

    height = 20 * len(names) + 10
    parts = [f'<line x1="{at(0)}" x2="{at(0)}" y1="0" y2="{height}" stroke="gray" stroke-dasharray="4"/>']
    for index, (name, each) in enumerate(zip(names, estimates, strict=True)):
        y = 20 * index + 15
        parts.append(f'<text x="240" y="{y + 4}" text-anchor="end" font-size="12">{escape(name)}</text>')
        parts.append(f'<line x1="{at(each.low)}" x2="{at(each.high)}" y1="{y}" y2="{y}" stroke="currentColor"/>')
        parts.append(f'<circle cx="{at(each.value)}" cy="{y}" r="3" fill="currentColor"/>')
    size = f'width="560" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{escape(title)}</title>'
    return f"{head}{''.join(parts)}</svg>"
