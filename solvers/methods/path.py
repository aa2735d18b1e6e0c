"""Points of accelerated steps in a frame that may change, and their running mean: of answers alone, free of charge."""

import math

import numpy as np

from solvers.frame import Frame
from solvers.problem import Problem, Vector

_CONSTANT = 0.3  # the last coordinate of every z, beside a mean square of 1: centred rows need little intercept
_PENALIZED_FROM = 10  # steps, before which the running mean tells nothing


class Path:
    """The points so far: w, the one before, and the mean with weights 1, 2, .., in coordinates that may change."""

    def __init__(self, problem: Problem, frame: Frame, intercept: float = 0.0) -> None:
        """Begins at 0, but for the intercept in the original columns."""
        start = np.zeros((problem.outputs, problem.d))
        start[:, -1] = intercept / frame.constant
        self._problem, self.frame = problem, frame
        self._w = self._before = start.ravel()
        self._sum, self._weight = np.zeros(problem.size), 0.0

    @property
    def mean(self) -> Vector:
        """The mean of a o w, (K, d), the center left out: it does not change with the frame."""
        return (self._sum / self._weight).reshape(-1, self._problem.d)

    @property
    def mean_in_frame(self) -> Vector:
        """The mean of w, in the frame as it is now."""
        return (self.mean / self._scale).ravel()

    @property
    def raw_mean(self) -> Vector:
        """The mean in the original columns."""
        return self.frame.raw(self.mean / self._scale).ravel()

    @property
    def _scale(self) -> Vector:
        return np.append(self.frame.scale, self.frame.constant)

    def ahead(self, step_times_convexity: float) -> Vector:
        """w + beta (w - w_before), beta that of Nesterov's method for that strong convexity."""
        x = math.sqrt(step_times_convexity / (1 + step_times_convexity))
        return self._w + (1 - x) / (1 + x) * (self._w - self._before)

    def penalties(self, ridge: float, l1: float, room: float, t: int) -> Vector:
        """ridge + l1 / (|mean| + room) for each coordinate; the intercept goes free."""
        weights = np.full((self._problem.outputs, self._problem.d), ridge)
        if t > _PENALIZED_FROM:
            weights += l1 / (np.abs(self.mean / self._scale) + room)
        weights[:, -1] = 0.0
        return weights.ravel()

    def pulled(self, room: float, t: int) -> Vector:
        """Where such an l1 pulls from: mean / (|mean| + room), about its sign; 0 where it pulls nothing."""
        mean = self.mean / self._scale if t > _PENALIZED_FROM else np.zeros((self._problem.outputs, self._problem.d))
        along: Vector = mean / (np.abs(mean) + room)
        along[:, -1] = 0.0
        return along.ravel()

    def move(self, at: Vector, direction: Vector, step: float, t: int) -> None:
        """w <- prox(at - step direction)."""
        self._before, self._w = self._w, self._problem.prox(at - step * direction, step)
        self._sum = self._sum + t * (self._w.reshape(-1, self._problem.d) * self._scale).ravel()
        self._weight += t

    def change(self, frame: Frame) -> None:
        """The same points in another frame of the same center."""
        ratio = self._scale
        self.frame = frame
        ratio = ratio / self._scale
        self._w, self._before = ((w.reshape(-1, len(ratio)) * ratio).ravel() for w in (self._w, self._before))


class Weight:
    """An l1's weight, learned from the gradients that are answered anyway: a function of answers, free of charge.

    At the best weight the objective is level along s, where the l1 pulls from. A gradient's noise is independent of the
    points before it, so that <g, s> / ||s||^2 says how much is missing, about, with noise of variance std^2 / ||s||^2.
    The weight is the mean of a prior, N(first, width^2), and of all that was answered, within [0, 3 first].
    """

    def __init__(self, first: float, width: float, std: float) -> None:
        """
        Parameters
        ----------
        std : of a gradient's noise in each coordinate
        """
        self._precision = (std / width) ** 2  # in units of 1 / std^2
        self._sum, self._most, self.value = first * self._precision, 3 * first, first

    def learn(self, gradient: Vector, along: Vector) -> None:
        """Learns of a gradient that was answered after `along` was known."""
        square = float(along @ along)
        self._sum += square * self.value + float(along @ gradient)
        self._precision += square
        self.value = min(max(self._sum / self._precision, 0.0), self._most)


def scaled(center: Vector, v: Vector, power: float) -> Frame:
    """a = v^(-power/2), normalized to sum a^2 v = 1."""
    scale = v ** (-power / 2)
    return Frame(center, scale / math.sqrt(float((scale**2 * v).sum()) or 1.0), _CONSTANT)


def following(mean: Vector, v: Vector, center: Vector) -> Frame:
    """a^2 v = q, q_j in proportion to ||mean_j|| sqrt(v_j) plus the average of these: noise goes where little is."""
    use = np.sqrt((mean[:, :-1] ** 2).sum(axis=0) * v)
    q = use + use.mean() if len(use) else use
    if not q.sum() > 0:
        q = np.ones_like(v)
    return Frame(center, np.sqrt(q / q.sum() / v), _CONSTANT)
