"""Adaptive gradient descent: noisy gradients in coordinates that private moments center and scale.

Review: All adaptations use released values only.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.domains import Free
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax, Squared
from solvers.losses.smoothing import BoundedSlope
from solvers.methods.checks import check_delta
from solvers.methods.defaults.adaptive_gd import CLASSES, NUMBERS, SETTINGS, SHARES, balanced_ridge, steps_at
from solvers.methods.defaults.descent import budget_mu
from solvers.methods.defaults.little_signal import model_kind
from solvers.methods.defaults.step_growth import GROWTH
from solvers.methods.path import L1Weight, Path, StepGrowth, intercept_frame, reallocated, scaled, uncentered
from solvers.methods.run import Bounds, StandardisedRun, Strict
from solvers.methods.slopes import LimitTest, number_request
from solvers.oracles import Standardised
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.ranges import Real, Whole

MOST_STEPS = 10_000
_SLOPE_LIMITS = Real(1e-6, SETTINGS.most_limit)
_RESIDUAL_LIMITS = Real(1, SETTINGS.most_residual_limit)
_LARGEST_TARGET_DISTANCE = 2.0  # targets lie in [-1, 1]

SUPPORTED_LOSSES = Logistic | Softmax | Squared | BoundedSlope


@dataclass(frozen=True, slots=True)
class AdaptiveGd(Strict):
    """Adaptive gradient descent: noisy gradients of limited slopes, in coordinates that are standardized privately.

    The method minimizes F(w) + r(w). All of the following is a function of private answers and public facts.

    1. Coordinates. The noisy means m and variances v of the columns are released. A row x becomes
       z(x) = (a o (x - m), c), where a is a power of v, normalized to sum a^2 v = 1.
    2. Gradients. A record adds t z, with ||t z|| <= C for every possible record. C limits the slope t:
       - For logistic and softmax, t is the slope times a weight that is the same for every label, so the true log-odds
         remain the minimizer. If the model is wrong, the limit moves the minimizer. A test during the run detects this,
         and the run then begins again with a larger C.
       - For squared, t is the residual, clipped at a released scale (a Huber loss).
       - For other losses, t is the slope times a weight of the row, so the best prediction for each row stays the same.
         Kinks are smoothed over a window: a fixed one for hinge losses, half the released scale of the residuals for
         numbers.
    3. Steps. w <- prox_(eta r)(v - eta (g + noise + p o v)), with v = w + beta (w - previous w). The penalties p are a
       ridge and an l1, both of the size of the noise. The running mean of w re-weights the l1. The intercept has a
       ridge if its noise is large. For classes, the weight of the l1 is learned from the gradients, eta grows with the
       running mean, and the intercept has less momentum at first. At fixed steps, a is computed again from the running
       mean, so that noise falls on coordinates that the model hardly uses.
    4. Result. The run returns the mean of the points with weights 1..T, in the original columns. r acts on z.

    If n mu* / d is below 1 for classes, or below 4 for numbers, coefficients would be noise, and the model is an
    intercept. `logistic` has an exception if n mu* is at least 100 per slot of a person, most coded ranges begin or
    end at 0 (as for counts of words), and no moments were released before. Then columns are not centered and have the
    same scale. A ridge replaces the l1, and is so large that noise costs little.

    The privacy cost is that of T gradients and the moments, all of them Gaussian. Limits: penalties and re-allocation
    bias the model towards few and small coefficients. Clipped residuals bias it if errors are skewed. For three or more
    classes, the weighted slope is not the gradient of a convex loss. Proof: docs/proofs/adaptive_gd.md. Constants with
    sources: solvers/methods/defaults/adaptive_gd.py.

    Parameters
    ----------
    steps : Number of steps (T), from 1 to 10000. By default 500 for quantile, absolute and huber, otherwise 250, or 2 d
        up to 500 if n mu* / d >= 10. For classes the default is at least 8 / sqrt(eta sigma), so that momentum
        converges, but at most 1000 and 5e9 / n. Steps that test a wide limit are not counted. Here eta is the step
        size, and sigma = 2 C / (n mu*) the noise of a single gradient
    slope_limit : Largest C in units of the largest slope, in [1e-6, 8], unused for squared. By default
        (n mu* / (100 d))^(1/3) in [0.5, 8]. For logistic and softmax, a default below 2.5 is replaced by 0.5 if n mu* /
        d < 200, and by 1 otherwise. A run of these two losses begins with C <= 1, and uses a larger C only if a test
        within the run finds that it moves the model
    residual_limit : Largest C for squared, in [1, 4]. By default n mu* / (1000 d), so that clipping matters less than
        noise

    Reference: docs/spec 17, 18, 26.
    """

    steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    slope_limit: Annotated[float | None, _SLOPE_LIMITS] = None
    residual_limit: Annotated[float | None, _RESIDUAL_LIMITS] = None
    name: Literal["adaptive_gd"] = "adaptive_gd"
    standardises: ClassVar[bool] = True

    def resolve(self, problem: Problem, privacy: Privacy) -> "AdaptiveGdRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the columns are not declared or rows are clipped, the loss or the domain is not supported, or all number
            columns are declared so narrow that no frame can stretch them.
        NeedsDelta
            if delta is 0.
        """
        if moments.are_narrow(moments.columns_of(problem)):
            raise Unsuitable(f"adaptive_gd: {moments.NARROW}")
        if not isinstance(problem.loss, SUPPORTED_LOSSES):
            raise Unsuitable(
                f"adaptive_gd: loss must not be {problem.loss.name}, because the method does not support it. Use dp_gd "
                "or noisy_sgd for this loss"
            )
        if not isinstance(problem.domain, Free):
            raise Unsuitable(
                "adaptive_gd: domain must be free, because the method changes coordinates during the run. Use dp_gd "
                "for another domain"
            )
        check_delta("adaptive_gd", privacy)
        signal = problem.n * budget_mu(problem, privacy) / problem.size
        slope_limit = self.slope_limit or SETTINGS.slope_limit(problem, signal)
        steps = self.steps or SETTINGS.step_count(problem, signal, slope_limit)
        return AdaptiveGdRun(steps, slope_limit, self.residual_limit or SETTINGS.residual_limit(signal))


