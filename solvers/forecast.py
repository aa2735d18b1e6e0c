"""What theory says of a run before it happens: a function of public facts and of the calibrated noise."""

from dataclasses import dataclass

import numpy as np

from solvers.methods import Run
from solvers.methods.defaults import distance
from solvers.methods.run import Start
from solvers.problem import Problem

_NOT_CONVEX = "No bound is proven for a loss that is not convex."


@dataclass(frozen=True, slots=True)
class Forecast:
    """A bound on the expected excess empirical risk, E[F(w) + r(w)] - min over C of F + r.

    Fields: the bound, None where none is proven; D, the distance of a minimizer from the start that it supposes;
    whether D is certain or a guess; the most by which an untrained model, the start, can miss the least value; a
    sentence that says what the number is. F is over the rows as encoded, clipped to the row norm.
    """

    excess_risk: float | None
    distance: float
    distance_certain: bool
    untrained: float
    statement: str


def forecast(run: Run, problem: Problem, noise_std: float) -> Forecast:
    """The forecast of a run whose first query's answers have this noise std. Proofs: docs/proofs/forecast.md."""
    reach, certain = _reach(problem)
    untrained = problem.G * reach
    if not problem.start.any():
        untrained = min(untrained, _start_loss(problem))
    start = Start(reach, certain, untrained)
    bound = run.excess_risk(problem, noise_std, start) if problem.is_convex else _NOT_CONVEX
    if isinstance(bound, str):
        return Forecast(None, reach, certain, untrained, bound)
    source = "the domain or the regularizer ensures it" if certain else "a guess: no domain or regularizer ensures it"
    useless = " It promises no more than the untrained model." if bound >= untrained else ""
    statement = (
        f"Proven: E[F + r] at the model exceeds the least value by at most {bound:.4g}, over the run's noise, if a "
        f"minimizer lies within D = {reach:.4g} of the start ({source}). A bound for the worst data.{useless}"
    )
    return Forecast(bound, reach, certain, untrained, statement)


def _reach(problem: Problem) -> tuple[float, bool]:
    """D, and whether it is certain: half the diameter, G/mu (where F's slope can hold r's), or else `distance`'s guess.

    Where runs do not start at the center 0 of the domain, the whole diameter.
    """
    centered = not problem.start.any()
    certain = problem.domain.diameter(problem.size) / (2 if centered else 1)
    if problem.mu > 0 and centered:
        certain = min(certain, problem.G / problem.mu)
    guess = distance(problem)
    return (certain, True) if certain <= guess or not centered else (guess, False)


def _start_loss(problem: Problem) -> float:
    """The most that F can be at w = 0, hence above its least value: the losses are >= 0; targets lie in [-1, 1].

    Where they are classes, f(0, y) is the same for each: ln 2 or ln K, say.
    """
    targets = problem.loss.targets(np.array([-1.0, 1.0]))
    return float(np.max(problem.loss.value(np.zeros((*problem.shape[:-1], 2)), targets)))
