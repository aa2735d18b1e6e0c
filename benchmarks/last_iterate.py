"""dp_gd that releases the mean of its points or the last point; docs/proofs/last_iterate.md quotes the result.

Each runs at its own defaults, and with half as many steps again.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from accounting import Privacy
from benchmarks.accuracy import EPSILONS
from benchmarks.datasets import Split, adult, available, covertype
from benchmarks.references import DELTA, Reference
from solvers import plan
from solvers.methods import DpGd
from solvers.regularizers import L2

STRENGTHS = (1e-4, 1e-2)
RELEASES: tuple[Literal["average", "last"], ...] = ("average", "last")
FACTORS = (1.0, 1.5)


def report(seeds: int) -> None:
    """Print a table for each dataset and regularizer."""
    for split in available(adult, covertype):
        for strength in STRENGTHS:
            _compare(split, strength, seeds)


def _compare(split: Split, strength: float, seeds: int) -> None:
    """Print excess risk, the std of each noisy gradient in units of G/n, and the quote's proven bound."""
    reference = Reference.of(replace(split, columns=None), L2(strength))  # rows as declared
    print(f"\n{split.name}, l2 {strength:g}, delta {DELTA:g}, {seeds} runs a cell")
    print(f"{'release':<9}{'epsilon':>8}{'steps':>7}{'noise / (G/n)':>15}{'excess risk':>13}{'proven bound':>14}")
    for epsilon in EPSILONS:
        privacy = Privacy(epsilon, DELTA)
        for release in RELEASES:
            default = DpGd(release=release).resolve(reference.problem, privacy)
            for factor in FACTORS:
                method = DpGd(max(1, round(default.steps * factor)), default.step, release)
                quote = plan(method, reference.problem, privacy)
                noise = quote.release.plan.queries[0].noise_multiplier
                risk = np.mean(reference.excesses(method, epsilon, seeds))
                bound = quote.risk_bound.excess_risk
                print(
                    f"{release:<9}{epsilon:>8g}{method.steps:>7}{noise:>15.1f}{risk:>13.5f}{bound:>14.4f}", flush=True
                )
