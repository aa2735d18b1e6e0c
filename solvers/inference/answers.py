"""The answers of a regression table: everything that a run releases, and the numbers that follow from them."""

from dataclasses import dataclass

import numpy as np

from solvers.inference.budget import parameters_of
from solvers.inference.coordinates import (
    SQUARED_ROW_LIMIT,
    Coordinates,
    Matrix,
    Stds,
    decorrelated,
    first_frame,
)
from solvers.inference.target import Target
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector


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
    d, width = parameters_of(problem), problem.d - 1
    triangle = d * (d + 1) // 2
    ends = np.cumsum([4, width, width, width, d, d, triangle, triangle])
    numbers, center, variances, noise, point, gradient, *matrices = np.split(flat, ends)
    share, *target = numbers.tolist()
    moments = Moments(tuple(center.tolist()), tuple(variances.tolist()), tuple(noise.tolist()))
    size = first_frame(problem, moments, share, stds).size
    second, curvature, squared = (_square(part, d)[:size, :size] for part in matrices)
    return Answers(share, moments, Target(*target), second, point[:size], curvature, squared, gradient[:size])


def _square(triangle: Vector, d: int) -> Matrix:
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = triangle
    return matrix + np.triu(matrix, 1).T


def coordinates_of(problem: Problem, moments: Moments, share: float, second: Matrix, stds: Stds) -> Coordinates:
    """Return the coordinates of a table, from the answers about the columns."""
    first = first_frame(problem, moments, share, stds)
    return decorrelated(first, second, stds.of_matrix("second_moments", SQUARED_ROW_LIMIT), share)
