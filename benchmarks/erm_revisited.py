"""The experiments of Wang, Ye and Xu 2017 with valid noise, and their rates: `python -m benchmarks erm_revisited`.

Their appendix A (figures 1 and 2): logistic regression on 200,000 rows of Covertype, lambda = 1e-2 or none, delta =
1e-3. Beyond it: how the excess empirical risk falls with n and with epsilon, beside the rates of their tables 1 and 2.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from benchmarks import erm_tables
from benchmarks.datasets import Split, covertype
from benchmarks.erm_runs import LONGER, VARIANTS, Instance, Point, instance_of, measure, measure_variant
from solvers.methods import DpGd, DpSvrg

DELTA = 1e-3
STRENGTHS = (1e-2, 0.0)
RATES = {1e-2: -2, 0.0: -1}  # d / (n epsilon)^2 up to logarithms if strongly convex, sqrt(d) / (n epsilon) if not
ROWS = 200_000
EPSILONS = (0.2, 0.5, 1.0)
SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
GROWTH_ROWS = (5_000, 16_000, 50_000, 160_000, 500_000)
GROWTH_EPSILON = 1.0
GROWTH_EPSILONS = (0.1, 0.3, 1.0, 3.0)
# The sizes of figure 1; the printed step sizes come from exact gradients (SVRG-BB), so ours are the defaults.
PRINTED_EPSILONS = (0.2, 1.0)
PRINTED: dict[str, DpSvrg | DpGd] = {
    "dp_svrg, batch 1": DpSvrg(epochs=15, inner_steps=5000, batch=1),
    "dp_gd": DpGd(steps=1500),
}


def curves(seeds: int, plots: Path) -> None:
    """Compare risk with gradient evaluations and CPU time at 200,000 rows and at the paper's sizes."""
    from benchmarks import plots as drawing  # needs packages that only `make paper` installs

    split = _load(ROWS, seeds)
    instances = [instance_of(split, ROWS, strength) for strength in STRENGTHS]
    erm_tables.optima(instances)
    points = budgets(instances, seeds)
    erm_tables.equal_risk(points)
    zeros = {i.problem.mu: i.excess(i.problem.start) for i in instances}
    drawing.curves(plots / "evaluations.svg", points, zeros, "gradient evaluations / n", lambda p: p.passes)
    drawing.curves(plots / "cpu.svg", points, zeros, "CPU seconds of a run", lambda p: p.cpu)
    erm_tables.printed_noise(instances[0].problem, EPSILONS, DELTA)
    printed_sizes(instances[0])
    print(f"\nCPU time of the curves, with loading: {time.process_time():.0f} s")


def growth(seeds: int, plots: Path) -> None:
    """Compare risk with n and with epsilon."""
    from benchmarks import plots as drawing  # needs packages that only `make paper` installs

    split = _load(max(GROWTH_ROWS), seeds)
    instances = {(s, n): instance_of(split, n, s) for s in STRENGTHS for n in sorted({*GROWTH_ROWS, ROWS})}
    erm_tables.optima(instances.values())
    by_rows = defaults((instances[s, n] for s in STRENGTHS for n in GROWTH_ROWS), [GROWTH_EPSILON], seeds)
    erm_tables.growth(f"n, epsilon = {GROWTH_EPSILON:g}", by_rows, RATES, {"n": lambda p: p.n})
    drawing.growth(plots / "growth_n.svg", by_rows, RATES, "n", lambda p: p.n)
    by_epsilon = defaults((instances[s, ROWS] for s in STRENGTHS), GROWTH_EPSILONS, seeds)
    scales = {"epsilon": lambda p: p.epsilon, "mu*": lambda p: gauss_mu(p.epsilon, DELTA)}
    erm_tables.growth(f"epsilon, n = {ROWS}", by_epsilon, RATES, scales)
    drawing.growth(plots / "growth_epsilon.svg", by_epsilon, RATES, "epsilon", lambda p: p.epsilon)
    print(f"\nCPU time so far, with loading: {time.process_time():.0f} s")


def _load(rows: int, seeds: int) -> Split:
    split = covertype(rows)
    print(f"{split.name}, logistic loss, d = {split.X.shape[1]}, row norm {split.row_norm:.4g}, delta = {DELTA:g}")
    print(f"{seeds} runs a cell, methods untuned; excess empirical risk: mean +- standard deviation over the runs")
    return split


def budgets(instances: Iterable[Instance], seeds: int) -> list[Point]:
    """Run every method at shares of its default steps, and print a table for each instance and epsilon."""
    points = []
    for instance in instances:
        for epsilon in EPSILONS:
            erm_tables.head(instance, epsilon, "share of steps")
            for name in VARIANTS:
                for share in SHARES:
                    points.append(measure_variant(name, instance, Privacy(epsilon, DELTA), seeds, share))
                    print(erm_tables.row(points[-1], f"{share:.3f}"), flush=True)
    return points


def printed_sizes(instance: Instance) -> None:
    """Run the paper's own numbers of steps once each, because they take long."""
    print("\nThe sizes of the paper's figure 1 with valid noise, one run each")
    for epsilon in PRINTED_EPSILONS:
        erm_tables.head(instance, epsilon, "printed steps")
        for name, method in PRINTED.items():
            steps = method.steps if isinstance(method, DpGd) else f"{method.epochs} x {method.inner_steps}"
            point = measure(name, method, instance, Privacy(epsilon, DELTA), 1)
            print(erm_tables.row(point, str(steps)), flush=True)


def defaults(instances: Iterable[Instance], epsilons: Iterable[float], seeds: int) -> list[Point]:
    """Run every method at its defaults, and also with more steps if mu > 0."""
    points = []
    for instance in instances:
        names = [*VARIANTS, *(LONGER if instance.problem.mu > 0 else ())]
        points += [measure_variant(name, instance, Privacy(e, DELTA), seeds) for e in epsilons for name in names]
    return points
