"""The tables of erm_revisited."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.erm_runs import Instance, Point
from benchmarks.references import spread
from solvers import Problem, plan
from solvers.methods import DpGd, DpSvrg, DpSvrgPp

RISK_FACTOR = 1.5  # a risk within this factor of that of dp_gd at its defaults is as good
LAST_POINTS = 3  # of the second slope

Scale = Callable[[Point], float]


def optima(instances: Iterable[Instance]) -> None:
    """Print the optima without privacy, and their certificates."""
    print("\nThe optimum, by Newton's method; certified: how far its value can be from the infimum")
    print(f"{'lambda':<8}{'n':>8}{'value':>13}{'certified':>11}  {'by':<23}{'||w||':>7}{'risk of w = 0':>15}")
    for instance in instances:
        p, best = instance.problem, instance.best
        size = float(np.linalg.norm(best.w))
        zero = instance.excess(p.start)
        print(
            f"{p.mu:<8g}{p.n:>8}{best.value:>13.9f}{best.gap:>11.0e}  {best.certificate:<23}{size:>7.2f}{zero:>15.5f}"
        )


def head(instance: Instance, epsilon: float, steps: str) -> None:
    """Print the head of a table of points."""
    print(f"\nlambda = {instance.problem.mu:g}, epsilon = {epsilon:g}, n = {instance.problem.n}")
    print(f"{'method':<18}{steps:>15}{'gradients / n':>15}{'CPU s':>9}{'excess risk':>24}")


def row(point: Point, steps: str) -> str:
    """Return the line of a point."""
    risk = spread(point.risks) if len(point.risks) > 1 else f"{point.risk:.5f}"
    return f"{point.name:<18}{steps:>15}{point.passes:>15.1f}{point.cpu:>9.3f}{risk:>24}"


def equal_risk(points: Sequence[Point]) -> None:
    """Print the cost at which each method's curve comes near the risk of dp_gd at its defaults."""
    print(f"\nThe least cost of a risk {RISK_FACTOR:g} times that of dp_gd at its defaults, on lines between", end=" ")
    print("points (log-log);")
    print("in brackets: how many times less than dp_gd's own. '-': not reached up to the method's defaults")
    print(f"{'lambda':<8}{'epsilon':>8}  {'method':<18}{'gradients / n':>20}{'CPU s':>20}")
    for strength, epsilon in dict.fromkeys((p.strength, p.epsilon) for p in points):
        cell = [p for p in points if (p.strength, p.epsilon) == (strength, epsilon)]
        reference = [p for p in cell if p.name == "dp_gd"]
        target = RISK_FACTOR * reference[-1].risk
        scales: tuple[Scale, ...] = (lambda p: p.passes, lambda p: p.cpu)
        for name in dict.fromkeys(p.name for p in cell):
            curve = [p for p in cell if p.name == name]
            shown = [_cost(curve, reference, target, scale) for scale in scales]
            print(f"{strength:<8g}{epsilon:>8g}  {name:<18}{shown[0]:>20}{shown[1]:>20}")


def _cost(curve: Sequence[Point], reference: Sequence[Point], target: float, scale: Scale) -> str:
    cost = _crossing(curve, target, scale)
    own = _crossing(reference, target, scale)
    return "-" if cost is None or own is None else f"{cost:.3g} ({own / cost:.2g} x)"


def _crossing(curve: Sequence[Point], target: float, scale: Scale) -> float | None:
    """Return the cost at which the curve's mean risk first reaches the target."""
    if curve[0].risk <= target:
        return scale(curve[0])
    for left, right in pairwise(curve):
        if right.risk <= target:
            share = math.log(left.risk / target) / math.log(left.risk / right.risk)
            return scale(left) * (scale(right) / scale(left)) ** share
    return None


def printed_noise(problem: Problem, epsilons: Sequence[float], delta: float) -> None:
    """Print the noise of the paper's sizes, from plans without data."""
    n = problem.n
    print("\nNoise std of a step, over G: valid, and by the paper's equations (3) and (6) with c = 1; from plans alone")
    print(f"{'method':<11}{'sizes':<24}{'epsilon':>8}{'valid':>10}{'printed':>10}{'valid / printed':>17}")
    svrg = {b: DpSvrg(epochs=15, inner_steps=5000, batch=b) for b in (1, 100, 1000)}
    pp = DpSvrgPp(15, 10, 1)
    cases: list[tuple[DpGd | DpSvrg | DpSvrgPp, str, float | None]]
    cases = [(m, f"T = 15, m = 5000, b = {b}", 15 * 5000 * math.log(1 / delta)) for b, m in svrg.items()]
    cases += [(pp, "T = 15, m = 10, b = 1", 2**15 * 10 * math.log(2 / delta))]
    cases += [(DpGd(steps=1500), "T = 1500", None)]
    for method, sizes, steps in cases:
        for epsilon in epsilons:
            valid = plan(method, problem, Privacy(epsilon, delta)).noise_stds[-1] / problem.G
            theirs = math.sqrt(steps) / (n * epsilon) if steps else None
            printed = f"{theirs:>10.5f}{valid / theirs:>17.1f}" if theirs else f"{'-':>10}{'-':>17}"
            print(f"{method.name:<11}{sizes:<24}{epsilon:>8g}{valid:>10.5f}{printed}")


def growth(over: str, points: Sequence[Point], rates: Mapping[float, int], scales: Mapping[str, Scale]) -> None:
    """Print mean risks along the first scale, and log-log slopes along each."""
    first = next(iter(scales.values()))
    for strength, rate in rates.items():
        chosen = [p for p in points if p.strength == strength]
        along = sorted({first(p) for p in chosen})
        print(f"\nExcess risk over {over}, lambda = {strength:g}; the theorems' slope is {rate}, up to logarithms")
        print(f"{'method':<18}" + "".join(f"{x:>10g}" for x in along))
        names = list(dict.fromkeys(p.name for p in chosen))
        for name in names:
            print(f"{name:<18}" + "".join(f"{p.risk:>10.5f}" for p in chosen if p.name == name))
        for scale_name, scale in scales.items():
            print(f"{'slope in ' + scale_name:<18}{'all points':>18}{f'last {LAST_POINTS} points':>18}")
            for name in names:
                curve = [p for p in chosen if p.name == name]
                fits = ["{:.2f} +- {:.2f}".format(*slope(part, scale)) for part in (curve, curve[-LAST_POINTS:])]
                print(f"{name:<18}{fits[0]:>18}{fits[1]:>18}")


def slope(points: Sequence[Point], scale: Scale) -> tuple[float, float]:
    """Return the slope of ln risk in ln scale over all runs by least squares, and its standard error."""
    x = np.log(np.repeat([scale(p) for p in points], [len(p.risks) for p in points]))
    y: NDArray[np.float64] = np.log(np.concatenate([p.risks for p in points]))
    x -= x.mean()
    exponent = float(x @ y / (x @ x))
    residuals = y - y.mean() - exponent * x
    return exponent, math.sqrt(float(residuals @ residuals) / max(1, len(x) - 2) / float(x @ x))
