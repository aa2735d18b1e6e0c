"""Plan and solve: resolve the method, calibrate its queries, run it through the door that it needs."""

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
from solvers.data_access.oracles import DataOracles, counting_on, split
from solvers.data_access.persons import of_persons
from solvers.data_access.standardised import ReleasedMeans, StandardisedOracle
from solvers.data_access.summed import Elsewhere
from solvers.errors import RunFailed, Unsuitable
from solvers.forecast import Forecast, forecast
from solvers.methods import Method, Run
from solvers.methods.run import CountingRun
from solvers.preparation import AskedPreparation, Declared, Preparation
from solvers.problem import Problem, Vector
from solvers.selection import Auto, Currency, Fitted, Wish, fit
from solvers.statistics import AnyCounting
from solvers.trials import Tuning

AS_DECLARED = Declared()


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a run may plan: expected per-row gradients, private answers, and coordinates of their noise."""

    evaluations: float = math.inf
    answers: float = math.inf
    coordinates: float = math.inf


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of a run: a function of public facts.

    Fields: the resolved method; why; how rows are prepared; why; the problem, its slopes limited as they will be; the
    problem that the method meets, of prepared rows; the calibrated plan; per query the noise std of each coordinate (in
    the gradient's unit, at its largest bound); expected per-row gradients; what theory forecasts of what is met.
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
    forecast: Forecast


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A private model and what was spent on it."""

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
    method: Method | Auto | AnyCounting,
    problem: Problem,
    privacy: Privacy,
    *,
    currency: Currency = "renyi",
    limits: Limits = Limits(),
    preparation: AskedPreparation | None = None,
    slope_limit: float | None = None,
) -> Quote:
    """The quote of a method for a problem; touches no data.

    Parameters
    ----------
    currency : what the filter that will be charged can charge; "auto" heeds it
    limits : checked before the noise is calibrated, which takes long for a huge run
    preparation : how rows are to be prepared; by default privately standardised where that fits, else as declared
    slope_limit : c of `Problem`; by default from public facts, 1 for rows as declared

    Raises
    ------
    Unsuitable
        if the method or the preparation that was asked for does not fit, or is none.
    OutOfRange
        if the run exceeds the limits.
    """
    for given, kind, what in (
        (method, Method | Auto | AnyCounting, "method: one of solvers.methods, solvers.statistics, or Auto"),
        (problem, Problem, "problem: a Problem"),
        (privacy, Privacy, "privacy: a Privacy"),
    ):
        if not isinstance(given, kind):
            raise Unsuitable(f"{what}, not {type(given).__name__}")
    reason, wish = "requested", Wish(preparation, slope_limit)
    if isinstance(method, Auto):
        fitted, reason = method.choose(problem, privacy, currency=currency, wish=wish)
    elif isinstance(method, AnyCounting):
        method.check(problem, privacy)
        fitted = Fitted(method, problem, AS_DECLARED, "a statistic is of rows as declared")
    else:
        fitted = fit(wish, method, problem, privacy)
    chosen, prepared = fitted.method, fitted.preparation
    met = prepared.prepared(fitted.problem)
    own = chosen.queries(met)
    moments = prepared.queries(problem, own)
    evaluations = problem.unit.slots * (chosen.gradient_evaluations(met) + float(problem.n) * len(moments))
    if evaluations > limits.evaluations:
        raise OutOfRange(f"the run would compute more than {limits.evaluations:g} per-row gradients, the most here")
    answers = sum(query.answers for query in own + moments)
    if answers > limits.answers:
        raise OutOfRange(f"the run would take more than {limits.answers:g} private answers, the most here")
    if answers * problem.size > limits.coordinates:
        raise OutOfRange(f"the run would draw noise for more than {limits.coordinates:g} coordinates, the most here")
    release = calibrate(own + moments, privacy, problem.relation)
    bounds = chosen.bounds(met) | prepared.bounds(problem)
    stds = tuple(q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in release.plan.queries)
    expected = forecast(chosen, met, stds[0])
    return Quote(chosen, reason, prepared, fitted.reason, fitted.problem, met, release, stds, evaluations, expected)


