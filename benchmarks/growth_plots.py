"""The plots of the growth benchmark: small SVG files, byte for byte reproducible from the same figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")

from matplotlib import pyplot as plt

_STYLE = {
    "svg.hashsalt": "privy-purse",
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 8.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_LOOKS = {"localization": ("#0072B2", "o"), "epoch_growth": ("#D55E00", "s")}  # Okabe and Ito's


def draw(file: Path, points: Sequence[Any], what: str) -> None:
    """Mean excess, with bars from the least to the largest, a panel an instance; dashed the theorem's privacy slope."""
    instances = list(dict.fromkeys(p.instance for p in points))
    with mpl.rc_context(_STYLE):
        figure, grid = plt.subplots(-(-len(instances) // 4), 4, figsize=(9.6, 11.0), squeeze=False)
        for axes in grid.flat[len(instances) :]:
            axes.axis("off")
        for axes, instance in zip(grid.flat, instances, strict=False):
            cell = [p for p in points if p.instance == instance]
            for name, (color, marker) in _LOOKS.items():
                curve = [p for p in cell if p.method == name]
                means = np.array([p.risks.mean() for p in curve])
                bars = [means - [p.risks.min() for p in curve], [p.risks.max() for p in curve] - means]
                places = [getattr(p, what) for p in curve]
                axes.errorbar(
                    places, means, yerr=bars, color=color, marker=marker, markersize=3, elinewidth=0.7, label=name
                )
            x = np.array(sorted({float(getattr(p, what)) for p in cell}))
            first = max(p.risks.mean() for p in cell if getattr(p, what) == x[0])
            axes.plot(x, first * (x / x[0]) ** -instance.rate, "--", color="0.5", label="-kappa/(kappa-1)")
            axes.set(xscale="log", yscale="log", xlabel=what)
            kappa = "no growth" if np.isinf(instance.kappa) else f"kappa {instance.kappa:g}"
            axes.set_title(f"{instance.name}, {kappa}, d = {instance.d}", fontsize=8)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.97))
        figure.savefig(file, metadata={"Date": None, "Creator": None})
        plt.close(figure)
