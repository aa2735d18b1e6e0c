"""The number of jobs of each kind, and of rounds of each mix, that the filters admit; the cost of a charge.

    N = max over coordinates k of T_k / c_k,

where c is the charge of one job, or of one job of each kind of a mix, and T are the filter's thresholds. N is at most
the slack over the part of it that a round charges.
"""

import math
from time import process_time

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.charges import Cost
from accounting.errors import FilterMismatch
from accounting.filter import Filter
from accounting.mechanisms import (
    Gaussian,
    Laplace,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
    RowObjectivePerturbation,
    WithoutReplacement,
)
from accounting.plan import Query

DELTA = 1e-6
BUDGETS, EPSILONS = (1.0, 3.0), (0.2, 0.5, 1.0)
SLACK = 1e-7
KINDS = {
    "Gaussian, 100 answers": (Query("g", 100, Gaussian()),),
    "Poisson .01, 1000": (Query("c", 1000, PoissonGaussian(0.01)),),
    "Poisson .05, 500": (Query("c", 500, PoissonGaussian(0.05)),),
    "Poisson .001, 75000": (Query("c", 75_000, PoissonGaussian(0.001)),),
    "S, 4 snapshots, 100 changes of .01": (Query("s", 4, Gaussian()), Query("c", 100, PoissonGaussian(0.01))),
    "S, 20 snapshots, 2000 changes of .01": (Query("s", 20, Gaussian()), Query("c", 2000, PoissonGaussian(0.01))),
    "100 of 10000 without replacement, 200": (Query("c", 200, WithoutReplacement(100, 10_000)),),
    "allocation .5, 1000 slots": (Query("h", 1, RandomAllocation(0.5, 1000)),),
    "random iterate of 100": (Query("h", 1, RandomIterate(100)),),
    "objective perturbation": (Query("b", 1, RowObjectivePerturbation(0.01)), Query("o", 1, Gaussian(), 1e-3)),
    "pure, one Laplace answer": (Query("h", 1, Laplace()),),
    "pure, 100 Laplace answers": (Query("h", 100, Laplace()),),
}
MIXES = {
    "Gaussian + Poisson .01": (0, 1),
    "Gaussian + S, 4 and 100": (0, 4),
    "Gaussian + objective perturbation": (0, 9),
    "Poisson .01 + pure": (1, 10),
    "Gaussian + Poisson .01 + allocation": (0, 1, 7),
    "one of each but allocation": (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11),
}


def admitted(rule: Filter, costs: tuple[Cost, ...]) -> float:
    """Return how many rounds of these charges fit, a real number: 7.4 is seven rounds and part of an eighth."""
    total = tuple(map(sum, zip(*costs, strict=True)))
    rounds = max(top / c for top, c in zip(rule.curve(rule.thresholds), rule.curve(total), strict=True))
    return min(rounds, rule.thresholds[-1] / total[-1]) if rule.slack and total[-1] else rounds


def filters(epsilon: float) -> dict[str, Filter]:
    """Return the filters of one budget by the heading of their column."""
    budget = Privacy(epsilon, DELTA)
    return {
        "rdp": Filter.open("rdp", budget),
        "rdp, slack 1e-7": Filter.open("rdp", budget, SLACK),
        "gdp": Filter.open("gdp", budget),
        "gdp_rdp": Filter.open("gdp_rdp", budget),
    }


def report() -> None:
    """Print the tables."""
    seconds = [0.0, 0.0]
    for budget in BUDGETS:
        rules = filters(budget)
        print(f"\nbudget ({budget:g}, {DELTA:g})")
        print(f"{'jobs, or rounds of a mix':38} epsilon " + " ".join(f"{head:>15}" for head in rules) + "    over rdp")
        least_gain = math.inf
        for epsilon in (e for e in EPSILONS if e < budget):
            costs = {head: [_cost(rule, kind, epsilon, seconds) for kind in KINDS] for head, rule in rules.items()}
            rows = {name: (i,) for i, name in enumerate(KINDS)} | MIXES
            for name, members in rows.items():
                counts = {head: _admitted(rule, [costs[head][i] for i in members]) for head, rule in rules.items()}
                gain = (counts["gdp_rdp"] or 0.0) / (counts["rdp"] or math.nan) - 1
                least_gain = min(least_gain, gain)
                cells = " ".join(f"{'-' if n is None else format(n, '.2f'):>15}" for n in counts.values())
                print(f"{name:38} {epsilon:7g} {cells} {_percent(gain):>11}")
        print(f"least gain {100 * least_gain:+.2f} %")
    print(f"\nCPU seconds: {seconds[0]:.2f} for all calibrations, {seconds[1]:.2f} for all charges")


def _cost(rule: Filter, kind: str, epsilon: float, seconds: list[float]) -> Cost | None:
    started = process_time()
    plan = calibrate(KINDS[kind], Privacy(epsilon, DELTA)).plan
    planned = process_time()
    try:
        return rule.cost(plan)
    except FilterMismatch:
        return None
    finally:
        seconds[0] += planned - started
        seconds[1] += process_time() - planned


def _admitted(rule: Filter, costs: list[Cost | None]) -> float | None:
    known = tuple(cost for cost in costs if cost is not None)
    return admitted(rule, known) if len(known) == len(costs) else None


def _percent(gain: float) -> str:
    return f"{100 * gain:+.1f} %" if gain < 10 else "many times"
