"""Plan and solve: resolve a method, calibrate the noise of its queries, and run it with the oracle that it needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accounting.calibration import calibrate
from accounting.errors import OutOfRange
from accounting.mechanisms.mechanism import Event
from accounting.noise import Noise
from accounting.plan import Plan, ReleasePlan
from accounting.privacy import Privacy
from solvers.data_access import frames, inputs
from solvers.data_access.data import Data
from solvers.data_access.oracles import DataOracles
from solvers.data_access.partitioned import Partitioned
from solvers.data_access.persons import of_persons
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.with_moments import counting_on, split
from solvers.errors import RunFailed, Unsuitable
from solvers.fitting import Fitted, Wish, fit
from solvers.inference import RegressionTable
from solvers.methods import Method, Run
from solvers.methods.run import AnswersRun
from solvers.preparation import AskedPreparation, ByMethod, Declared, Preparation
from solvers.problem import Problem, Vector
from solvers.risk_bound import RiskBound, risk_bound
from solvers.selection import Auto, Currency
from solvers.statistics import AnyCounting
from solvers.trials import Tuning

AS_DECLARED = Declared()


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Upper limits of a plan: expected per-row gradients, private answers, and coordinates of their noise.

    `is_apart` states that the records are on several machines, so that "auto" chooses no method that needs one.
    """

    evaluations: float = math.inf
    answers: float = math.inf
    coordinates: float = math.inf
    is_apart: bool = False

    def check(self, evaluations: float, answers: float, coordinates: float) -> None:
        """Raise OutOfRange if a run exceeds a limit."""
        for needs, value, limit, remedy in (
            ("compute {:g} per-row gradients", evaluations, self.evaluations, "Plan fewer steps"),
            ("make {:g} private answers", answers, self.answers, "Plan fewer steps"),
            ("draw noise for {:g} coordinates", coordinates, self.coordinates, "Plan fewer steps, use fewer columns"),
        ):
            if value > limit:
                raise OutOfRange(
                    f"the run would {needs.format(value)}; the limit is {limit:g}. {remedy}, or raise the limit"
                )


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run, its noise and its price, a function of public facts.

    Parameters
    ----------
    method, reason : the resolved method, and why it was chosen
    preparation, preparation_reason : how rows are prepared, and why
    problem : the problem with the slope limit that the run will use
    met : the problem of the prepared rows, which the method solves
    release : the calibrated plan
    noise_stds : for each query the noise std of a coordinate, in the gradient's unit, at the query's largest bound
    gradient_evaluations : expected per-row gradients
    risk_bound : a proven bound for the result on prepared rows
    """

    method: Run | AnyCounting | Tuning
    reason: str
    preparation: Preparation
    preparation_reason: str
    problem: Problem
    met: Problem
    release: ReleasePlan
    noise_stds: tuple[float, ...]
    gradient_evaluations: float
    risk_bound: RiskBound


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedMeans:
    """Noisy means of a row's coordinates without its constant, as the run's oracle answered them.

    Parameters
    ----------
    values : (d - 1,), one for each coordinate
    noise_std : standard deviation of the noise in each of them
    """

    values: Vector
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A private model and the privacy that was spent on it."""

    coefficients: Vector
    epsilon: float
    delta: float
    event: Event
    gradient_evaluations: float
    transcript: Plan
    accountant: str
    accountant_version: str
    method: Run
    preparation: Preparation
    means: ReleasedMeans | None = None


def plan(
    method: Method | Auto | AnyCounting | RegressionTable,
    problem: Problem,
    privacy: Privacy,
    *,
    currency: Currency = "renyi",
    limits: WorkLimits = WorkLimits(),
    preparation: AskedPreparation | None = None,
    slope_limit: float | None = None,
) -> PlannedRun:
    """Return the planned run of a method for a problem, without data.

    Parameters
    ----------
    currency : the kind of cost that the charged filter can add up; "auto" chooses a method that has it
    limits : checked before the noise is calibrated, because calibration takes long for a huge run
    preparation : how rows are prepared; by default standardized privately if possible, otherwise as declared
    slope_limit : c of `Problem`; by default chosen from public facts, and 1 for rows as declared

    Raises
    ------
    Unsuitable
        if an argument has the wrong type, or the method or the preparation does not fit the problem
    OutOfRange
        if the run exceeds the limits
    """
    _check_type("problem", problem, Problem, "a solvers.Problem")
    _check_type("privacy", privacy, Privacy, "an accounting.Privacy")
    reason, wish = "requested", Wish(preparation, slope_limit)
    if isinstance(method, Auto):
        fitted, reason = method.choose(problem, privacy, currency=currency, wish=wish, is_apart=limits.is_apart)
    elif isinstance(method, RegressionTable):
        _refuse_wish("a regression table", wish)
        table = method.resolve(problem, privacy)
        fitted = Fitted(table, problem, ByMethod(), "a regression table standardizes rows itself")
    elif isinstance(method, AnyCounting):
        _refuse_wish("a statistic", wish)
        method.check(problem, privacy)
        fitted = Fitted(method, problem, AS_DECLARED, "a statistic uses rows as declared")
    else:
        _check_type("method", method, Method, "an instance from solvers.methods, .statistics or .inference")
        fitted = fit(wish, method, problem, privacy)
    chosen, prepared = fitted.method, fitted.preparation
    met = prepared.prepared(fitted.problem)
    own = chosen.queries(met)
    moments = prepared.queries(problem, own)
    evaluations = problem.unit.slots * (chosen.gradient_evaluations(met) + float(problem.n) * len(moments))
    answers = sum(query.answers for query in own + moments)
    limits.check(evaluations, answers, answers * problem.size)
    release = calibrate(own + moments, privacy, problem.relation)
    bounds = chosen.bounds(met) | prepared.bounds(problem)
    stds = tuple(q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in release.plan.queries)
    bound = risk_bound(chosen, met, stds[0])
    return PlannedRun(chosen, reason, prepared, fitted.reason, fitted.problem, met, release, stds, evaluations, bound)


