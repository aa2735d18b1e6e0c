"""Proven bounds for a run before it starts, a function of public facts and of the calibrated noise."""

from dataclasses import dataclass

import numpy as np

from solvers.methods import Run
from solvers.methods.defaults.descent import distance
from solvers.methods.run import Start
from solvers.problem import Problem

_NOT_CONVEX = "No bound is proven for a loss that is not convex."


@dataclass(frozen=True, slots=True)
class RiskBound:
    """A bound on the expected excess empirical risk, E[F(w) + r(w)] - min over C of F + r.

    F is over the rows as encoded, clipped to the row norm.

    Parameters
    ----------
    excess_risk : the bound, or None if no bound is proven
    distance : D, the assumed distance of a minimizer from the start
    distance_certain : whether D is certain, or a guess
    untrained : the largest excess risk of the untrained model, the start
    statement : a sentence that explains the bound
    """

    excess_risk: float | None
    distance: float
    distance_certain: bool
    untrained: float
    statement: str


def risk_bound(run: Run, problem: Problem, noise_std: float) -> RiskBound:
    """Return the bound for a run whose first query has this noise std. Proofs: docs/proofs/risk_bound.md."""
    reach, certain = _reach(problem)
    untrained = problem.G * reach
    if not problem.start.any():
        untrained = min(untrained, _start_loss(problem))
    start = Start(reach, untrained)
    bound = run.excess_risk(problem, noise_std, start) if problem.is_convex else _NOT_CONVEX
    if isinstance(bound, str):
        return RiskBound(None, reach, certain, untrained, bound)
    source = "the domain or the regularizer ensures it" if certain else "a guess: no domain or regularizer ensures it"
    useless = " The untrained model has the same guarantee." if bound >= untrained else ""
    statement = (
        f"Proven: the expected value of F + r at the model, over the run's noise, exceeds the minimum by at most "
        f"{bound:.4g} if a minimizer lies within D = {reach:.4g} of the start ({source}). The bound covers the worst "
        f"data.{useless}"
    )
    return RiskBound(bound, reach, certain, untrained, statement)


def _reach(problem: Problem) -> tuple[float, bool]:
    """Return D, and whether it is certain.

    A certain D is half the diameter, or G/mu, beyond which the slope of r exceeds that of F. If runs do not start at
    the center 0 of the domain, it is the whole diameter. Otherwise D is the guess of `distance`.
    """
    centered = not problem.start.any()
    certain = problem.domain.diameter(problem.size) / (2 if centered else 1)
    if problem.mu > 0 and centered:
        certain = min(certain, problem.G / problem.mu)
    guess = distance(problem)
    return (certain, True) if certain <= guess or not centered else (guess, False)


def _start_loss(problem: Problem) -> float:
    """Return the largest F at w = 0, which bounds its excess because losses are nonnegative.

    Targets lie in [-1, 1]. For classes, f(0, y) is the same for each class, such as ln 2 or ln K.
    """
    targets = problem.loss.targets(np.array([-1.0, 1.0]))
    return float(np.max(problem.loss.value(np.zeros((*problem.shape[:-1], 2)), targets)))
