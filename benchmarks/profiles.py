"""The value of a profile: excess log-loss on Adult of jobs that request moments, and of jobs that reuse released ones.

Columns: private moments; profiles of three prices; the dearest profile without floors of the job's own price.
"""

from dataclasses import replace

import numpy as np

from accounting import Privacy
from benchmarks.datasets import adult
from benchmarks.references import DELTA, Reference, print_row
from solvers import plan
from solvers.data_access import inputs
from solvers.losses import Squared
from solvers.methods import DpGd
from solvers.preparation import ByProfile
from solvers.selection import Auto
from solvers.solve import run
from solvers.statistics import Profile

PRICES = (0.1, 0.2, 1.0)


def report(seeds: int) -> None:
    """Print means and standard errors over runs, each with a new profile."""
    reference = Reference.of(adult())
    print(f"{reference.split.name}: excess log-loss, delta {DELTA:g}, {seeds} runs a cell")
    profile_heads = (f"profile of {price:g}" for price in PRICES)
    print_row(f"{'method':<8}{'epsilon':>8}", ["private", *profile_heads, f"of {PRICES[-1]:g}, not floored"], 16)
    for method in (DpGd(), Auto()):
        for epsilon in (0.1, 0.5, 1.0):
            risks = np.array([_risks(reference, method, epsilon) for _ in range(seeds)])
            errors = risks.std(axis=0) / np.sqrt(seeds)
            entries = [f"{mean:.4f} +- {error:.4f}" for mean, error in zip(risks.mean(axis=0), errors, strict=True)]
            print_row(f"{method.name:<8}{epsilon:>8g}", entries, 16)


def _risks(reference: Reference, method: DpGd | Auto, epsilon: float) -> list[float]:
    """Return the excess of a run in each column."""
    profiles = [_profile(reference, price) for price in PRICES]
    reused = [_risk(reference, method, epsilon, profile) for profile in profiles]
    unfloored = _risk(reference, method, epsilon, profiles[-1], has_floors=False)
    return [_risk(reference, method, epsilon, None), *reused, unfloored]


def _risk(
    reference: Reference, method: DpGd | Auto, epsilon: float, profile: ByProfile | None, *, has_floors: bool = True
) -> float:
    quote = plan(method, reference.problem, Privacy(epsilon, DELTA), preparation=profile)
    preparation = quote.preparation
    if isinstance(preparation, ByProfile) and profile is not None and not has_floors:
        preparation = replace(preparation, moments=profile.moments)
    data = inputs.of_arrays(reference.split.X, reference.split.y, quote.problem)
    w, *_ = run(quote.method, quote.problem, data, quote.release, preparation=preparation)
    return reference.excess(w)


def _profile(reference: Reference, price: float) -> ByProfile:
    """Return a profile of the rows that is released at this price."""
    problem = replace(reference.problem, loss=Squared())
    quote = plan(Profile(), problem, Privacy(price, DELTA))
    data = inputs.of_arrays(reference.split.X, np.zeros(problem.n), problem)
    answers, *_ = run(quote.method, problem, data, quote.release)
    return ByProfile(Profile().unpack(problem, answers)[0])
