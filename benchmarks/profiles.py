"""The value of a profile: excess log-loss on Adult of jobs that request moments, and of jobs that reuse released ones.

Columns: private moments; profiles of three prices; the dearest without floors of the job's own price.
"""

import sys
from dataclasses import replace

import numpy as np

from accounting import Privacy
from benchmarks.accuracy import DELTA, objective
from benchmarks.datasets import adult
from benchmarks.newton import minimize
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.losses import Logistic, Squared
from solvers.methods import DpGd
from solvers.preparation import ByProfile
from solvers.problem import Vector
from solvers.selection import Auto
from solvers.solve import run
from solvers.statistics import Profile

PRICES = (0.1, 0.2, 1.0)


def report(seeds: int) -> None:
    """Print the table: mean and standard error over fresh runs, each with a fresh profile; nobody chooses the noise."""
    split = adult()
    if split is None:
        print("profiles: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
        return
    n, d = split.X.shape
    problem = Problem(Logistic(), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    least = objective(problem, split, minimize(problem, split.X, split.y).w)
    heads = ["private", *(f"profile of {price:g}" for price in PRICES), f"of {PRICES[-1]:g}, not floored"]
    print(f"{split.name}: excess log-loss, delta {DELTA:g}, {seeds} runs a cell")
    print(f"{'method':<8}{'epsilon':>8}" + "".join(f"{head:>22}" for head in heads))
    for method in (DpGd(), Auto()):
        for epsilon in (0.1, 0.5, 1.0):
            cells: list[list[float]] = [[] for _ in heads]
            for _ in range(seeds):
                ways = [None, *(_profile(problem, split.X, price) for price in PRICES)]
                for cell, by in zip(cells, [*ways, ways[-1]], strict=True):
                    quote = plan(method, problem, Privacy(epsilon, DELTA), preparation=by)
                    used = quote.preparation
                    if cell is cells[-1] and isinstance(used, ByProfile) and by is not None:
                        used = replace(used, moments=by.moments)
                    data = inputs.of_arrays(split.X, split.y, quote.problem)
                    w, *_ = run(quote.method, quote.problem, data, quote.release, preparation=used)
                    cell.append(objective(problem, split, w) - least)
            told = (f"{np.mean(cell):.4f} +- {np.std(cell) / np.sqrt(seeds):.4f}" for cell in cells)
            print(f"{method.name:<8}{epsilon:>8g}" + "".join(f"{text:>22}" for text in told))
            sys.stdout.flush()


def _profile(problem: Problem, X: Vector, price: float) -> ByProfile:
    table = replace(problem, loss=Squared())
    quote = plan(Profile(), table, Privacy(price, DELTA))
    answers, *_ = run(quote.method, table, inputs.of_arrays(X, np.zeros(len(X)), table), quote.release)
    return ByProfile(Profile().unpack(table, answers)[0])
