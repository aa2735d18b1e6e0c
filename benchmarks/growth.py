"""Excess expected loss by n and epsilon under growth ||w - w*||^kappa: `python -m benchmarks growth`.

The theorems of Asi, Levy and Duchi 2021: (1/sqrt(n) + sqrt(d ln(1/delta)) / (n epsilon))^(kappa/(kappa-1)) up to
logarithms, by an algorithm that gets only a lower bound on kappa. epoch_growth gets 1.2 throughout.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.growth_instances import Instance, convex, linear, one_sided, power
from benchmarks.references import spread
from solvers import plan
from solvers.data_access import inputs
from solvers.errors import Unsuitable
from solvers.methods import EpochGrowth, Localization
from solvers.solve import run

DELTA = 1e-6
KAPPA = 1.2
ROWS = (1_024, 4_096, 16_384, 65_536)
EPSILON = 1.0
EPSILONS = (0.1, 0.3, 1.0, 3.0)
FIXED_ROWS = 16_384
DIMENSIONS = (1, 5, 20)
METHODS: tuple[Localization | EpochGrowth, ...] = (Localization(), EpochGrowth(kappa=KAPPA))
SMALLEST_EXCESS = 1e-16  # rounding can make an excess smaller


@dataclass(frozen=True)
class Point:
    """The excess of runs of one method, by its name, on one instance at (n, epsilon)."""

    instance: Instance
    name: str
    n: int
    epsilon: float
    risks: NDArray[np.float64]


def report(seeds: int, plots: Path) -> None:
    """Print two tables of slopes, and write a plot of each."""
    from benchmarks import plots as drawing  # needs packages that only `make paper` installs

    print(f"delta = {DELTA:g}, {seeds} draws of the rows a cell, methods untuned, epoch_growth told kappa >= {KAPPA:g}")
    by_rows = list(measure(((i, n, EPSILON) for i in instances() for n in ROWS), seeds))
    slopes(f"n = {', '.join(f'{n:,}' for n in ROWS)}; epsilon = {EPSILON:g}", by_rows, "n")
    drawing.instances(plots / "n.svg", by_rows, "n")
    by_epsilon = list(measure(((i, FIXED_ROWS, e) for i in instances() for e in EPSILONS), seeds))
    slopes(f"epsilon = {', '.join(f'{e:g}' for e in EPSILONS)}; n = {FIXED_ROWS:,}", by_epsilon, "epsilon")
    drawing.instances(plots / "epsilon.svg", by_epsilon, "epsilon")


def instances() -> list[Instance]:
    """Return the instances in order of kappa."""
    sharp = [make for k in (1.25, 1.5) for make in (one_sided(k), *(power(k, d) for d in DIMENSIONS))]
    return [*sharp, *(linear(k, d) for k in (2, 3) for d in DIMENSIONS), *(convex(d) for d in DIMENSIONS)]


def measure(cells: Iterable[tuple[Instance, int, float]], seeds: int) -> Iterable[Point]:
    """Run every method in every cell that it accepts."""
    for instance, n, epsilon in cells:
        problem = instance.problem(n, epsilon)
        for method in METHODS:
            try:
                quote = plan(method, problem, Privacy(epsilon, DELTA))
            except Unsuitable:
                continue
            risks = np.empty(seeds)
            for seed in range(seeds):
                X, y, excess = instance.draw(n, epsilon, np.random.default_rng(seed))
                w, *_ = run(quote.method, problem, inputs.of_arrays(X, y, problem), quote.release)
                risks[seed] = max(excess(w), SMALLEST_EXCESS)
            yield Point(instance, method.name, n, epsilon, risks)


def slopes(title: str, points: Sequence[Point], field: str) -> None:
    """Print the least-squares slope of ln excess in ln n or ln epsilon, one for each draw, as mean +- deviation."""
    print(f"\nSlope over {title}; in brackets the mean excess at the two ends")
    theory = "-k/2(k-1) -k/(k-1)" if field == "n" else "-k/(k-1)"
    print(f"{'instance':<17}{'kappa':>6}{'d':>4}{theory:>20}{'localization':>36}{'epoch_growth':>36}")
    for instance in dict.fromkeys(p.instance for p in points):
        rate = instance.rate
        expected = f"{-rate / 2:.2f} {-rate:.2f}" if field == "n" else f"{-rate:.2f}"
        columns = []
        for method in METHODS:
            cell = [p for p in points if p.instance == instance and p.name == method.name]
            columns.append(_slope(cell, field, len(ROWS) if field == "n" else len(EPSILONS)))
        kappa = "none" if np.isinf(instance.kappa) else f"{instance.kappa:g}"
        print(f"{instance.name:<17}{kappa:>6}{instance.d:>4}{expected:>20}{columns[0]:>36}{columns[1]:>36}", flush=True)


def _slope(cell: Sequence[Point], field: str, count: int) -> str:
    if len(cell) < 2:
        return "refused"
    x = np.log([float(getattr(p, field)) for p in cell])
    slopes: Any = np.polyfit(x, np.log(np.array([p.risks for p in cell])), 1)[0]
    ends = f"({np.mean(cell[0].risks):.1e}, {np.mean(cell[-1].risks):.1e})"
    refused = "" if len(cell) == count else f" {len(cell)} of {count}"
    return f"{spread(slopes, 2)} {ends}{refused}"
