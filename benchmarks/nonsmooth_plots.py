"""The plots of nonsmooth: excess risk against gradient evaluations and CPU time, a file for each dataset."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.erm_plots import LOOKS, STYLE, save
from benchmarks.nonsmooth import Point, Table

mpl.use("svg")

from matplotlib import pyplot as plt


def draw(tables: Sequence[Table], folder: Path) -> None:
    """One SVG file a table, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        name = table.title.lower().replace(",", "").replace(" ", "_")
        _one(table, folder / f"{name}.svg")


def _one(table: Table, file: Path) -> None:
    """Plot risk against epsilon, evaluations and seconds: a line for each method, w = 0 dotted."""
    scales: tuple[tuple[str, Callable[[Point], float]], ...] = (
        ("epsilon", lambda p: p.epsilon),
        ("gradient evaluations / n", lambda p: p.passes),
        ("CPU seconds", lambda p: float(np.mean(p.seconds))),
    )
    with mpl.rc_context(STYLE):
        figure, panels = plt.subplots(1, len(scales), figsize=(9.6, 3.8), sharey=True)
        for axes, (label, scale) in zip(panels, scales, strict=True):
            for (color, marker), name in zip(LOOKS, dict.fromkeys(p.method for p in table.points), strict=False):
                curve = [p for p in table.points if p.method == name]
                means = np.array([np.mean(p.risks) for p in curve])
                bars = [means - [p.risks.min() for p in curve], [p.risks.max() for p in curve] - means]
                axes.errorbar(
                    [scale(p) for p in curve], means, yerr=bars, color=color, marker=marker, markersize=4,
                    linewidth=1.3, elinewidth=0.8, label=name,
                )  # fmt: skip
            axes.axhline(table.zero, color="0.4", linestyle=":", linewidth=1.2, label="w = 0")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.minorticks_off()
            axes.set_xlabel(label)
        panels[0].set_ylabel(f"excess empirical risk: {table.title}")
        save(figure, panels[0], file)
