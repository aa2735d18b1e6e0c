"""Plots of released numbers by Matplotlib, which the extra `plot` installs."""

from collections.abc import Sequence
from typing import Any

from purse.extras import needing


def axes_of(axes: Any | None) -> Any:
    """Return the caller's axes, or new ones.

    Raises
    ------
    NotInstalled
        without the extra `plot`.
    """
    with needing("plot"):
        import matplotlib.pyplot as plt
    return plt.subplots()[1] if axes is None else axes


def bars(
    axes: Any | None, names: Sequence[str], values: Sequence[float], label: str, errors: Sequence[Sequence[float]] = ()
) -> Any:
    """Draw horizontal bars from the top down and return the axes.

    Parameters
    ----------
    errors : the lower and upper ends of an interval for each bar, if there are any
    """
    axes = axes_of(axes)
    spans = None
    if errors:
        lows, highs = errors
        below = [max(0.0, value - low) for value, low in zip(values, lows, strict=True)]
        above = [max(0.0, high - value) for value, high in zip(values, highs, strict=True)]
        spans = [below, above]
    positions = range(len(values))
    axes.barh(positions, values, xerr=spans)
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return axes


def band(axes: Any | None, x: Sequence[float], middle: Sequence[float], ends: Sequence[Sequence[float]]) -> Any:
    """Draw a line inside the band between `ends`, over a logarithmic x axis, and return the axes."""
    axes = axes_of(axes)
    lows, highs = ends
    axes.plot(x, middle, marker="o", label="median")
    axes.fill_between(x, lows, highs, alpha=0.3, label="10 % to 90 % of the runs")
    axes.set_xscale("log")
    return axes
