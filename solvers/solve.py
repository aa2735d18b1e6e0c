"""Plan and solve: resolve the method, calibrate its queries, run it through the oracle."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.calibration import calibrate
from accounting.mechanisms import PoissonGaussian, RandomAllocation, SvrgStep
from accounting.mechanisms.events import Event
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.privacy import Privacy
from solvers.data_access.access import DataAccess
from solvers.data_access.data import Data
from solvers.data_access.oracle import PrivateOracle
from solvers.data_access.sums import gradient_bound, sampled_bound
from solvers.errors import RunFailed
from solvers.forecast import Forecast, forecast
from solvers.methods import Method, reviewed
from solvers.methods.data import Perturbation
from solvers.problem import Problem, Vector
from solvers.selection import Auto, Currency


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of a run: a function of public facts.

    Fields: the resolved method; why; the calibrated plan; per query the noise std of each coordinate (in the gradient's
    unit, at its largest bound); expected per-record gradients; what theory forecasts.
    """

    method: Method
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
    method: Method


def plan(method: Method | Auto, problem: Problem, privacy: Privacy, *, currency: Currency = "renyi") -> Quote:
    """The quote of a method for a problem; touches no data.

    Parameters
    ----------
    currency : what the filter that will be charged can charge; "auto" heeds it
    """
    if isinstance(method, Auto):
        chosen, reason = method.choose(problem, privacy, currency=currency)
    else:
        chosen, reason = method, "asked for"
    resolved = chosen.resolve(problem, privacy)
    release = calibrate(resolved.queries(problem), privacy)
    stds = tuple(_std(resolved, query, problem) for query in release.plan.queries)
    evaluations = resolved.gradient_evaluations(problem)
    return Quote(resolved, reason, release, stds, evaluations, forecast(resolved, problem, stds))


def run(
    method: Method,
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
    coefficients, transcript = _run(method, problem, data, release, Noise() if noise is None else noise, on_answer)
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


def _run(
    method: Method,
    problem: Problem,
    data: Data,
    release: ReleasePlan,
    noise: Noise,
    on_answer: Callable[[int], None] | None,
) -> tuple[Vector, Plan]:
    """Behind the door that the method's kind needs."""
    seeing = reviewed(method)
    if seeing is not None:
        access = DataAccess(problem, data, release.plan, noise, on_answer)
        return seeing.run(access, problem), access.transcript()
    assert not isinstance(method, Perturbation)
    oracle = PrivateOracle(problem, data, release.plan, noise, on_answer)
    return method.run(oracle, problem), oracle.transcript()


def _std(method: Method, query: PlannedQuery, problem: Problem) -> float:
    mechanism, dimension = query.mechanism, problem.size
    seeing = reviewed(method)
    if seeing is not None:
        bound, dimension = seeing.releases(problem)[query.name]
    elif isinstance(mechanism, PoissonGaussian):
        bound = sampled_bound(problem, mechanism.rate * problem.n, problem.G)
    elif isinstance(mechanism, SvrgStep):
        bound = sampled_bound(problem, mechanism.batch, 2 * problem.G)
    elif isinstance(mechanism, RandomAllocation):
        bound = sampled_bound(problem, mechanism.normalizer(problem.n), problem.G)
    else:
        bound = gradient_bound(problem)
    return mechanism.std(query.noise_multiplier, bound, dimension)