def run(
    method: Run | AnyCounting,
    problem: Problem,
    data: Data | Elsewhere,
    release: ReleasePlan,
    noise: Noise | None = None,
    on_answer: Callable[[int], None] | None = None,
    preparation: Preparation = AS_DECLARED,
) -> tuple[Vector, Plan]:
    """Return the coefficients, or a statistic's answers, and the transcript of one run: see `run_with_means`."""
    coefficients, transcript, _ = run_with_means(method, problem, data, release, noise, on_answer, preparation)
    return coefficients, transcript


def run_with_means(
    method: Run | AnyCounting,
    problem: Problem,
    data: Data | Elsewhere,
    release: ReleasePlan,
    noise: Noise | None = None,
    on_answer: Callable[[int], None] | None = None,
    preparation: Preparation = AS_DECLARED,
) -> tuple[Vector, Plan, ReleasedMeans | None]:
    """Return the coefficients, or a statistic's answers, the transcript, and the means that the run released.

    The means are an answer of the same plan, which the charge covers; None if the run asks for no means.

    The plan is parted by its queries' names: the preparation's door holds the one part, the method's door the other.

    Raises
    ------
    RunFailed
        if the transcript is not covered by the plan or the result is not finite: then nothing is released.
    """
    noise = Noise() if noise is None else noise
    moments_plan, method_plan = split(release.plan, set(preparation.bounds(problem)))
    means: ReleasedMeans | None = None
    frame, moments_transcript, met = None, replace(moments_plan, queries=()), preparation.prepared(problem)
    if problem.columns is not None:
        moments = StandardisedOracle(problem, data, moments_plan, noise, on_answer)
        frame, moments_transcript = preparation.frame(moments, problem), moments.transcript()
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
    size = method.size(problem) if isinstance(method, CountingRun) else problem.size
    if coefficients.shape != (size,) or not np.isfinite(coefficients).all():
        raise RunFailed("the run did not end in finite coefficients")
    return coefficients, transcript, oracles.released_means or means


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
    """An (epsilon, delta)-DP model of the data, between the problem's neighbors; fresh noise, nobody chooses it.

    Parameters
    ----------
    X : (n, d) numbers: an array, SciPy's sparse rows, of which entries alone are kept, or, where columns are declared,
        a pandas, Polars or Arrow table, or a mapping from names to columns (solvers/data_access/inputs.py). A value
        that is missing or not a number makes zeros of its row
    y : (n,) numbers, in {-1, +1} for the logistic loss, in {0, ..., K-1} for softmax, whose coefficients are K blocks
        of d, one for each class. A missing target counts as 0, or as the first class
    persons : for each row whose it is, where the problem's unit is a person; there may then be any number of rows
    """
    quote = plan(method, problem, privacy, preparation=preparation, slope_limit=slope_limit)
    return release(quote, X, y, persons)


def release(quote: Quote, X: Any, y: Any, persons: Any = None) -> Release:
    """What a quote promises, of the data, as `solve` has it: for who charges the quote in between."""
    problem, planned = quote.problem, quote.release
    data = data_of(problem, X, y, persons)
    coefficients, transcript, means = run_with_means(
        quote.method, problem, data, planned, preparation=quote.preparation
    )
    return Release(
        coefficients,
        planned.epsilon,
        planned.delta,
        transcript.event(),
        quote.gradient_evaluations,
        transcript,
        planned.accountant,
        planned.accountant_version,
        quote.method,
        quote.preparation,
        means,
    )


def data_of(problem: Problem, X: Any, y: Any, persons: Any = None) -> Data:
    """Return the data of a problem, from what `solve` takes. No value raises a warning: it would tell of a row."""
    if (persons is not None) != problem.unit.is_person:
        raise Unsuitable("persons are named where the problem's unit is one, and there alone")
    with np.errstate(all="ignore"):
        if persons is None:
            return Data.coded(inputs.records(X, problem), inputs.targets(y, problem), problem)
        return of_persons(X, y, persons, problem, Noise())
