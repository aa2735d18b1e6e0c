"""The gradients that adaptive_gd requests: the limit of their slopes, its test, the step size, and smooth losses."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from solvers.columns import Columns
from solvers.frame import Frame
from solvers.losses.smoothing import BoundedSlope, Surrogate, surrogate
from solvers.methods.defaults.adaptive_gd import CLASSES, NUMBERS, constant_step
from solvers.methods.path import Path
from solvers.oracles import Standardised
from solvers.preparation import moments
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True)
class GradientRequest:
    """The settings of a step: which gradient it requests, and how far it moves along the answer.

    Parameters
    ----------
    limit : C, the largest norm of a record's gradient
    step : eta
    form : the smooth form of a loss with a kink, whose slopes are requested; None for the loss itself
    largest_residual : residuals of a number target count towards their next scale up to this length
    """

    limit: float
    step: float
    form: Surrogate | None = None
    largest_residual: float = 0.0

    def answer(self, oracle: Standardised, point: Vector, frame: Frame) -> Vector:
        """Return the noisy mean gradient at a point."""
        smoothing = 0.0
        if self.form is not None:
            smoothing, point = self.form.loss.smoothing, self.form.factor * point
            point[-1] += self.form.shift / frame.constant
        return oracle.gradient("gradient", point, frame, self.limit, smoothing) / oracle.share


@dataclass(frozen=True, slots=True)
class LimitTest:
    """A test, within a run for classes, of whether a wider limit changes the gradient by more than its noise does.

    Proof: docs/proofs/adaptive_gd.md, "The wide limit of classes".

    Parameters
    ----------
    problem : of the run
    narrow : the request of the steps before the test
    wide_limit : the largest limit
    steps : the steps whose answers are used for the test; all other steps move the model
    run_steps : T
    """

    problem: Problem
    narrow: GradientRequest
    wide_limit: float
    steps: range
    run_steps: int

    @staticmethod
    def of(problem: Problem, slope_limit: float, signal: float, steps: int) -> "LimitTest":
        """Return the test of a run; it has no steps if the first limit is the largest or the model is a constant."""
        bound = problem.loss.slope_bound
        narrow, wide = CLASSES.narrow_limit(problem, slope_limit) * bound, slope_limit * bound
        is_tested = narrow < wide and signal >= CLASSES.least_signal
        tested = CLASSES.tested_steps(steps) if is_tested else range(0)
        return LimitTest(problem, class_request(problem, narrow, signal, steps), wide, tested, steps)

    def chosen(self, oracle: Standardised, path: Path, unit_std: float) -> GradientRequest:
        """Request the test's gradients at the running mean, and return the request of the next steps.

        `unit_std` is the noise std of an answer with the limit 1.
        """
        columns, size = moments.columns_of(self.problem), self.problem.size
        longest = self.problem.loss.slope_bound * longest_row(path.frame, columns)
        wide = replace(self.narrow, limit=min(self.wide_limit, longest))
        square, variance = self._change(oracle, wide, path, unit_std)
        more_noise = (wide.limit**2 - self.narrow.limit**2) * unit_std**2 / self.run_steps
        level = CLASSES.false_alarm_cost * (self.narrow.limit / wide.limit) ** 2
        is_significant = square > variance * float(chdtri(size, level))
        is_worth_its_noise = more_noise > 0 and square > size * (variance + more_noise)
        return wide if is_significant and is_worth_its_noise else self.narrow

    def _change(self, oracle: Standardised, wide: GradientRequest, path: Path, unit_std: float) -> tuple[float, float]:
        """Return ||difference of two noisy mean gradients||^2, and its noise variance in each coordinate.

        Each limit gets answers in proportion to itself, which makes the variance least.
        """
        answers, narrow = len(self.steps), self.narrow
        narrow_answers = min(max(round(answers * narrow.limit / (narrow.limit + wide.limit)), 1), answers - 1)
        requests = ((narrow, narrow_answers), (wide, answers - narrow_answers))
        narrow_mean, wide_mean = (
            np.mean([request.answer(oracle, path.mean_in_frame, path.frame) for _ in range(count)], axis=0)
            for request, count in requests
        )
        change = wide_mean - narrow_mean
        return float(change @ change), unit_std**2 * sum(request.limit**2 / count for request, count in requests)


def class_request(problem: Problem, limit: float, signal: float, steps: int) -> GradientRequest:
    """Return the request of the first steps of a run for classes."""
    form = surrogate(problem.loss, CLASSES.smoothing) if isinstance(problem.loss, BoundedSlope) else None
    step = CLASSES.step(problem)
    if signal < CLASSES.least_signal:
        step = min(step, constant_step(steps, CLASSES.intercept_curvature))
    return GradientRequest(limit, step, form)


def number_request(problem: Problem, largest_limit: float, signal: float, steps: int, scale: float) -> GradientRequest:
    """Return the request of the next steps of a run for numbers, from the last released scale of the residuals."""
    width, form = NUMBERS.width(signal), None
    if isinstance(problem.loss, BoundedSlope):
        form = NUMBERS.surrogate(problem.loss, scale)
        limit, step = largest_limit, 1 / form.curvature
        largest_residual = NUMBERS.counted_scales * NUMBERS.clip_scales * scale
    else:
        limit, step = min(largest_limit, NUMBERS.clip_scales * width * scale), NUMBERS.step
        largest_residual = NUMBERS.counted_scales * limit / width
    if signal < NUMBERS.least_signal:
        step = min(step, constant_step(steps, NUMBERS.curvature(problem.loss, scale)))
    return GradientRequest(limit, step, form, largest_residual)


def longest_row(frame: Frame, columns: Columns) -> float:
    """Return the largest ||z(x)|| of the rows x that the declared columns allow."""
    squares, is_number = frame.scale**2, columns.is_number
    center = frame.center[is_number]
    distances = np.maximum(columns.high - center, center - columns.low)
    # The row of a block with its 1 at j has the square sum_k (a_k m_k)^2 + a_j^2 (1 - 2 m_j).
    blocks = (squares * frame.center**2)[~is_number]
    parts = squares * (1 - 2 * frame.center)
    parts[is_number] = squares[is_number] * distances**2
    longest = np.maximum.reduceat(parts, columns.starts) if len(parts) else parts
    return math.sqrt(float(longest.sum() + blocks.sum()) + frame.constant**2)