def _check_type(name: str, argument: object, kind: Any, hint: str) -> None:
    if not isinstance(argument, kind):
        raise Unsuitable(f"{name} has the type {type(argument).__name__}. Pass {hint}")


def _refuse_wish(subject: str, wish: Wish) -> None:
    """Raise Unsuitable if a preparation or a slope limit is requested for a method that has neither."""
    for name in ("preparation", "slope_limit"):
        if getattr(wish, name) is not None:
            raise Unsuitable(f"{name} was passed, but {subject} uses none, so it would have no effect. Leave it out")


def run(
    method: Run | AnyCounting,
    problem: Problem,
    data: Data | Partitioned,
    release: ReleasePlan,
    noise: Noise | None = None,
    on_answer: Callable[[int], None] | None = None,
    preparation: Preparation = AS_DECLARED,
) -> tuple[Vector, Plan, ReleasedMeans | None]:
    """Return the coefficients, or a statistic's answers, the transcript, and the means that the run released.

    The means are an answer of the same plan, so the charge covers them; None if the run requests no means. The oracle
    of the preparation answers the queries of the preparation, and the oracle of the method answers all other queries.

    Raises
    ------
    RunFailed
        if the transcript is not covered by the plan, or the result is not finite; then nothing is released
    """
    noise = Noise() if noise is None else noise
    moments_plan, method_plan = split(release.plan, set(preparation.bounds(problem)))
    means: tuple[Vector, float] | None = None
    frame = None
    moments_transcript = replace(moments_plan, queries=())
    met = preparation.prepared(problem)
    if problem.columns is not None:
        moments = StandardisedOracle(problem, data, moments_plan, noise, on_answer)
        frame = preparation.frame(moments, problem)
        moments_transcript = moments.transcript()
        means = moments.released_means
    if frame is not None:
        data = frames.framed(data, frame, met.row_norm) if isinstance(data, Data) else data.within(frame, met.row_norm)
    elif met is not problem:  # StandardisedOracle has already checked that the data match the problem
        data = data.seen_by(met)
    oracles = DataOracles(data, method_plan, noise, counting_on(moments_transcript, on_answer))
    coefficients = method.answer(oracles)
    transcript = oracles.transcript()
    transcript = replace(transcript, queries=transcript.queries + moments_transcript.queries)
    if not release.plan.covers(transcript):
        raise RunFailed("the transcript of the run is not covered by its plan, so nothing is released")
    if frame is not None:
        coefficients = frame.raw(coefficients.reshape(-1, problem.d)).ravel()
    size = method.size(problem) if isinstance(method, AnswersRun) else problem.size
    if coefficients.shape != (size,) or not np.isfinite(coefficients).all():
        raise RunFailed("the result of the run has a wrong shape or is not finite, so nothing is released")
    means = oracles.released_means or means
    return coefficients, transcript, None if means is None else ReleasedMeans(*means)


def solve(
    method: Method | Auto,
    problem: Problem,
    X: Any,
    y: Any,
    privacy: Privacy,
    preparation: AskedPreparation | None = None,
    slope_limit: float | None = None,
    persons: Any = None,
) -> Release:
    """Return an (epsilon, delta)-DP model of the data, made with fresh noise that the caller cannot choose.

    Parameters
    ----------
    X : (n, d) numbers: an array; SciPy's sparse rows, of which only entries are stored; a pandas, Polars or Arrow
        table; or a mapping from names to columns. solvers/data_access/inputs.py has the details. If a value is missing
        or not a number, its row becomes zeros
    y : (n,) numbers: -1 and 1 for the logistic loss; 0, ..., K-1 for softmax, whose coefficients are K blocks of d,
        one for each class. A missing target counts as 0, or as the first class
    persons : the person of each row, if the problem's unit is a person; then the number of rows is free
    """
    planned = plan(method, problem, privacy, preparation=preparation, slope_limit=slope_limit)
    return release(planned, X, y, persons)


def release(planned: PlannedRun, X: Any, y: Any, persons: Any = None) -> Release:
    """Run a planned run on data, as `solve` does, for callers that charge its cost before."""
    problem, calibrated = planned.problem, planned.release
    data = data_of(problem, X, y, persons)
    coefficients, transcript, means = run(planned.method, problem, data, calibrated, preparation=planned.preparation)
    return Release(
        coefficients,
        calibrated.epsilon,
        calibrated.delta,
        transcript.event(),
        planned.gradient_evaluations,
        transcript,
        calibrated.accountant,
        calibrated.accountant_version,
        planned.method,
        planned.preparation,
        means,
    )


def data_of(problem: Problem, X: Any, y: Any, persons: Any = None) -> Data:
    """Return the data of a problem from the arguments of `solve`.

    No value raises a warning, because a warning would reveal something about its row.
    """
    if (persons is not None) != problem.unit.is_person:
        raise Unsuitable("persons must be passed if the problem's unit is a person, and omitted if it is a row")
    with np.errstate(all="ignore"):
        if persons is None:
            return Data.coded(inputs.records(X, problem), inputs.targets(y, problem), problem)
        return of_persons(X, y, persons, problem, Noise())
