"""The plots of the benchmarks: small SVG files, whose bytes are the same for the same figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks import growth as growth_benchmark
from benchmarks import nonsmooth
from benchmarks.erm_runs import Point

mpl.use("svg")

from matplotlib import pyplot as plt

_STYLE = {
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
# The colors of Okabe and Ito, which color-blind readers can distinguish; the markers differ too.
_LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P"))

Scale = Callable[[Any], float]
"""The horizontal coordinate of a point."""


def curves(file: Path, points: Sequence[Point], zeros: Mapping[float, float], label: str, scale: Scale) -> None:
    """Plot risk against a cost: a row for each lambda, a column for each epsilon, the risk of w = 0 dotted."""
    strengths = list(dict.fromkeys(p.strength for p in points))
    epsilons = list(dict.fromkeys(p.epsilon for p in points))
    with mpl.rc_context(_STYLE):
        figure, grid = plt.subplots(len(strengths), len(epsilons), figsize=(9.6, 6.0), sharex=True, sharey="row")
        for axes_row, strength in zip(grid, strengths, strict=True):
            for axes, epsilon in zip(axes_row, epsilons, strict=True):
                _lines(axes, [p for p in points if (p.strength, p.epsilon) == (strength, epsilon)], scale)
                _zero_line(axes, zeros[strength])
                axes.set_title(f"{_title(strength)}, epsilon = {epsilon:g}", fontsize=9)
            axes_row[0].set_ylabel("excess empirical risk")
        for axes in grid[-1]:
            axes.set_xlabel(label)
        _save(figure, grid[0][0], file)


def growth(file: Path, points: Sequence[Point], rates: Mapping[float, int], label: str, scale: Scale) -> None:
    """Plot risk against n or epsilon: a panel for each lambda, the theorem's slope dashed."""
    with mpl.rc_context(_STYLE):
        figure, panels = plt.subplots(1, len(rates), figsize=(9.6, 4.2))
        for axes, (strength, rate) in zip(panels, rates.items(), strict=True):
            cell = [p for p in points if p.strength == strength]
            _lines(axes, cell, scale)
            x = np.array(sorted({scale(p) for p in cell}))
            last = np.exp(np.mean([np.log(p.risk) for p in cell if scale(p) == x[-1]]))
            guide = last * (x / x[-1]) ** rate
            is_shown = guide <= 1.2 * max(p.risk for p in cell)
            x_shown, guide_shown = x[is_shown], guide[is_shown]
            axes.plot(x_shown, guide_shown, color="0.4", linestyle="--", linewidth=1.2, label="the theorem's slope")
            axes.set_title(f"{_title(strength)}: slope {rate}", fontsize=9)
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.set_xlabel(label)
        panels[0].set_ylabel("excess empirical risk")
        _save(figure, panels[0], file)


def costs(table: nonsmooth.Table, folder: Path) -> None:
    """Plot risk against epsilon, evaluations and seconds: a line for each method, w = 0 dotted."""
    scales: dict[str, Scale] = {
        "epsilon": lambda p: float(p.epsilon),
        "gradient evaluations / n": lambda p: float(p.passes),
        "CPU seconds": lambda p: float(np.mean(p.seconds)),
    }
    with mpl.rc_context(_STYLE):
        figure, panels = plt.subplots(1, len(scales), figsize=(9.6, 3.8), sharey=True)
        for axes, (label, scale) in zip(panels, scales.items(), strict=True):
            _lines(axes, table.points, scale)
            _zero_line(axes, table.zero)
            axes.set_xlabel(label)
        panels[0].set_ylabel(f"excess empirical risk: {table.title}")
        _save(figure, panels[0], folder / f"{table.title.lower().replace(',', '').replace(' ', '_')}.svg")


def instances(file: Path, points: Sequence[growth_benchmark.Point], field: str) -> None:
    """Plot mean excess against n or epsilon: a panel for each instance, the theorem's slope for privacy dashed."""
    panels = list(dict.fromkeys(p.instance for p in points))

    def scale(point: Any) -> float:
        return float(getattr(point, field))

    with mpl.rc_context(_STYLE | {"font.size": 8.0}):
        figure, grid = plt.subplots(-(-len(panels) // 4), 4, figsize=(9.6, 11.0), squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.axis("off")
        for axes, instance in zip(grid.flat, panels, strict=False):
            cell = [p for p in points if p.instance == instance]
            _lines(axes, cell, scale)
            x = np.array(sorted({scale(p) for p in cell}))
            first = max(p.risks.mean() for p in cell if scale(p) == x[0])
            axes.plot(x, first * (x / x[0]) ** -instance.rate, "--", color="0.5", label="-kappa/(kappa-1)")
            axes.set_xlabel(field)
            kappa = "no growth" if np.isinf(instance.kappa) else f"kappa {instance.kappa:g}"
            axes.set_title(f"{instance.name}, {kappa}, d = {instance.d}", fontsize=8)
        _save(figure, grid[0][0], file)


def _lines(axes: Any, points: Sequence[Any], scale: Scale) -> None:
    """Draw a line for each method, through the means, with bars from the smallest to the largest risk of the runs."""
    for (color, marker), name in zip(_LOOKS, dict.fromkeys(p.name for p in points), strict=False):
        curve = [p for p in points if p.name == name]
        means = np.array([np.mean(p.risks) for p in curve])
        bars = [means - [p.risks.min() for p in curve], [p.risks.max() for p in curve] - means]
        axes.errorbar(
            [scale(p) for p in curve], means, yerr=bars, color=color, marker=marker, markersize=4, linewidth=1.3,
            elinewidth=0.8, label=name,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()


def _zero_line(axes: Any, risk: float) -> None:
    axes.axhline(risk, color="0.4", linestyle=":", linewidth=1.2, label="w = 0")


def _title(strength: float) -> str:
    return f"lambda = {strength:g}" if strength else "no regularizer"


def _save(figure: Any, axes: Any, file: Path) -> None:
    """Write the figure with its legend on top, and without a date, which would change the bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False, fontsize=8, columnspacing=1.2)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    plt.close(figure)
