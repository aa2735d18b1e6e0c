"""The plots of erm_revisited: small SVG files, byte for byte reproducible from the same figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.erm_runs import Point
from benchmarks.erm_tables import Scale

mpl.use("svg")

from matplotlib import pyplot as plt

STYLE = {
    "svg.hashsalt": "privy-purse",
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Okabe and Ito's colors, told apart by every kind of eye; shapes say the same again.
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P"))


def curves(file: Path, points: Sequence[Point], zeros: Mapping[float, float], label: str, scale: Scale) -> None:
    """Plot risk against a cost: a row for each lambda, a column for each epsilon, the risk of w = 0 dotted."""
    strengths = list(dict.fromkeys(p.strength for p in points))
    epsilons = list(dict.fromkeys(p.epsilon for p in points))
    with mpl.rc_context(STYLE):
        figure, grid = plt.subplots(len(strengths), len(epsilons), figsize=(9.6, 6.0), sharex=True, sharey="row")
        for axes_row, strength in zip(grid, strengths, strict=True):
            for axes, epsilon in zip(axes_row, epsilons, strict=True):
                cell = [p for p in points if (p.strength, p.epsilon) == (strength, epsilon)]
                _lines(axes, cell, scale)
                axes.axhline(zeros[strength], color="0.4", linestyle=":", linewidth=1.2, label="w = 0")
                axes.set_title(f"{_title(strength)}, epsilon = {epsilon:g}", fontsize=9)
            axes_row[0].set_ylabel("excess empirical risk")
        for axes in grid[-1]:
            axes.set_xlabel(label)
        save(figure, grid[0][0], file)


def growth(file: Path, points: Sequence[Point], rates: Mapping[float, int], label: str, scale: Scale) -> None:
    """Plot risk against n or epsilon: a panel for each lambda, the theorem's slope dashed."""
    with mpl.rc_context(STYLE):
        figure, panels = plt.subplots(1, len(rates), figsize=(9.6, 4.2))
        for axes, (strength, rate) in zip(panels, rates.items(), strict=True):
            cell = [p for p in points if p.strength == strength]
            _lines(axes, cell, scale)
            x = np.array(sorted({scale(p) for p in cell}))
            last = np.exp(np.mean([np.log(p.risk) for p in cell if scale(p) == x[-1]]))
            guide = last * (x / x[-1]) ** rate
            seen = guide <= 1.2 * max(p.risk for p in cell)
            axes.plot(x[seen], guide[seen], color="0.4", linestyle="--", linewidth=1.2, label="the theorem's slope")
            axes.set_title(f"{_title(strength)}: slope {rate}", fontsize=9)
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.set_xlabel(label)
        panels[0].set_ylabel("excess empirical risk")
        save(figure, panels[0], file)


def _lines(axes: Any, cell: Sequence[Point], scale: Scale) -> None:
    """One line a method, through the means, with bars from the least to the largest risk of the runs."""
    for (color, marker), name in zip(LOOKS, dict.fromkeys(p.name for p in cell), strict=False):
        curve = [p for p in cell if p.name == name]
        means = np.array([p.risk for p in curve])
        bars = [means - [p.risks.min() for p in curve], [p.risks.max() for p in curve] - means]
        axes.errorbar(
            [scale(p) for p in curve], means, yerr=bars, color=color, marker=marker, markersize=4, linewidth=1.3,
            elinewidth=0.8, label=name,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()


def _title(strength: float) -> str:
    return f"lambda = {strength:g}" if strength else "no regularizer"


def save(figure: Any, axes: Any, file: Path) -> None:
    """Write the figure with its legend on top; no date, so that equal figures are equal bytes."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False, fontsize=8, columnspacing=1.2)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    plt.close(figure)
