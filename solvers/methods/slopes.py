"""The slopes that a step of adaptive_gd requests: their limit, the step size, and the smooth form of a loss."""

from dataclasses import dataclass

from solvers.frame import Frame
from solvers.losses.smoothing import BoundedSlope, Surrogate, surrogate
from solvers.methods.defaults.adaptive_gd import CLASSES, NUMBERS
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


def class_slopes(problem: Problem, limit: float) -> Slopes:
    """Return the slopes of a run for classes."""
    form = surrogate(problem.loss, CLASSES.smoothing) if isinstance(problem.loss, BoundedSlope) else None
    return Slopes(limit, CLASSES.step(problem), form)


def number_slopes(problem: Problem, largest_limit: float, signal: float, scale: float) -> Slopes:
    """Return the slopes of the next steps, from the last released scale of the residuals."""
    counted = NUMBERS.counted_scales * NUMBERS.clip_scales * scale
    if isinstance(problem.loss, BoundedSlope):
        form = NUMBERS.surrogate(problem.loss, scale)
        return Slopes(largest_limit, 1 / form.curvature, form, counted)
    width = NUMBERS.width(signal)
    limit = min(largest_limit, NUMBERS.clip_scales * width * scale)
    return Slopes(limit, NUMBERS.step, None, NUMBERS.counted_scales * limit / width)
