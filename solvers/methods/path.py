"""Points of accelerated steps in a frame that may change: functions of private answers, without a privacy cost."""

import math

import numpy as np

from solvers.frame import Frame
from solvers.methods.defaults.adaptive_gd import CONSTANT
from solvers.methods.defaults.step_growth import GROWTH
from solvers.problem import Problem, Vector

_INTERCEPT_FRAME_SCALE = 1e-3  # of all columns but the constant
_PENALIZED_FROM_STEP = 10  # before this step, the running mean is mostly noise


class Path:
    """The current point w, the previous one, and the mean with weights 1, 2, ..., in coordinates that may change."""

    def __init__(self, problem: Problem, frame: Frame, intercept: float = 0.0) -> None:
        """Begin at 0, except for the intercept in the original columns."""
        start = np.zeros((problem.outputs, problem.d))
        start[:, -1] = intercept / frame.constant
        self._problem, self.frame = problem, frame
        self._w = self._previous = self._start = start.ravel()
        self._sum, self._weight = np.zeros(problem.size), 0.0

    @property
    def mean(self) -> Vector:
        """Mean of a o w, shape (K, d), which does not change with the frame; the center is not subtracted.

        It is 0 before the first point.
        """
        return (self._sum / max(self._weight, 1.0)).reshape(-1, self._problem.d)

    @property
    def mean_in_frame(self) -> Vector:
        """Mean of w in the current frame."""
        return (self.mean / self._scale).ravel()

    @property
    def raw_mean(self) -> Vector:
        """Mean in the original columns."""
        return self.frame.raw(self.mean / self._scale).ravel()

    @property
    def _scale(self) -> Vector:
        return np.append(self.frame.scale, self.frame.constant)

    def extrapolate(self, step_times_convexity: float, t: int | None = None) -> Vector:
        """Return w + beta (w - previous w), with beta of Nesterov's method for this strong convexity.

        At step t, if it is given, beta of the intercept is at most that of the method for convex functions.
        """
        x = math.sqrt(step_times_convexity / (1 + step_times_convexity))
        beta = np.full((self._problem.outputs, self._problem.d), (1 - x) / (1 + x))
        if t is not None:
            beta[:, -1] = np.minimum(beta[:, -1], convex_momentum(t))
        return self._w + beta.ravel() * (self._w - self._previous)

    def penalties(self, ridge: float, l1: float, offset: float, t: int, intercept: float = 0.0) -> Vector:
        """Return ridge + l1 / (|mean| + offset) for each coordinate at step t, and `intercept` for the intercept."""
        weights = np.full((self._problem.outputs, self._problem.d), ridge)
        if t > _PENALIZED_FROM_STEP:
            weights += l1 / (np.abs(self.mean / self._scale) + offset)
        weights[:, -1] = intercept
        return weights.ravel()

    def l1_direction(self, offset: float, t: int) -> Vector:
        """Return mean / (|mean| + offset), along which such an l1 pulls; 0 for coordinates without an l1."""
        means = np.zeros((self._problem.outputs, self._problem.d))
        if t > _PENALIZED_FROM_STEP:
            means = self.mean / self._scale
        direction: Vector = means / (np.abs(means) + offset)
        direction[:, -1] = 0.0
        return direction.ravel()

    def descend(self, point: Vector, gradient: Vector, penalties: Vector, step: float, t: int) -> None:
        """Set w to prox(point - step (gradient + penalties o (point - start))), and add it to the mean with weight t.

        Where a penalty exceeds 1 / step, the coordinate goes to start - gradient / penalty instead, the minimizer of
        the penalized line. An infinite penalty keeps the coordinate at its start.
        """
        damped = gradient / np.maximum(1.0, step * penalties)
        direction = damped + np.minimum(penalties, 1 / step) * (point - self._start)
        self._previous, self._w = self._w, self._problem.prox(point - step * direction, step)
        self._sum = self._sum + t * (self._w.reshape(-1, self._problem.d) * self._scale).ravel()
        self._weight += t

    def restart(self) -> None:
        """Forget the last move, so that the next step has no momentum."""
        self._previous = self._w

    def slope_along_move(self, gradient: Vector) -> float:
        """Return the part of a gradient along the last move, w - previous w; 0 without a move."""
        move = self._w - self._previous
        length = float(np.linalg.norm(move))
        return float(gradient @ move) / length if length > 0 else 0.0

    def change_frame(self, frame: Frame) -> None:
        """Express the same points in another frame with the same center."""
        ratio = self._scale
        self.frame = frame
        ratio = ratio / self._scale
        self._w, self._previous = ((w.reshape(-1, len(ratio)) * ratio).ravel() for w in (self._w, self._previous))


