"""Plan and solve: resolve the method, calibrate its queries, run it through the door that it needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.calibration import calibrate
from accounting.errors import OutOfRange
from accounting.mechanisms.mechanism import Event
from accounting.noise import Noise
from accounting.plan import Plan, ReleasePlan
from accounting.privacy import Privacy
from solvers.data_access.access import DataAccess
from solvers.data_access.data import Data
from solvers.data_access.oracle import PrivateOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.errors import RunFailed
from solvers.forecast import Forecast, forecast
from solvers.methods import Method, Run
from solvers.problem import Problem, Vector
from solvers.selection import Auto, Currency


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a run may plan: expected per-record gradients, and private answers."""

    evaluations: float = math.inf
    answers: float = math.inf


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of a run: a function of public facts.

    Fields: the resolved method; why; the calibrated plan; per query the noise std of each coordinate (in the gradient's
    unit, at its largest bound); expected per-record gradients; what theory forecasts.
    """

    method: Run
    reason: str
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


def plan(
    method: Method | Auto,
    problem: Problem,
    privacy: Privacy,
    *,
    currency: Currency = "renyi",
    limits: Limits = Limits(),
) -> Quote:
    """The quote of a method for a problem; touches no data.

    Parameters
    ----------
    currency : what the filter that will be charged can charge; "auto" heeds it
    limits : checked before the noise is calibrated, which takes long for a huge run

    Raises
    ------
    OutOfRange
        if the run exceeds the limits.
    """
    if isinstance(method, Auto):
        chosen, reason = method.choose(problem, privacy, currency=currency)
    else:
        chosen, reason = method.resolve(problem, privacy), "asked for"
    queries, evaluations = chosen.queries(problem), chosen.gradient_evaluations(problem)
    if evaluations > limits.evaluations:
        raise OutOfRange(f"the run would compute more than {limits.evaluations:g} per-record gradients, the most here")
    if sum(query.answers for query in queries) > limits.answers:
        raise OutOfRange(f"the run would take more than {limits.answers:g} private answers, the most here")
    release = calibrate(queries, privacy)
    bounds = chosen.bounds(problem)
    stds = tuple(q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in release.plan.queries)
    return Quote(chosen, reason, release, stds, evaluations, forecast(chosen, problem, stds[0]))


def run(
    method: Run,
    problem: Problem,
    data: Data,
    release: ReleasePlan,
    noise: Noise | None = None,
    on_answer: Callable[[int], None] | None = None,
) -> tuple[Vector, Plan]:
    """The coefficients and the transcript of one run of a resolved method.

    Raises
    ------
    RunFailed
        if the transcript is not covered by the plan or the result is not finite: then nothing is released.
    """
    noise = Noise() if noise is None else noise
    door: PrivateOracle | StandardisedOracle | DataAccess
    if method.door == "oracle":
        door = PrivateOracle(problem, data, release.plan, noise, on_answer)
        coefficients = method.run(door, problem)
    elif method.door == "standardised":
        door = StandardisedOracle(problem, data, release.plan, noise, on_answer)
        coefficients = method.run(door, problem)
    else:
        door = DataAccess(problem, data, release.plan, noise, on_answer)
        coefficients = method.run(door, problem)
    transcript = door.transcript()
    if not release.plan.covers(transcript):
        raise RunFailed("the run asked for more than its plan")
    if coefficients.shape != (problem.size,) or not np.isfinite(coefficients).all():
        raise RunFailed("the run did not end in finite coefficients")
    return coefficients, transcript


def solve(
    method: Method | Auto, problem: Problem, X: NDArray[np.float64], y: NDArray[np.float64], privacy: Privacy
) -> Release:
    """An (epsilon, delta)-DP model of the data, for replacement of one row; fresh noise, nobody chooses it.

    Parameters
    ----------
    X : (n, d) float; y : (n,) float, in {-1, +1} for the logistic loss, in {0, ..., K-1} for softmax, whose
        coefficients are K blocks of d, one for each class
    """
    quote = plan(method, problem, privacy)
    data = Data.of(np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(y, dtype=np.float64), problem)
    coefficients, transcript = run(quote.method, problem, data, quote.release)
    release = quote.release
    return Release(
        coefficients,
        release.epsilon,
        release.delta,
        transcript.event(),
        quote.gradient_evaluations,
        transcript,
        release.accountant,
        release.accountant_version,
        quote.method,
    )
