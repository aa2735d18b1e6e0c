"""What theory says of a run before it happens: a function of public facts and of the calibrated noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.methods import DpAccMd, DpGd, Method, NoisyMirrorDescent
from solvers.methods.data import BootstrapReduction, EpochGrowth, GrowthReduction, Localization, PhasedSgd
from solvers.methods.tuning import distance
from solvers.problem import Problem

_UNPROVEN = (
    "No bound with constants is proven for this method: the noise of a snapshot is shared by its epoch, where the "
    "theorems want fresh noise in every step."
)
_ONE_POINT = (
    "No bound on the excess risk is proven for this release: a random iterate is nearly stationary in expectation "
    "(docs/proofs/prox.md); the last iterate has a bound on a free domain with l2 alone."
)
_UNFINISHED = "What is proven of this method is without a regularizer, and for steps that are not cut short."
_NOT_COVERED = (
    "No bound is proven for a loss that is not convex, nor for dp_gd on a domain without 0: runs start elsewhere there."
)
_FRESH = (
    "No bound on the risk over these rows is proven: a half pass uses each row at most once, so theory bounds the risk "
    "on new rows of the same kind."
)


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


def forecast(method: Method, problem: Problem, noise_stds: Sequence[float]) -> Forecast:
    """The forecast of a resolved method whose queries have these noise stds. Proofs: docs/proofs/forecast.md."""
    reach, certain = _reach(problem)
    untrained = problem.G * reach
    if not problem.start.any():
        untrained = min(untrained, _start_loss(problem))
    if not problem.is_convex or (problem.start.any() and isinstance(method, DpGd)):
        return Forecast(None, reach, certain, untrained, _NOT_COVERED)
    if isinstance(method, Localization | EpochGrowth | PhasedSgd):
        return Forecast(None, reach, certain, untrained, method.statement(problem, noise_stds[0], reach))
    bound: float | None = None
    missing = _FRESH if isinstance(method, NoisyMirrorDescent) else _UNPROVEN
    if isinstance(method, DpGd):
        bound, missing = method.excess_risk(problem, noise_stds[0], reach, untrained), _ONE_POINT
    elif isinstance(method, DpAccMd | GrowthReduction | BootstrapReduction):
        bound, missing = method.excess_risk(problem, noise_stds[0], reach), _UNFINISHED
    if bound is None:
        return Forecast(None, reach, certain, untrained, missing)
    source = "the domain or the regularizer ensures it" if certain else "a guess: no domain or regularizer ensures it"
    useless = " It promises no more than the untrained model." if bound >= untrained else ""
    statement = (
        f"Proven: E[F + r] at the model exceeds the least value by at most {bound:.4g}, over the run's noise, if a "
        f"minimizer lies within D = {reach:.4g} of the start ({source}). A bound for the worst data.{useless}"
    )
    return Forecast(bound, reach, certain, untrained, statement)


def _reach(problem: Problem) -> tuple[float, bool]:
    """D, and whether it is certain: half the diameter, G/mu (where F's slope can hold r's), or else tuning's guess.

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