@dataclass(frozen=True, slots=True)
class AdaptiveGdRun(StandardisedRun):
    """Resolved settings of `AdaptiveGd`."""

    steps: Annotated[int, Whole(MOST_STEPS)]
    slope_limit: Annotated[float, _SLOPE_LIMITS]
    residual_limit: Annotated[float, _RESIDUAL_LIMITS] = 1.0  # documents of earlier versions do not contain it
    name: Literal["adaptive_gd"] = "adaptive_gd"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return T gradients, which get the remainder of mu^2, and the moments of columns and of a number target."""
        queries = moments.queries(problem, SHARES.means, SHARES.spread, SHARES.variances)
        if problem.loss.takes == "number":
            queries += (
                Query("target_mean", 1, Gaussian(), SHARES.target_mean),
                Query("target_spread", 1, Gaussian(), SHARES.target_spread),
                Query("residual", len(steps_at(NUMBERS.rescalings, self.steps)), Gaussian(), SHARES.residual),
            )
        remainder = 100 - sum(query.weight for query in queries)
        return (Query("gradient", self.steps, Gaussian(), weight=remainder), *queries)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest bounds, rounding aside: those of |m| = 1 and of the widest limits."""
        bounds = {"gradient": (self._largest_limit(problem) / problem.n, problem.size), **moments.bounds(problem)}
        if problem.loss.takes == "class":
            return bounds
        spread = _LARGEST_TARGET_DISTANCE / sensitivity_factor(problem.relation) / problem.n
        return bounds | {"target_mean": (1 / problem.n, 1), "target_spread": (spread, 1), "residual": (spread, 1)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return T n, plus n for each query of a moment."""
        return float(problem.n) * (self.steps + len(self.queries(problem)) - 1)

    def run(self, oracle: Standardised, problem: Problem) -> Vector:
        """Return the private model."""
        if problem.loss.takes == "number":
            return self._run_numbers(oracle, problem)
        if model_kind(problem, self.signal(problem, oracle.planned("gradient").noise_multiplier)) == "small":
            return self._run_small(oracle, problem)
        return self._run_classes(oracle, problem)

    def _run_small(self, oracle: Standardised, problem: Problem) -> Vector:
        """Return a model for sparse rows, whose columns have the center 0 and one scale. A ridge replaces the l1.

        Means and variances are not requested. A block counts with its largest norm, 1.
        """
        center = np.zeros(problem.d - 1)
        columns = moments.columns_of(problem)
        square = moments.floored_spread(oracle, problem, center) + sum(width > 1 for width in columns.widths)
        path = Path(problem, uncentered(problem, square))
        limit = CLASSES.narrow_limit(problem, self.slope_limit) * problem.loss.slope_bound
        step = CLASSES.step(problem)
        sigma = self._sigma(oracle, problem, limit)
        intercept_ridge = balanced_ridge(sigma, CLASSES.intercept_curvature, CLASSES.intercept_variance)
        ridge = CLASSES.small_ridge * math.sqrt(problem.unit.slots) * sigma
        penalties = np.append(np.full(problem.d - 1, ridge), intercept_ridge)
        for t in range(1, self.steps + 1):
            point = path.extrapolate(step * sigma)
            path.descend(point, oracle.gradient("gradient", point, path.frame, limit), penalties, step, t)
        return path.raw_mean

    def _run_classes(self, oracle: Standardised, problem: Problem) -> Vector:
        signal = self.signal(problem, oracle.planned("gradient").noise_multiplier)
        center, variances = moments.ask(oracle, problem, floor=CLASSES.variance_floor(signal))
        frame = scaled(center, variances, CLASSES.scaling_power(signal))
        is_constant = signal < CLASSES.least_signal
        path = Path(problem, intercept_frame(frame) if is_constant else frame)
        test = LimitTest.of(problem, self.slope_limit, signal, self.steps)
        request, restarted_after = test.narrow, 0
        step, sigma = request.step, self._sigma(oracle, problem, request.limit)
        l1 = self._l1_weight(problem, signal, sigma)
        slope_ridge = math.inf if is_constant else sigma / signal
        intercept_ridge = balanced_ridge(sigma, CLASSES.intercept_curvature, CLASSES.intercept_variance)
        reallocation_steps = steps_at(CLASSES.reallocations, self.steps)
        growth = StepGrowth(variances)
        for t in (t for t in range(1, self.steps + 1) if t not in test.steps):
            if t == test.steps.stop:  # here the test requests the gradients of all its steps
                request = test.chosen(oracle, path, math.sqrt(self.steps) * self._sigma(oracle, problem, 1.0))
                if request is not test.narrow:
                    restarted_after, path = t - 1, Path(problem, path.frame)
                    growth = StepGrowth(variances)
                    sigma = self._sigma(oracle, problem, request.limit)
                    l1, slope_ridge = self._l1_weight(problem, signal, sigma), sigma / signal
            path_step = t - restarted_after
            point = path.extrapolate(step * sigma, path_step)
            gradient = request.answer(oracle, point, path.frame)
            if path_step >= CLASSES.l1_learned_from * self.steps:
                l1.learn(gradient, path.l1_direction(CLASSES.l1_offset, path_step))
            penalties = path.penalties(slope_ridge, l1.value, CLASSES.l1_offset, path_step, intercept_ridge)
            next_step = step
            if path_step > GROWTH.begins_at * self.steps:
                next_step = growth.next_step(step, gradient, path, math.sqrt(self.steps) * sigma)
            path.descend(point, gradient, penalties, next_step, path_step)
            if growth.is_restart:
                path.restart()
            if t in reallocation_steps and not is_constant:
                path.change_frame(reallocated(path.mean, variances, center))
        return path.raw_mean

    def _l1_weight(self, problem: Problem, signal: float, sigma: float) -> L1Weight:
        """Return the weight of the l1 before any gradient has been learned from."""
        mean = CLASSES.first_l1(signal) * sigma
        std = CLASSES.l1_std(problem) * sigma
        return L1Weight(mean, std, answer_std=math.sqrt(self.steps) * sigma)

    def _run_numbers(self, oracle: Standardised, problem: Problem) -> Vector:
        signal = self.signal(problem, oracle.planned("gradient").noise_multiplier)
        center, variances = moments.ask(oracle, problem, floor=NUMBERS.variance_floor(signal))
        mean_noise = self._distance_noise(oracle, problem, "target_mean", sensitivity_factor(problem.relation))
        target_mean = NUMBERS.shrunk_mean(oracle.target_mean("target_mean"), mean_noise)
        noise = self._distance_noise(oracle, problem, "target_spread", 1 + abs(target_mean))
        scale = spread = min(max(oracle.target_spread("target_spread", target_mean), noise), _LARGEST_TARGET_DISTANCE)
        frame = scaled(center, variances, NUMBERS.scaling_power(signal))
        is_constant = signal < NUMBERS.least_signal
        path = Path(problem, intercept_frame(frame) if is_constant else frame, target_mean)
        request = number_request(problem, self._largest_limit(problem), signal, self.steps, spread)
        rescaling_steps = steps_at(NUMBERS.rescalings, self.steps)
        for t in range(1, self.steps + 1):
            step, sigma = request.step, self._sigma(oracle, problem, request.limit)
            point = path.extrapolate(step * NUMBERS.convexity(signal) * sigma)
            gradient = request.answer(oracle, point, path.frame)
            slope_ridge = math.inf if is_constant else sigma / signal
            intercept_ridge = NUMBERS.intercept_ridge(problem.loss, sigma, mean_noise, spread, scale)
            penalties = path.penalties(slope_ridge, NUMBERS.l1 * sigma, NUMBERS.l1_offset * spread, t, intercept_ridge)
            path.descend(point, gradient, penalties, step, t)
            if t in rescaling_steps:
                largest = min(_LARGEST_TARGET_DISTANCE, request.largest_residual)
                noise = self._distance_noise(oracle, problem, "residual", largest)
                scale = min(max(oracle.residual("residual", path.mean_in_frame, path.frame, largest), noise), spread)
                request = number_request(problem, self._largest_limit(problem), signal, self.steps, scale)
        return path.raw_mean

    def signal(self, problem: Problem, noise_multiplier: float) -> float:
        """Return r = n mu / d, with mu that of the whole plan if gradients have noise of this multiplier."""
        gradient_share = self.queries(problem)[0].weight / 100
        mu = 2 * math.sqrt(self.steps / gradient_share) / noise_multiplier
        return problem.n * mu / problem.size

    def _sigma(self, oracle: Standardised, problem: Problem, limit: float) -> float:
        """Return sigma, the noise std of one gradient if it had the budget of all T."""
        multiplier = oracle.planned("gradient").noise_multiplier
        return multiplier * limit / (problem.n * oracle.share * math.sqrt(self.steps))

    def _distance_noise(self, oracle: Standardised, problem: Problem, query: str, largest: float) -> float:
        """Return the noise std of a mean of distances in [0, largest]."""
        divisor = sensitivity_factor(problem.relation) * (problem.n * oracle.share)
        return oracle.planned(query).noise_multiplier * largest / divisor

    def _largest_limit(self, problem: Problem) -> float:
        """Return the largest C of a gradient."""
        if isinstance(problem.loss, Squared):
            return self.residual_limit
        return self.slope_limit * problem.loss.slope_bound
