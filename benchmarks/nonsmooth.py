"""Losses that are not smooth: the methods that accept them, untuned, beside the certified optimum without privacy.

Methods have no penalty, and rows are prepared by default. The optimum has a tiny l2 penalty, because its certificate
needs one.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.datasets import Split, adult, available, california, covertype_50k
from benchmarks.dual import Optimum, minimize
from benchmarks.newton import objective
from benchmarks.references import DELTA, accuracy, majority, spread
from solvers import Problem, plan, solve
from solvers.losses import Absolute, Hinge, Huber, HuberHinge, Loss
from solvers.methods import AdaptiveGd, Localization, Method, NoisyMirrorDescent, NoisySgd, ObjectivePerturbation
from solvers.preparation import Private
from solvers.regularizers import L2

EPSILONS = (0.1, 0.5, 1.0, 4.0)
STRENGTH = 1e-6
PASSES = (1, 2, 4, 8, 16)
METHODS: tuple[Method, ...] = (AdaptiveGd(), NoisyMirrorDescent(), NoisySgd(), Localization(), ObjectivePerturbation())
# For each dataset its loss, and the smooth form of the loss at its default width, for the method that needs one.
LOSSES: dict[Callable[[], Split], tuple[Loss, Loss]] = {
    adult: (Hinge(), HuberHinge()),
    covertype_50k: (Hinge(), HuberHinge()),
    california: (Absolute(), Huber()),
}

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """A dataset, its problem without a penalty, the smooth form of the problem, and the certified optimum."""

    split: Split
    problem: Problem
    smooth: Problem
    best: Optimum

    def score(self, w: Vector) -> float:
        """Return the test accuracy of classes, or the mean absolute test error of a number coded in [-1, 1]."""
        if self.problem.loss.takes == "class":
            return accuracy(self.split, w)
        return float(np.mean(np.abs(self.split.X_test @ w - self.split.y_test)))

    def excess(self, w: Vector) -> float:
        """Return the empirical risk of w minus that of the optimum."""
        return objective(self.problem, self.split.X, self.split.y, w) - self.best.value

    def for_method(self, method: Method) -> Problem:
        """Return the problem that the method solves. Its result is measured by the loss itself."""
        return self.smooth if isinstance(method, ObjectivePerturbation) else self.problem


@dataclass(frozen=True, eq=False)
class Point:
    """Runs of one method at one budget; gradient evaluations are expected ones, over n."""

    name: str
    epsilon: float
    passes: float
    risks: Vector
    seconds: Vector


@dataclass(frozen=True, eq=False)
class Table:
    """The points of one dataset, and the excess risk of w = 0."""

    title: str
    zero: float
    points: Sequence[Point]


def report(seeds: int, plots: Path) -> None:
    """Print a table for each dataset, and write a plot of each into the folder."""
    from benchmarks import plots as drawing  # needs packages that only `make paper` installs

    for case in _cases():
        drawing.costs(_table(case, seeds), plots)


def passes(seeds: int) -> None:
    """Print the excess risk of noisy mirror descent by its number of half passes, and the default number."""
    for case in _cases():
        problem = case.problem
        print(
            f"\n{case.split.name}: n = {problem.n}, d = {problem.d}, {problem.loss.name}, delta = {DELTA:g}, "
            f"{seeds} runs a cell: excess risk"
        )
        heads = [f"{count} passes" for count in PASSES]
        print(f"{'epsilon':>8}" + "".join(f"{head:>20}" for head in heads) + f"{'default':>9}")
        for epsilon in EPSILONS:
            points = [_measure(NoisyMirrorDescent(passes=count), case, epsilon, seeds)[0] for count in PASSES]
            default = NoisyMirrorDescent().resolve(Private().prepared(problem), Privacy(epsilon, DELTA))
            entries = "".join(f"{spread(point.risks, 4):>20}" for point in points)
            print(f"{epsilon:>8g}{entries}{default.passes:>9}", flush=True)


def _cases() -> Iterator[Case]:
    for load, (loss, smooth) in LOSSES.items():
        for split in available(load):
            n, d = split.X.shape
            problem = Problem(loss, n=n, d=d, row_norm=split.row_norm, columns=split.columns)
            best = minimize(replace(problem, regularizer=L2(STRENGTH)), split.X, split.y)
            yield Case(split, problem, replace(problem, loss=smooth), best)


def _table(case: Case, seeds: int) -> Table:
    """Measure and print all methods: mean and standard deviation over runs."""
    split, problem, best = case.split, case.problem, case.best
    is_class = problem.loss.takes == "class"
    name = "test accuracy" if is_class else "test abs. error"
    zero = case.excess(0 * best.w)
    trivial = majority(split) if is_class else case.score(0 * best.w)
    print(
        f"\n{split.name}: n = {problem.n}, d = {problem.d}, {problem.loss.name}, delta = {DELTA:g}, "
        f"{seeds} runs a cell, untuned\nleast risk {best.value:.6f}, certified to {best.gap:.0e} by the duality gap; "
        f"||w|| = {np.linalg.norm(best.w):.2f}"
    )
    print(f"{'method':<23}{'epsilon':>8}{'excess risk':>22}{name:>20}{'gradients / n':>15}{'CPU s':>8}")
    print(f"{'optimum':<23}{'-':>8}{0:>22.5f}{case.score(best.w):>20.4f}{'-':>15}{'-':>8}")
    print(f"{'w = 0':<23}{'-':>8}{zero:>22.5f}{trivial:>20.4f}{'-':>15}{'-':>8}")
    points = []
    for method in METHODS:
        for epsilon in EPSILONS:
            point, scores = _measure(method, case, epsilon, seeds)
            points.append(point)
            print(
                f"{method.name:<23}{epsilon:>8g}{spread(point.risks):>22}{spread(scores, 4):>20}{point.passes:>15.1f}"
                f"{np.mean(point.seconds):>8.2f}",
                flush=True,
            )
    return Table(f"{split.name}, {problem.loss.name}", zero, points)


def _measure(method: Method, case: Case, epsilon: float, seeds: int) -> tuple[Point, list[float]]:
    """Return a point and the test scores of its runs.

    CPU seconds are of everything from the arrays to the coefficients, calibration included.
    """
    problem, privacy = case.for_method(method), Privacy(epsilon, DELTA)
    models, seconds = [], []
    for _ in range(seeds):
        start = time.process_time()
        models.append(solve(method, problem, case.split.X, case.split.y, privacy).coefficients)
        seconds.append(time.process_time() - start)
    passes = plan(method, problem, privacy).gradient_evaluations / problem.n
    risks = np.array([case.excess(w) for w in models])
    return Point(method.name, epsilon, passes, risks, np.array(seconds)), [case.score(w) for w in models]
