"""The untuned dp_gd beside the best descent time in hindsight; docs/proofs/dp_gd.md quotes the result."""

from dataclasses import replace

import numpy as np

from accounting import Privacy
from benchmarks.accuracy import EPSILONS
from benchmarks.datasets import Split, adult, available, covertype
from benchmarks.references import DELTA, Reference
from solvers.methods import DpGd
from solvers.regularizers import L2

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
STRENGTHS = (1e-4, 1e-2)


def report(seeds: int) -> None:
    """Print the excess risk of the default and of the best time of the grid, for each dataset and regularizer."""
    for split in available(adult, covertype):
        for strength in STRENGTHS:
            _compare(split, strength, seeds)


def _compare(split: Split, strength: float, seeds: int) -> None:
    reference = Reference.of(replace(split, columns=None), L2(strength))  # rows as declared
    zero = reference.excess(0 * reference.optimum)
    print(f"{split.name}, l2 {strength:g}, delta {DELTA:g}, {seeds} runs a cell; excess risk of w = 0: {zero:.4f}")
    for epsilon in EPSILONS:
        default = DpGd().resolve(reference.problem, Privacy(epsilon, DELTA))
        risks = {}
        for factor in FACTORS:  # the descent time grows with the square of the number of steps
            method = DpGd(steps=max(1, round(default.steps * factor**0.5)), step=default.step)
            risks[factor] = float(np.mean(reference.excesses(method, epsilon, seeds)))
        best = min(risks, key=lambda factor: risks[factor])
        print(
            f"  epsilon {epsilon:<4g} default {risks[1.0]:.4f} (T = {default.steps}); "
            f"best of the grid {risks[best]:.4f} at {best:g} x its time",
            flush=True,
        )
