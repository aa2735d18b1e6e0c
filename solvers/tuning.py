"""Tunings: the best of several private runs at one price, chosen by a private score.

Proof: docs/proofs/tunings.md; what the choice costs: docs/proofs/selection.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon
from accounting.errors import FilterMismatch, OutOfRange
from accounting.mechanisms import Gaussian, Selection
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, Query, ReleasePlan
from accounting.privacy import Privacy, sensitivity_factor
from solvers.data_access.data import Data
from solvers.data_access.scores import ScoreOracle
from solvers.data_access.with_moments import split
from solvers.errors import NeedsDelta, RunFailed
from solvers.problem import Problem, Vector
from solvers.solve import AS_DECLARED, PlannedRun, ReleasedMeans, WorkLimits
from solvers.solve import plan as plan_one
from solvers.solve import run as run_one
from solvers.trials import CHOICE, SCORE, Candidates, Trial, Tuning

_NO_LIMITS = WorkLimits()
_SCORE_SHARE = 0.1  # of a run's mu^2
_ROUNDED_DOWN = 1 - 1e-9  # covers the rounding of a sum of squares and of two roots
_UNKNOWN = "No bound is proven for the best of several runs."


def plan(request: Candidates, problem: Problem, privacy: Privacy, limits: WorkLimits = _NO_LIMITS) -> PlannedRun:
    """Return the planned run of a tuning, without data.

    The choice is calibrated first, and each run is planned for its mu.

    Raises
    ------
    FilterMismatch
        if a candidate's answers are not Gaussian-DP
    Unsuitable, OutOfRange
        as `solvers.plan` for each candidate; the limits hold for all runs together
    """
    if privacy.is_pure:
        raise NeedsDelta("delta is 0, but runs and scores of a tuning are Gaussian, which need delta > 0. Raise delta")
    choice = Query(CHOICE, 1, Selection(len(request.candidates) * request.repeats))
    release = calibrate((choice,), privacy, problem.relation)
    mu = sensitivity_factor(problem.relation) / release.plan.queries[0].noise_multiplier
    each = Privacy(gauss_epsilon(mu * math.sqrt(1 - _SCORE_SHARE), privacy.delta), privacy.delta)
    candidates = [
        plan_one(
            candidate.method,
            replace(problem, regularizer=candidate.regularizer, domain=candidate.domain),
            each,
            currency="gaussian",
            limits=limits,
            preparation=candidate.preparation,
            slope_limit=candidate.slope_limit,
        )
        for candidate in request.candidates
    ]
    tuning = Tuning(tuple(_trial(candidate, mu) for candidate in candidates), request.repeats)
    tuning.check(release.plan)
    evaluations = tuning.gradient_evaluations(problem)
    if evaluations > limits.evaluations:
        raise OutOfRange(
            f"all runs would compute {evaluations:g} per-row gradients; the limit is {limits.evaluations:g}. Use fewer "
            "candidates, repeats or steps, or raise the limit"
        )
    return PlannedRun(
        method=tuning,
        reason=f"{len(candidates)} candidates, each tried {request.repeats} times",
        preparation=AS_DECLARED,
        preparation_reason="each candidate has its own; scores use rows as declared",
        problem=problem,
        met=problem,
        release=release,
        noise_stds=(0.0,),
        gradient_evaluations=evaluations,
        risk_bound=replace(candidates[0].risk_bound, excess_risk=None, statement=_UNKNOWN),
    )


def _trial(planned: PlannedRun, mu: float) -> Trial:
    """Return this run, with a score for the remaining mu^2."""
    plan, problem = planned.release.plan, planned.problem
    spent = plan.gdp()
    remaining = 0.0 if spent is None else (mu**2 - spent**2) * _ROUNDED_DOWN
    if remaining <= 0:
        raise FilterMismatch(
            f"method: a tuning supports only methods with Gaussian answers, and {planned.method.name} has others. Use "
            "another method"
        )
    score = PlannedQuery(SCORE, 1, Gaussian(), sensitivity_factor(problem.relation) / math.sqrt(remaining))
    return Trial(
        method=planned.method,
        regularizer=problem.regularizer,
        domain=problem.domain,
        preparation=planned.preparation,
        slope_limit=problem.slope_limit,
        plan=replace(plan, queries=(*plan.queries, score)),
    )


def run(
    tuning: Tuning,
    problem: Problem,
    data: Data,
    release: ReleasePlan,
    noise: Noise | None = None,
    on_answer: Callable[[int], None] | None = None,
) -> tuple[Vector, Plan, ReleasedMeans | None]:
    """Return the chosen run's candidate, score and coefficients, (2 + size,), the transcript, and its released means.

    All runs are made, whatever their scores are. The means are part of the output of each run, as the score and the
    coefficients are, and the plan of the run contains their query.

    Parameters
    ----------
    on_answer : called with the number of finished runs. To stop the tuning, raise a `BaseException` that is not an
        `Exception`, because an `Exception` ends only one run

    Raises
    ------
    RunFailed
        if the chosen run failed
    """
    tuning.check(release.plan)
    noise, (chosen,) = Noise() if noise is None else noise, release.plan.queries
    scores: list[float] = []
    outputs: list[Vector] = []
    means: list[ReleasedMeans | None] = []
    for i, trial in tuning.runs:
        score, w, own_means = _scored_run(trial, problem, data, release, noise, _runs_made(len(outputs), on_answer))
        scores.append(score)
        outputs.append(np.concatenate(([float(i), score], w)))
        means.append(own_means)
    best = int(chosen.mechanism.perturb(np.array(scores), chosen.noise_multiplier, 1.0, noise).item())
    if scores[best] == -math.inf:
        raise RunFailed("the chosen run failed, so nothing is released")
    return outputs[best], release.plan, means[best]


def _runs_made(count: int, on_answer: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Return a callback for a run's answers that reports the number of runs before it."""
    return None if on_answer is None else lambda _: on_answer(count)


def _scored_run(
    trial: Trial,
    base: Problem,
    data: Data,
    release: ReleasePlan,
    noise: Noise,
    on_answer: Callable[[int], None] | None,
) -> tuple[float, Vector, ReleasedMeans | None]:
    """Return one run's score, coefficients and means.

    A failed run has a score below all others, because an error of a run that is not chosen would reveal something about
    it. Errors of the machine, which do not depend on the data, are raised.
    """
    problem = trial.problem(base)
    score_plan, run_plan = split(trial.plan, {SCORE})
    try:
        w, _, means = run_one(
            trial.method,
            problem,
            data.seen_by(problem),
            replace(release, plan=run_plan),
            noise,
            on_answer,
            trial.preparation,
        )
        return ScoreOracle(problem, data.seen_by(problem), score_plan, noise).score(SCORE, w), w, means
    except (OSError, MemoryError):
        raise
    except Exception:
        return -math.inf, np.zeros(problem.size), None
