"""Adaptive gradient descent: columns centred and scaled by private moments, slopes limited, noise re-allocated."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.domains import Free
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods.checks import check_count, check_delta
from solvers.methods.defaults import budget_mu
from solvers.methods.path import Path, Weight, following, scaled
from solvers.methods.run import Bounds, StandardisedRun, Strict
from solvers.oracles import Standardised
from solvers.preparation import moments
from solvers.problem import Problem, Vector

MOST_STEPS = 10_000
_STEPS, _WIDE, _LONG = 250, 500, 1000
_EVALUATIONS = 5e9  # of gradients: where rows are that many, noise is small after fewer steps
_FORGOTTEN = 8.0  # e^-8 is left of the start
_WIDEST = 4.0  # the most that residuals are cut at, in units of the targets' half range
_MOMENTS = {"means": 5.0, "spread": 1.0, "variances": 3.0}  # percent of mu^2
_TARGET = {"target_mean": 2.0, "target_spread": 2.0, "residual": 2.0}
_RESIDUALS = (0.12, 0.3, 0.6)  # when the scale of residuals is asked for again, as shares of the steps
_REALLOCATED = (0.1, 0.2, 0.4, 0.8)
_ROOM = 0.1  # of the l1's penalties
_UNSURE = 0.2  # how far the l1's weight may be off at first, in units of the noise of one answer at the whole budget


@dataclass(frozen=True, slots=True)
class AdaptiveGd(Strict):
    """min_w F(w) + r(w) by T noisy gradients of limited slopes, in coordinates that private moments centre and scale.

    z(x) = (a o (x - m), c): m the noisy means, a a power of the noisy variances v, normalized to sum a^2 v = 1. A
    record's gradient t z has ||t z|| <= C whatever the data: for classes t is the slope times a weight that is the
    same for every label, so that the true log-odds stay the minimizer; for numbers the residual is cut (a Huber
    loss), at a scale that is released and released again. Then w <- prox_(eta r)(v - eta (g + noise + p o v)), with v
    = w + beta (w - w_before) and penalties p at the level of the noise: a ridge, and an l1 re-weighted by the running
    mean; none on the intercept. For classes the l1's weight follows what the gradients say of it, so that few
    coefficients and many are learned; and a follows the running mean of w, at fixed steps: noise goes where the model
    needs little of it. The answer is the mean of the points with weights 1..T, in the original columns. r acts
    on z's coordinates.

    All but the answers is a function of answers: the price is that of T gradients and the moments, exactly Gaussian.
    What is lost: penalties and re-allocation bias towards few and small coefficients; cut residuals bias the
    minimizer where noise is skewed. For three classes or more the weighted slope is the gradient of no convex loss.
    Proof: docs/proofs/adaptive_gd.md.

    Parameters
    ----------
    steps : T, in [1, 10000]. By default 250, or 2 d up to 500 if n mu* / d >= 10. For classes at least 8 / sqrt(eta
        sigma) up to 1000 or 5e9 / n, with sigma = 2 C / (n mu*) the noise of a single gradient, so that momentum
        converges
    slope_limit : C for classes, a share of the largest slope, in [1e-6, 1]. By default 0.5 if n mu* / d < 200, else 1
    residual_limit : Largest C for numbers, in [1, 4]. By default n mu* / (1000 d), so that clipping matters less than
        noise

    Reference: docs/spec 17, 18, 26.
    """

    steps: int | None = None
    slope_limit: float | None = None
    residual_limit: float | None = None
    name: Literal["adaptive_gd"] = "adaptive_gd"
    standardises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.steps, self.slope_limit, self.residual_limit)

    def resolve(self, problem: Problem, privacy: Privacy) -> "AdaptiveGdRun":
        """Every open field filled from public facts.

        Raises
        ------
        Unsuitable
            if the columns are not declared or rows are clipped, the loss is another, the domain not free, or delta 0;
            or if all numbers are declared to be next to nothing, which no frame can stretch.
        """
        if moments.are_narrow(moments.columns_of(problem)):
            raise Unsuitable(f"adaptive_gd: {moments.NARROW}")
        if not isinstance(problem.loss, Logistic | Softmax | Squared):
            raise Unsuitable("adaptive_gd takes logistic, softmax or squared: use dp_gd")
        if not isinstance(problem.domain, Free):
            raise Unsuitable("adaptive_gd takes the free domain: its coordinates change on the way; use dp_gd")
        check_delta("adaptive_gd", privacy)
        ratio = problem.n * budget_mu(problem, privacy) / problem.size
        limit = self.slope_limit or (0.5 if ratio < 200 else 1.0)
        steps = max(_STEPS, min(2 * problem.d, _WIDE)) if ratio >= 10 else _STEPS
        if problem.loss.takes == "class":
            sigma = 2 * limit * problem.loss.slope_bound / (ratio * problem.size)
            forgotten = _FORGOTTEN / math.sqrt(_eta(problem) * sigma)
            steps = max(steps, math.ceil(min(forgotten, _LONG, _EVALUATIONS / problem.places)))
        return AdaptiveGdRun(self.steps or steps, limit, self.residual_limit or min(max(1.0, ratio / 1000), _WIDEST))


@dataclass(frozen=True, slots=True)
class AdaptiveGdRun(StandardisedRun):
    """Its sizes as `AdaptiveGd` has them."""

    steps: int
    slope_limit: float
    residual_limit: float = 1.0  # where a document of an earlier version names none
    name: Literal["adaptive_gd"] = "adaptive_gd"

    def __post_init__(self) -> None:
        _check(self.steps, self.slope_limit, self.residual_limit)

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """The moments, and T gradients that get the rest of mu^2."""
        asked = moments.queries(problem, **_MOMENTS)
        if problem.loss.takes == "number":
            counts = {"residual": len(self._at(_RESIDUALS))}
            asked += tuple(Query(name, counts.get(name, 1), Gaussian(), weight) for name, weight in _TARGET.items())
        rest = 100 - sum(query.weight for query in asked)
        return (Query("gradient", self.steps, Gaussian(), weight=rest), *asked)

    def bounds(self, problem: Problem) -> Bounds:
        """At their largest, rounding aside: |m| = 1, and the widest limits."""
        limit = self._limit(problem) if problem.loss.takes == "class" else self.residual_limit
        found = {"gradient": (limit / problem.n, problem.size)} | moments.bounds(problem)
        if problem.loss.takes == "class":
            return found
        spreads = dict.fromkeys(_TARGET, (2 / sensitivity_factor(problem.relation) / problem.n, 1))
        return found | spreads | {"target_mean": (1 / problem.n, 1)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """T n, and a pass for each moment."""
        return float(problem.n) * (self.steps + len(self.queries(problem)) - 1)

    def run(self, oracle: Standardised, problem: Problem) -> Vector:
        """The private model."""
        return self._classes(oracle, problem) if problem.loss.takes == "class" else self._numbers(oracle, problem)

    def _classes(self, oracle: Standardised, problem: Problem) -> Vector:
        signal = self._signal(oracle, problem)
        few, fewer = (min(max((signal - low) / low, 0.0), 1.0) for low in (8, 4))
        center, v = moments.ask(oracle, problem, floor=3 - 2 * fewer)
        share = oracle.share
        path = Path(problem, scaled(center, v, 0.5 + 0.5 * few))
        limit, reallocated = self._limit(problem), self._at(_REALLOCATED)
        single = oracle.planned("gradient").noise_multiplier * limit / (problem.n * share * math.sqrt(self.steps))
        ridge, eta = min(1.0, 1 / signal) * single, _eta(problem)
        width = _UNSURE * min(1.0, problem.size / 100) ** 2
        l1 = Weight(min(1.0, signal / 5) * single, width * single, math.sqrt(self.steps) * single)
        for t in range(1, self.steps + 1):
            at = path.ahead(eta * single)
            gradient = oracle.gradient("gradient", at, path.frame, limit) / share
            if t >= _REALLOCATED[0] * self.steps:
                l1.learn(gradient, path.pulled(_ROOM, t))
            path.move(at, gradient + np.minimum(path.penalties(ridge, l1.value, _ROOM, t), 1 / eta) * at, eta, t)
            if t in reallocated:
                path.change(following(path.mean, v, center))
        return path.raw_mean

    def _numbers(self, oracle: Standardised, problem: Problem) -> Vector:
        signal = self._signal(oracle, problem)
        far, farther = (min(max((signal - low) / width, 0.0), 1.0) for low, width in ((60, 200), (400, 800)))
        center, v = moments.ask(oracle, problem, floor=1 + 2 * far)
        share, n = oracle.share, problem.n * oracle.share
        mean = min(max(oracle.target_mean("target_mean"), -1.0), 1.0)
        least = (
            oracle.planned("target_spread").noise_multiplier
            * (1 + abs(mean))
            / (sensitivity_factor(problem.relation) * n)
        )
        spread = min(max(oracle.target_spread("target_spread", mean), least), 2.0)
        path = Path(problem, scaled(center, v, 1 - 0.25 * (far + farther)), mean)
        wide, again, eta = max(0.7, math.sqrt(signal / 20)), self._at(_RESIDUALS), 0.5
        limit = min(self.residual_limit, 1.25 * wide * spread)
        for t in range(1, self.steps + 1):
            single = oracle.planned("gradient").noise_multiplier * limit / (n * math.sqrt(self.steps))
            at = path.ahead(eta * (8 if signal < 30 else 3) * single)
            gradient = oracle.gradient("gradient", at, path.frame, limit) / share
            penalties = path.penalties(min(1.0, 1 / signal) * single, 0.7 * single, 0.1 * spread, t)
            path.move(at, gradient + np.minimum(penalties, 1 / eta) * at, eta, t)
            if t in again:
                most = min(2.0, 4.5 * limit / wide)
                least = oracle.planned("residual").noise_multiplier * most / (sensitivity_factor(problem.relation) * n)
                scale = min(max(oracle.residual("residual", path.mean_in_frame, path.frame, most), least), spread)
                limit = min(self.residual_limit, 1.25 * wide * scale)
        return path.raw_mean

    def _signal(self, oracle: Standardised, problem: Problem) -> float:
        """n mu / d: how far a gradient of norm 1 stands out of the noise of one answer at the whole budget, mu."""
        share = self.queries(problem)[0].weight / 100
        mu = 2 * math.sqrt(self.steps / share) / oracle.planned("gradient").noise_multiplier
        return problem.n * mu / problem.size

    def _limit(self, problem: Problem) -> float:
        """C: a softmax slope has norm up to sqrt(2)."""
        return self.slope_limit * problem.loss.slope_bound

    def _at(self, shares: tuple[float, ...]) -> set[int]:
        """Steps, as shares of all."""
        return {max(1, int(share * self.steps)) for share in shares}


def _eta(problem: Problem) -> float:
    """eta, the step in a frame, for classes."""
    return 3.0 if problem.outputs == 1 else 1.5


def _check(steps: int | None, slope_limit: float | None, residual_limit: float | None) -> None:
    check_count("adaptive_gd: steps", steps, MOST_STEPS)
    if slope_limit is not None and not 1e-6 <= slope_limit <= 1:
        raise Unsuitable("adaptive_gd: slope_limit must lie in [1e-6, 1]")
    if residual_limit is not None and not 1 <= residual_limit <= _WIDEST:
        raise Unsuitable(f"adaptive_gd: residual_limit must lie in [1, {_WIDEST:g}]")
