"""dp_gd by its release, the mean of its points or the last point; docs/proofs/last_iterate.md.

Each at its own defaults, and with half as many steps again.
"""

import sys
from typing import Literal

import numpy as np

from accounting import Privacy
from benchmarks.accuracy import DELTA, EPSILONS, objective, optimum
from benchmarks.datasets import Split, adult, covertype
from solvers import Problem, plan, solve
from solvers.losses import Logistic
from solvers.methods import DpGd
from solvers.regularizers import L2

STRENGTHS = (1e-4, 1e-2)
RELEASES: tuple[Literal["average", "last"], ...] = ("average", "last")
FACTORS = (1.0, 1.5)


def report(seeds: int) -> None:
    """Print a block per dataset and regularizer."""
    for load in (adult, covertype):
        split = load()
        if split is None:
            print("last_iterate: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        for strength in STRENGTHS:
            block(split, strength, seeds)


def block(split: Split, strength: float, seeds: int) -> None:
    """Print excess risk, the std of each noisy gradient in units of G/n, and the quote's proven bound."""
    n, d = split.X.shape
    problem = Problem(Logistic(), L2(strength), n=n, d=d, row_norm=split.row_norm)
    best = optimum(problem, split)
    least = objective(problem, split, best)
    print(f"\n{split.name}, l2 {strength:g}, delta {DELTA:g}, {seeds} runs a cell")
    print(f"{'release':<9}{'epsilon':>8}{'steps':>7}{'noise / (G/n)':>15}{'excess risk':>13}{'proven bound':>14}")
    for epsilon in EPSILONS:
        privacy = Privacy(epsilon, DELTA)
        for release in RELEASES:
            default = DpGd(release=release).resolve(problem, privacy)
            for factor in FACTORS:
                method = DpGd(max(1, round(default.steps * factor)), default.step, release)
                quote = plan(method, problem, privacy)
                (query,) = quote.release.plan.queries
                models = [solve(method, problem, split.X, split.y, privacy).coefficients for _ in range(seeds)]
                risk = float(np.mean([objective(problem, split, w) - least for w in models]))
                bound = quote.forecast.excess_risk
                print(
                    f"{release:<9}{epsilon:>8g}{method.steps:>7}{query.noise_multiplier:>15.1f}{risk:>13.5f}{bound:>14.4f}"
                )
                sys.stdout.flush()
