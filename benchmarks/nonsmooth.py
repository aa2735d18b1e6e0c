"""Losses that are not smooth: the methods that take them, untuned, without a penalty and with rows prepared as they are
by default, beside the certified non-private optimum (with an l2 that hardly counts: the certificate needs one)."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.accuracy import accuracy, majority
from benchmarks.datasets import Split, adult, california, covertype
from benchmarks.dual import Optimum, minimize, objective
from solvers import Problem, plan, solve
from solvers.losses import Absolute, Hinge, Huber, HuberHinge, Loss
from solvers.methods import AdaptiveGd, Localization, Method, NoisyMirrorDescent, NoisySgd, ObjectivePerturbation
from solvers.preparation import Private
from solvers.regularizers import L2

EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-5
STRENGTH = 1e-6
PASSES = (1, 2, 4, 8, 16)
_ROWS = 50_000  # of Covertype: objective perturbation takes thousands of passes over them


@dataclass(frozen=True, slots=True)
class Case:
    """A dataset, its loss, and that loss's smooth form at its default width, for the method that needs one."""

    load: Callable[[], Split | None]
    loss: Loss
    smooth: Loss


@dataclass(frozen=True, eq=False)
class Point:
    """Runs of one method at one budget; gradient evaluations are expected ones, over n."""

    method: str
    epsilon: float
    passes: float
    risks: NDArray[np.float64]
    scores: NDArray[np.float64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """The points of one dataset, and the excess risk of w = 0."""

    title: str
    score: str
    zero: float
    points: Sequence[Point]


CASES = (
    Case(adult, Hinge(), HuberHinge()),
    Case(lambda: covertype(_ROWS, settled=True), Hinge(), HuberHinge()),
    Case(california, Absolute(), Huber()),
)
METHODS: tuple[Method, ...] = (AdaptiveGd(), NoisyMirrorDescent(), NoisySgd(), Localization(), ObjectivePerturbation())


def report(seeds: int, plots: Path) -> None:
    """Print one table a dataset, and draw each into the folder."""
    from benchmarks import nonsmooth_plots  # with packages that only `make paper` installs

    tables = []
    for case in CASES:
        split = case.load()
        if split is None:
            print("nonsmooth: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        tables.append(table(split, case, seeds))
    nonsmooth_plots.draw(tables, plots)


def passes(seeds: int) -> None:
    """Excess risk of noisy mirror descent by its number of half passes; what its default is: the last column."""
    for case in CASES:
        split = case.load()
        if split is None:
            print("passes: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        problem = _problem(split, case.loss)
        best = minimize(replace(problem, regularizer=L2(STRENGTH)), split.X, split.y)
        title = f"{split.name}: n = {problem.n}, d = {problem.d}, {case.loss.name}, delta = {DELTA:g}"
        print(f"\n{title}, {seeds} runs a cell: excess risk")
        print(f"{'epsilon':>8}" + "".join(f"{f'{count} passes':>20}" for count in PASSES) + f"{'default':>9}")
        for epsilon in EPSILONS:
            risks = [
                measure(NoisyMirrorDescent(passes=count), problem, case, split, best, epsilon, seeds).risks
                for count in PASSES
            ]
            chosen = NoisyMirrorDescent().resolve(Private().prepared(problem), Privacy(epsilon, DELTA))
            cells = "".join(f"{f'{np.mean(r):.4f} +- {np.std(r):.4f}':>20}" for r in risks)
            print(f"{epsilon:>8g}{cells}{chosen.passes:>9}", flush=True)


def table(split: Split, case: Case, seeds: int) -> Table:
    """Measure and print: mean and standard deviation over fresh runs; the noise has no seed to set."""
    problem = _problem(split, case.loss)
    best = minimize(replace(problem, regularizer=L2(STRENGTH)), split.X, split.y)
    name = "test accuracy" if case.loss.takes == "class" else "test abs. error"
    zero = objective(problem, split.X, split.y, 0 * best.w) - best.value
    print(
        f"\n{split.name}: n = {problem.n}, d = {problem.d}, {case.loss.name}, delta = {DELTA:g}, {seeds} runs a cell, "
        f"untuned\nleast risk {best.value:.6f}, certified to {best.gap:.0e} by the duality gap; ||w|| = "
        f"{np.linalg.norm(best.w):.2f}"
    )
    print(f"{'method':<23}{'epsilon':>8}{'excess risk':>22}{name:>20}{'gradients / n':>15}{'CPU s':>8}")
    print(f"{'optimum':<23}{'-':>8}{0:>22.5f}{score(split, case.loss, best.w):>20.4f}{'-':>15}{'-':>8}")
    print(f"{'w = 0':<23}{'-':>8}{zero:>22.5f}{trivial(split, case.loss):>20.4f}{'-':>15}{'-':>8}")
    points = []
    for method in METHODS:
        for epsilon in EPSILONS:
            point = measure(method, problem, case, split, best, epsilon, seeds)
            points.append(point)
            risk = f"{np.mean(point.risks):.5f} +- {np.std(point.risks):.5f}"
            hit = f"{np.mean(point.scores):.4f} +- {np.std(point.scores):.4f}"
            passes, cpu = point.passes, np.mean(point.seconds)
            print(f"{method.name:<23}{epsilon:>8g}{risk:>22}{hit:>20}{passes:>15.1f}{cpu:>8.2f}")
            sys.stdout.flush()
    return Table(f"{split.name}, {case.loss.name}", name, zero, points)


def measure(
    method: Method, problem: Problem, case: Case, split: Split, best: Optimum, epsilon: float, seeds: int
) -> Point:
    """Fresh runs. CPU seconds are of everything from the arrays to the coefficients, calibration included.

    Objective perturbation runs on the smooth form; what it is judged by is the loss itself.
    """
    asked = replace(problem, loss=case.smooth) if isinstance(method, ObjectivePerturbation) else problem
    risks = np.empty(seeds)
    scores = np.empty(seeds)
    seconds = np.empty(seeds)
    for i in range(seeds):
        start = time.process_time()
        w = solve(method, asked, split.X, split.y, Privacy(epsilon, DELTA)).coefficients
        seconds[i] = time.process_time() - start
        risks[i] = objective(problem, split.X, split.y, w) - best.value
        scores[i] = score(split, case.loss, w)
    evaluations = plan(method, asked, Privacy(epsilon, DELTA)).gradient_evaluations
    return Point(method.name, epsilon, evaluations / problem.n, risks, scores, seconds)


def _problem(split: Split, loss: Loss) -> Problem:
    n, d = split.X.shape
    return Problem(loss, n=n, d=d, row_norm=split.row_norm, columns=split.columns)


def score(split: Split, loss: Loss, w: NDArray[np.float64]) -> float:
    """Return the test score: accuracy for classes, the mean absolute residual for a number coded in [-1, 1]."""
    if loss.takes == "class":
        return accuracy(split, w)
    return float(np.mean(np.abs(split.X_test @ w - split.y_test)))


def trivial(split: Split, loss: Loss) -> float:
    """The score of the larger class, or of the prediction 0."""
    return majority(split) if loss.takes == "class" else float(np.mean(np.abs(split.y_test)))
