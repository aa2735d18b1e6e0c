"""The answers of a regression table: everything that a run releases, and the numbers that follow from them."""

import math
from dataclasses import dataclass

import numpy as np

from solvers.inference.budget import Budget, Limits, parameters_of
from solvers.inference.coordinates import (
    SQUARED_ROW_LIMIT,
    Coordinates,
    Matrix,
    Stds,
    decorrelated,
    first_frame,
    levels_with_weight,
)
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector
from solvers.weighting import AnyWeights, LinearWeights, LogisticWeights

_LEAST_CLASS_SHARE = 1e-4
_SCALE_STDS = 2.0  # released scales and shares are raised to this many stds of their noise
_STD_PER_DISTANCE = 1.25  # of a Gaussian, over its mean distance from 0
_LARGEST_RESIDUAL = 2.0  # on the path: targets and useful predictions lie in [-1, 1]
_LARGEST_LAST_RESIDUAL = 4.0
_FIRST_LIMIT, _LATE_LIMIT, _LIMIT = 3.0, 2.5, 2.0  # of residuals on the path, in stds
_COUNTED_SCALES, _LARGEST_SCALE_RATIO = 8.0, 1.5


@dataclass(frozen=True, slots=True)
class Target:
    """Released numbers about the target.

    Parameters
    ----------
    mean : of y in [-1, 1]; for classes 2 p - 1 with the share p of the positive class
    scale : mean distance of a number from the mean; 0 for classes
    late_scale : mean residual of a number late on the path; 0 for classes
    """

    mean: float
    scale: float = 0.0
    late_scale: float = 0.0

    @property
    def positive_share(self) -> float:
        """The share of the positive class."""
        return (1 + self.mean) / 2

    @property
    def balance(self) -> float:
        """4 p (1 - p) of the share p of the positive class."""
        return 4 * self.positive_share * (1 - self.positive_share)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The private answers of a run.

    Parameters
    ----------
    share : of slots that hold a row; 1 if records are rows
    moments : of the columns
    target : of the target
    second_moments : in the first frame
    point : theta_0, the end of the path
    curvature, squared_scores, gradient : H, G and g at theta_0
    """

    share: float
    moments: Moments
    target: Target
    second_moments: Matrix
    point: Vector
    curvature: Matrix
    squared_scores: Matrix
    gradient: Vector

    def flat(self, problem: Problem) -> Vector:
        """Return all numbers in the order of `unpacked`; matrices are filled up to d coordinates with zeros."""
        d, moments, target = parameters_of(problem), self.moments, self.target
        matrices = (self.second_moments, self.curvature, self.squared_scores)
        parts = [
            np.array((self.share, target.mean, target.scale, target.late_scale)),
            *(np.array(part, dtype=float) for part in (moments.center, moments.variances, moments.noise)),
            *(np.pad(vector, (0, d - len(vector))) for vector in (self.point, self.gradient)),
            *(np.pad(matrix, (0, d - len(matrix)))[np.triu_indices(d)] for matrix in matrices),
        ]
        return np.concatenate(parts)


def answers_size(problem: Problem) -> int:
    """Return the length of `Answers.flat`."""
    d = parameters_of(problem)
    return 4 + 3 * (problem.d - 1) + 2 * d + 3 * (d * (d + 1) // 2)


def unpacked(problem: Problem, flat: Vector, stds: Stds) -> Answers:
    """Return the answers from `Answers.flat`; the number of coordinates follows from the released counts."""
    d, width, triangle = (
        parameters_of(problem),
        problem.d - 1,
        parameters_of(problem) * (parameters_of(problem) + 1) // 2,
    )
    ends = np.cumsum([4, width, width, width, d, d, triangle, triangle])
    numbers, center, variances, noise, point, gradient, *matrices = np.split(flat, ends)
    share, *target = numbers.tolist()
    moments = Moments(tuple(center.tolist()), tuple(variances.tolist()), tuple(noise.tolist()))
    size = first_frame(problem, moments, levels_with_weight(problem, moments, share, stds)).size
    second, curvature, squared = (_square(part, d)[:size, :size] for part in matrices)
    return Answers(share, moments, Target(*target), second, point[:size], curvature, squared, gradient[:size])


def _square(triangle: Vector, d: int) -> Matrix:
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = triangle
    return matrix + np.triu(matrix, 1).T


def coordinates_of(problem: Problem, moments: Moments, share: float, second: Matrix, stds: Stds) -> Coordinates:
    """Return the coordinates of a table, from the answers about the columns."""
    first = first_frame(problem, moments, levels_with_weight(problem, moments, share, stds))
    return decorrelated(first, second, stds.of_matrix("second_moments", SQUARED_ROW_LIMIT), share)


def class_share_std(stds: Stds, share: float) -> float:
    """Return the noise std of the released share of the positive class."""
    return stds.of_vector("target_mean", 1.0) / share / 2


def bounded_class_mean(mean: float, stds: Stds, share: float) -> float:
    """Return the mean of targets -1 and 1, at least two noise stds from both."""
    minimum = min(max(_SCALE_STDS * class_share_std(stds, share), _LEAST_CLASS_SHARE), 0.5)
    return min(max(mean, 2 * minimum - 1), 1 - 2 * minimum)


def bounded_scale(scale: float, std: float, largest: float) -> float:
    """Return a mean distance of at least two stds of its noise."""
    return min(max(scale, _SCALE_STDS * std), largest)


def counted_residual(target: Target) -> float:
    """Return the largest residual that counts in the late scale."""
    return min(_LARGEST_RESIDUAL, _COUNTED_SCALES * target.scale)


def late_scale(residual: float, std: float, target: Target) -> float:
    """Return the late scale from a released mean residual."""
    return bounded_scale(residual, std, _LARGEST_SCALE_RATIO * target.scale)


def path_weights(budget: Budget, target: Target, share: float, index: int, late: int) -> AnyWeights:
    """Return the weights of a step of the path.

    Parameters
    ----------
    share : released share of slots that hold a row
    index : number of the step, from 0
    late : index of the step before which the late scale is released
    """
    limits = _limits(budget, target, share)
    if not budget.is_linear:
        return _class_weights(limits, target)
    width = _FIRST_LIMIT if index == 0 else _LATE_LIMIT if index == late else _LIMIT
    scale = target.scale if index < late else target.late_scale
    return LinearWeights(math.sqrt(limits.squared_row), min(width * _STD_PER_DISTANCE * scale, _LARGEST_RESIDUAL))


def last_weights(budget: Budget, target: Target, share: float) -> AnyWeights:
    """Return the weights of the last answers, by which the parameter is defined; `share` as for `path_weights`."""
    limits = _limits(budget, target, share)
    if not budget.is_linear:
        return _class_weights(limits, target)
    limit = min(limits.score * _STD_PER_DISTANCE * target.late_scale, _LARGEST_LAST_RESIDUAL)
    return LinearWeights(math.sqrt(limits.squared_row), limit)


def _limits(budget: Budget, target: Target, share: float) -> Limits:
    return budget.limits(share if budget.is_linear else share * target.balance)


def _class_weights(limits: Limits, target: Target) -> LogisticWeights:
    return LogisticWeights(math.sqrt(limits.squared_row), limits.score, min(0.25, target.balance))
