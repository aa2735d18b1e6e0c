"""The untuned dp_gd beside the best descent time in hindsight; docs/proofs/dp_gd.md quotes the result."""

import sys

import numpy as np

from accounting import Privacy
from benchmarks.accuracy import DELTA, EPSILONS, objective, optimum
from benchmarks.datasets import Split, adult, covertype
from solvers import Problem, solve
from solvers.losses import Logistic
from solvers.methods import DpGd
from solvers.regularizers import L2

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
STRENGTHS = (1e-4, 1e-2)


def report(seeds: int) -> None:
    """Print, per dataset and regularizer, the excess risk of the default and of the best time of the grid."""
    for load in (adult, covertype):
        split = load()
        if split is None:
            print("tuning: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        for strength in STRENGTHS:
            row(split, strength, seeds)


def row(split: Split, strength: float, seeds: int) -> None:
    """One dataset and regularizer."""
    n, d = split.X.shape
    problem = Problem(Logistic(), L2(strength), n=n, d=d, row_norm=split.row_norm)
    best = optimum(problem, split)
    least = objective(problem, split, best)
    at_zero = objective(problem, split, 0 * best) - least
    print(f"{split.name}, l2 {strength:g}, delta {DELTA:g}, {seeds} runs a cell; excess risk of w = 0: {at_zero:.4f}")
    for epsilon in EPSILONS:
        privacy = Privacy(epsilon, DELTA)
        default = DpGd().resolve(problem, privacy)
        risks = {}
        for factor in FACTORS:  # the descent time grows with the square of the number of steps
            method = DpGd(steps=max(1, round(default.steps * factor**0.5)), step=default.step)
            runs = [solve(method, problem, split.X, split.y, privacy).coefficients for _ in range(seeds)]
            risks[factor] = float(np.mean([objective(problem, split, w) - least for w in runs]))
        chosen = min(risks, key=lambda factor: risks[factor])
        print(
            f"  epsilon {epsilon:<4g} default {risks[1.0]:.4f} (T = {default.steps}); "
            f"best of the grid {risks[chosen]:.4f} at {chosen:g} x its time"
        )
        sys.stdout.flush()
