"""The slopes that a step of adaptive_gd requests: their limit, the step size, and the smooth form of a loss."""

from dataclasses import dataclass

from solvers.frame import Frame
from solvers.losses.smoothing import BoundedSlope, Surrogate, surrogate
from solvers.methods.defaults.adaptive_gd import CLASSES, NUMBERS, constant_step
from solvers.oracles import Standardised
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True)
class Slopes:
    """The slopes that a step requests.

    Parameters
    ----------
    limit : C, the largest norm of a record's gradient
    step : eta
    form : the smooth form of a loss with a kink; None requests slopes of the loss itself
    counted : residuals count towards the next scale up to this length
    """

    limit: float
    step: float
    form: Surrogate | None = None
    counted: float = 0.0

    def requested(self, oracle: Standardised, point: Vector, frame: Frame) -> Vector:
        """Return the noisy mean gradient at a point."""
        smoothing = 0.0
        if self.form is not None:
            smoothing, point = self.form.loss.smoothing, self.form.factor * point
            point[-1] += self.form.shift / frame.constant
        return oracle.gradient("gradient", point, frame, self.limit, smoothing) / oracle.share


def class_slopes(problem: Problem, limit: float, signal: float, steps: int) -> Slopes:
    """Return the slopes of a run for classes."""
    form = surrogate(problem.loss, CLASSES.smoothing) if isinstance(problem.loss, BoundedSlope) else None
    step = CLASSES.step(problem)
    if signal < CLASSES.least_signal:
        step = min(step, constant_step(steps, CLASSES.intercept_curvature))
    return Slopes(limit, step, form)


def number_slopes(problem: Problem, largest_limit: float, signal: float, steps: int, scale: float) -> Slopes:
    """Return the slopes of the next steps, from the last released scale of the residuals."""
    width, form = NUMBERS.width(signal), None
    if isinstance(problem.loss, BoundedSlope):
        form = NUMBERS.surrogate(problem.loss, scale)
        limit, step = largest_limit, 1 / form.curvature
        counted = NUMBERS.counted_scales * NUMBERS.clip_scales * scale
    else:
        limit, step = min(largest_limit, NUMBERS.clip_scales * width * scale), NUMBERS.step
        counted = NUMBERS.counted_scales * limit / width
    if signal < NUMBERS.least_signal:
        step = min(step, constant_step(steps, NUMBERS.curvature(problem.loss, scale)))
    return Slopes(limit, step, form, counted)
