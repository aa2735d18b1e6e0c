"""The number of jobs of each kind, and of rounds of each mix, that the filters admit; the cost of a charge.

    N = max over coordinates k of T_k / c_k,

where c is the charge of one job, or of one job of each kind of a mix, and T are the filter's thresholds. N is at most
the slack over the part of it that a round charges.

Two more tables show the thresholds of `gdp_rdp`: that of mu^2 over a grid of budgets, and the frontier, which states
what other weights would leave to Gaussian jobs and to the two orders.
"""

import math
from time import process_time

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.charges import UNIT, Cost
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.errors import FilterMismatch
from accounting.filter import Filter, filter_with
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
GRID_EPSILONS, GRID_DELTAS = (0.1, 0.3, 1.0, 3.0, 10.0), (1e-9, 1e-6, 1e-5, 1e-3)
FRONTIER = ((24, 25, 15), (28, 24, 12), (31, 23, 10), (36, 20, 8), (42, 17, 5), (50, 10, 4))  # 64ths of delta
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
    _print_kept()
    _print_frontier()
    print(f"\nCPU seconds: {seconds[0]:.2f} for all calibrations, {seconds[1]:.2f} for all charges")


def kept(rule: Filter) -> float:
    """Return the mu^2 that Gaussian jobs may use under `gdp_rdp`, over all that (epsilon, delta) allows."""
    return float(rule.thresholds[0] / UNIT / gauss_mu(rule.privacy.epsilon, rule.privacy.delta) ** 2)


def _print_kept() -> None:
    print("\nmu^2 that Gaussian jobs may use under gdp_rdp, over mu*(epsilon, delta)^2")
    print("delta     " + " ".join(f"epsilon {epsilon:<4g}" for epsilon in GRID_EPSILONS))
    for delta in GRID_DELTAS:
        shares = (kept(Filter.open("gdp_rdp", Privacy(epsilon, delta))) for epsilon in GRID_EPSILONS)
        print(f"{delta:<9g} " + " ".join(f"{share:12.3f}" for share in shares))


def _print_frontier() -> None:
    print("\nother weights of gdp_rdp: mu^2 as above, its epsilon over the budget's, thresholds of orders over rdp's")
    print("budget         weights x 64    mu^2  epsilon  order 1  order 2")
    for budget in (Privacy(1.0, 1e-9), Privacy(1.0, 1e-6), Privacy(1.0, 1e-5), Privacy(1.0, 1e-3)):
        rule, alone = Filter.open("gdp_rdp", budget), Filter.open("rdp", budget)
        for parts in FRONTIER:
            other = filter_with("gdp_rdp", budget, rule.orders, tuple(part / 64 for part in parts), rule.slack)
            epsilon = gauss_epsilon(math.sqrt(other.thresholds[0] / UNIT), budget.delta) / budget.epsilon
            orders = (
                top / alone.thresholds[alone.orders.index(order)]
                for order, top in zip(other.orders, other.thresholds[1:], strict=False)
            )
            cells = " ".join(f"{share:8.3f}" for share in orders)
            print(f"{budget.epsilon:g}, {budget.delta:<9g} {parts!s:13} {kept(other):7.3f}  {epsilon:7.3f} {cells}")


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