class StepGrowth:
    """Step sizes that grow with the model: functions of private answers, so without a privacy cost.

    If margins are Gaussian with variance V, the mean curvature of the logistic loss is about in proportion to
    (1 + pi V / 8)^(-1/2). Steps grow by as much as the curvature at V is below that at a usual variance. V is taken to
    be (sum_j ||mean_j|| sqrt(v_j))^2 / (number of slopes), with the released variances v. For independent columns with
    these variances, the margins have at least this mean variance. For correlated columns they may have less, and steps
    may become too long. Then gradients point along the last move. A step that has grown is cut if its gradient does so
    by more than `alarm` stds of its noise. By more than `strong_alarm` stds, momentum begins anew, too. Steps do not
    grow above the size whose noise moves margins by `most_noise`.

    Proof: docs/proofs/adaptive_gd.md, "Steps that grow with the model".
    """

    def __init__(self, variances: Vector) -> None:
        """Begin with the released variances of the columns."""
        self._stds, self._ceiling = np.sqrt(variances), math.inf
        self.is_restart = False  # whether momentum begins anew after the last step

    def next_step(self, step: float, gradient: Vector, path: Path, noise_std: float) -> float:
        """Return the size of the next step.

        Parameters
        ----------
        step : the size for a small model
        gradient : the noisy gradient of the next step
        noise_std : of the gradient, in each coordinate
        """
        means = path.mean[:, :-1]
        variance = float(np.linalg.norm(means, axis=0) @ self._stds) ** 2 / max(1, means.size)
        largest = min(self._ceiling, GROWTH.most_noise / (step * noise_std))
        factor = max(1.0, min(GROWTH.factor(variance), largest))
        overshoot = path.slope_along_move(gradient) / noise_std if factor > 1 else 0.0
        self.is_restart = overshoot > GROWTH.strong_alarm
        if overshoot > GROWTH.alarm:
            factor = self._ceiling = max(1.0, GROWTH.cut * factor)
        self._ceiling *= GROWTH.recovery
        return factor * step


class L1Weight:
    """The weight of an l1, learned from gradients that are released anyway, so without a privacy cost.

    At the best weight, the objective does not change along the direction s in which the l1 pulls. The noise of a
    gradient g is independent of earlier points. Therefore <g, s> / ||s||^2 estimates by how much the weight is too
    small, with variance answer_std^2 / ||s||^2. The value is the mean of a prior and of all estimates, each weighted by
    its precision, clipped to [0, 3 mean].
    """

    def __init__(self, mean: float, std: float, answer_std: float) -> None:
        """Begin with the prior.

        Parameters
        ----------
        mean, std : of the prior
        answer_std : noise std of a gradient in each coordinate
        """
        self._precision = (answer_std / std) ** 2  # in units of 1 / answer_std^2
        self._sum, self._largest, self.value = mean * self._precision, 3 * mean, mean

    def learn(self, gradient: Vector, direction: Vector) -> None:
        """Update the value by a gradient that was released after `direction` was fixed."""
        square = float(direction @ direction)
        self._sum += square * self.value + float(direction @ gradient)
        self._precision += square
        self.value = min(max(self._sum / self._precision, 0.0), self._largest)


def convex_momentum(t: int) -> float:
    """Return beta of Nesterov's method for convex functions at step t, which rises from 0 towards 1."""
    return (t - 1) / (t + 2)


def scaled(center: Vector, variances: Vector, power: float) -> Frame:
    """Return the frame with a = variances^(-power/2), normalized to sum a^2 variances = 1."""
    scale = variances ** (-power / 2)
    return Frame(center, scale / math.sqrt(float((scale**2 * variances).sum()) or 1.0), CONSTANT)


def uncentered(problem: Problem, square: float) -> Frame:
    """Return the frame with m = 0 and one scale, in which rows of this mean square have the mean square 1."""
    return Frame(np.zeros(problem.d - 1), np.full(problem.d - 1, 1 / math.sqrt(square)), CONSTANT)


def intercept_frame(frame: Frame) -> Frame:
    """Return the frame for a model that is only an intercept. All rows are almost (0, ..., 0, 1) in it."""
    return Frame(frame.center, _INTERCEPT_FRAME_SCALE * frame.scale, 1.0)


def reallocated(mean: Vector, variances: Vector, center: Vector) -> Frame:
    """Return the frame with a^2 v = q, where q_j is proportional to ||mean_j|| sqrt(v_j) plus the average of these.

    Columns that the model uses more get less noise in this frame.
    """
    use = np.sqrt((mean[:, :-1] ** 2).sum(axis=0) * variances)
    q = use + use.mean() if len(use) else use
    if not q.sum() > 0:
        q = np.ones_like(variances)
    return Frame(center, np.sqrt(q / q.sum() / variances), CONSTANT)
