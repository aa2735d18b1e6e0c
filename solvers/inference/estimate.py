"""The estimate of a regression table and its variance, from the answers of a run alone.

With theta the estimate and theta* the parameter, theta - theta* = H^-1 (E D - psi - xi): psi is the sampling error of
the mean score, xi the noise of the released score, E the noise of the released curvature H, and D the last correction.
Each has a known or a released variance. Everything here is post-processing.
Derivation and approximations: docs/proofs/regression_table.md. Reference: docs/spec 27.6.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from solvers.inference.answers import Answers, coordinates_of
from solvers.inference.budget import TableBudget, step_name
from solvers.inference.coordinates import Coordinates, Matrix, Stds, raised
from solvers.inference.families import STEPS, FitFacts
from solvers.inference.path import NODE_WEIGHTS, NODES, predicted_curvature
from solvers.inference.target import total_share_std
from solvers.problem import Problem, Vector
from solvers.weighting import AnyWeights

_RESOLVED_STDS = 3.0  # in noise stds; smaller eigenvalues of H cannot be distinguished from noise
_CERTAIN_STDS = 5.0  # in noise stds; smaller eigenvalues of H are resolved only if so large ones are to be expected
_EXPECTED_RATIO = 3.0  # by which the median of the eigenvalues and their predictions may exceed an eigenvalue
_SURE_STDS = 15.0  # in noise stds; larger eigenvalues need no allowance for their noise
_KNOWN_STDS = 4.0  # of the sum of squared scores, above which the part of sampling is not mostly noise
_UNRESOLVED_PART = 0.5  # of a contrast's variance in directions that are not resolved

NOISE_HIDES = "the privacy noise hides this coefficient at this budget"
NOT_SETTLED = "the fit has not reached its solution for this coefficient, because the rows are far from normal"
FEW_ROWS = "too few rows are in this level"
MOSTLY_UNRESOLVED = "the privacy noise hides most coefficients of this table, so none is given"


@dataclass(frozen=True, slots=True)
class TableLine:
    """An estimated contrast: its estimate, standard error in two parts, degrees of freedom, interval and p-value.

    Parameters
    ----------
    sampling_error, noise_error : parts of the standard error; their squares add up to its square
    degrees_of_freedom : of the t distribution of estimate over standard error
    """

    estimate: float
    std_error: float
    sampling_error: float
    noise_error: float
    degrees_of_freedom: float
    lower: float
    upper: float
    p_value: float


@dataclass(frozen=True, eq=False)
class TableEstimate:
    """The estimate theta in the coordinates of a table, with its variance.

    Contrasts are rows over the coded columns and the intercept: (d,) with the intercept last. Use `TableEstimate.of`.

    Parameters
    ----------
    problem : the problem
    coordinates : the coordinates
    weights : of the last answers, by which the parameter is defined
    theta : the estimate, (coordinates,)
    inverse : H^-1, with small eigenvalues of H raised
    wide_inverse : H^-1 of eigenvalues that are lowered by the noise of H
    sampling, noise : the two parts of the variance of H theta
    remainder : the correction for the change of the curvature between theta_0 and theta
    squared_scores_std : noise std of the mean squared score's diagonal
    is_sampling_known : whether the sum of the mean squared scores exceeds its noise, so that the part of sampling in a
        variance is not mostly noise; the variance itself is right either way
    vectors, values, is_resolved : eigenvectors and raised eigenvalues of H, and whether each surely exceeds its noise
    change : theta_0 - theta
    last_step_std : noise std of the score of the last step of the path
    largest_change : of a contrast between theta_0 and theta, in stds
    largest_level_bend : half of the square of such a change for a level against its reference, in stds
    refusal : why no contrast is given, or None
    """

    problem: Problem
    coordinates: Coordinates
    weights: AnyWeights
    theta: Vector
    inverse: Matrix
    wide_inverse: Matrix
    sampling: Matrix
    noise: Matrix
    remainder: Vector
    squared_scores_std: float
    is_sampling_known: bool
    vectors: Matrix
    values: Vector
    is_resolved: NDArray[np.bool_]
    change: Vector
    last_step_std: float
    largest_change: float
    largest_level_bend: float
    refusal: str | None

    @staticmethod
    def of(problem: Problem, budget: TableBudget, answers: Answers, stds: Stds) -> "TableEstimate":
        """Return the estimate from the answers of a run.

        Parameters
        ----------
        budget : of the run
        stds : noise stds of the plan
        """
        coordinates = coordinates_of(problem, answers.moments, answers.share, answers.second_moments, stds)
        weights = budget.last_weights(answers.target, answers.share)
        curvature_std = stds.of_matrix("curvature", weights.curvature_bound)
        values, vectors = np.linalg.eigh(answers.curvature)
        predicted = predicted_curvature(coordinates.estimated, answers.point, weights, least_share=0.0)
        positive = np.maximum(values, _RESOLVED_STDS * curvature_std)
        inverse = (vectors / positive) @ vectors.T
        score_variance = stds.of_vector("gradient", weights.gradient_bound) ** 2 * np.eye(coordinates.size)
        first = answers.point - inverse @ answers.gradient
        own = inverse @ (score_variance + curvature_noise(curvature_std, answers.point - first)) @ inverse
        remainder = np.zeros(coordinates.size)
        if not weights.is_linear:
            remainder = _remainder(coordinates, weights, answers.point, first, own)
        theta = answers.point - inverse @ (answers.gradient + remainder)
        allowance = np.clip((_SURE_STDS - values / curvature_std) / (_SURE_STDS - _RESOLVED_STDS), 0, 1)
        wide_inverse = (vectors / (positive - allowance * curvature_std)) @ vectors.T
        change = wide_inverse @ answers.curvature @ (answers.point - theta)
        n, squared_scores_std = problem.n, stds.of_matrix("squared_scores", weights.gradient_bound**2)
        trace_std = squared_scores_std * math.sqrt(coordinates.size)
        return TableEstimate(
            problem=problem,
            coordinates=coordinates,
            weights=weights,
            theta=theta,
            inverse=inverse,
            wide_inverse=wide_inverse,
            sampling=raised(answers.squared_scores, 0.0) / max(n - coordinates.size, 1),
            noise=score_variance + curvature_noise(curvature_std, change),
            remainder=inverse @ remainder,
            squared_scores_std=squared_scores_std,
            is_sampling_known=float(np.trace(answers.squared_scores)) > _KNOWN_STDS * trace_std,
            vectors=vectors,
            values=positive,
            is_resolved=_are_resolved(values, np.diag(vectors.T @ predicted @ vectors), curvature_std),
            change=answers.point - theta,
            last_step_std=stds.of_vector(step_name(len(STEPS) - 1), weights.gradient_bound),
            largest_change=budget.family.largest_change,
            largest_level_bend=budget.family.largest_level_bend,
            refusal=budget.family.refusal(_fit_facts(problem, coordinates, theta, answers, stds)),
        )

    @cached_property
    def coefficients(self) -> Vector:
        """Coefficients of the coded columns and the intercept, (d,); levels without weight have the coefficient 0."""
        return np.asarray(self.coordinates.frame.raw @ self.theta)

    def is_given(self, contrasts: Matrix) -> NDArray[np.bool_]:
        """Return whether the noise leaves each contrast visible, apart from `refusal`."""
        projections = (contrasts @ self.coordinates.frame.raw) @ self.vectors
        parts = projections**2 / self.values**2
        hidden = (parts * ~self.is_resolved).sum(axis=1)
        return np.asarray(hidden < _UNRESOLVED_PART * np.maximum(parts.sum(axis=1), 1e-300))

    def is_settled(self, contrasts: Matrix, are_levels: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether each contrast changed little after the path.

        A larger change than noise and sampling explain means that the path stopped far from its solution. The linear
        prediction of the score may then be wrong. The change of a level is also the change of the margins of its rows.
        Half of its square is the relative error of a linear prediction of their mean counts.

        Parameters
        ----------
        are_levels : whether each contrast is a level against its reference
        """
        changes = contrasts @ self.coordinates.frame.raw @ self.change
        wide = contrasts @ self.coordinates.frame.raw @ self.wide_inverse
        variances = np.maximum(np.diag(self.covariance(contrasts)), 1e-300)
        with_last_step = variances + (self.last_step_std**2) * (wide**2).sum(axis=1)
        is_near = np.abs(changes) <= self.largest_change * np.sqrt(with_last_step)
        is_straight = changes**2 / 2 <= self.largest_level_bend * np.sqrt(variances)
        return np.asarray(is_near & (is_straight | ~are_levels))

    def covariance(self, contrasts: Matrix) -> Matrix:
        """Return the covariance of some contrasts, with sampling error and noise."""
        rows = contrasts @ self.coordinates.frame.raw
        wide, change = rows @ self.wide_inverse, rows @ self.remainder
        return np.asarray(wide @ (self.sampling + self.noise) @ wide.T + np.outer(change, change))

    def line(self, contrast: Vector, level: float, origin: float = 0.0) -> TableLine:
        """Return the line of one contrast; it is meaningful only if `is_given` and there is no `refusal`.

        Parameters
        ----------
        level : confidence of the interval
        origin : added to the estimate
        """
        row = contrast @ self.coordinates.frame.raw
        wide, narrow = row @ self.wide_inverse, row @ self.inverse
        variance = float(self.covariance(contrast[None])[0, 0])
        sampling = min(float(wide @ self.sampling @ wide), variance)
        unsure = self.squared_scores_std * float(narrow @ narrow) / self.problem.n
        degrees = max(2 * (variance / max(unsure, 1e-300)) ** 2, 1.0)
        estimate = origin + float(row @ self.theta)
        error = math.sqrt(variance)
        half = float(special.stdtrit(degrees, (1 + level) / 2)) * error
        p_value = 2 * float(special.stdtr(degrees, -abs(estimate) / error))
        parts = math.sqrt(sampling), math.sqrt(variance - sampling)
        return TableLine(estimate, error, *parts, degrees, estimate - half, estimate + half, p_value)

    def joint_p_value(self, contrasts: Matrix) -> float:
        """Return the p-value of the hypothesis that all contrasts are 0, by an F test."""
        estimates = contrasts @ self.coefficients
        count = len(contrasts)
        quadratic = float(estimates @ np.linalg.solve(self.covariance(contrasts), estimates))
        degrees = min(self.line(contrast, 0.95).degrees_of_freedom for contrast in contrasts)
        return float(special.fdtrc(count, degrees, quadratic / count))


def curvature_noise(std: float, change: Vector) -> Matrix:
    """Return the covariance of E D, with E the noise of a curvature and D a change of the point."""
    size = len(change)
    return np.asarray(std**2 / 2 * (float(change @ change) * np.eye(size) + np.outer(change, change)))


def _are_resolved(values: Vector, predicted: Vector, std: float) -> NDArray[np.bool_]:
    """Return whether each eigenvalue of H surely exceeds its noise.

    If an eigenvalue of 1 or 2 stds had lines whenever noise raises it above 3 stds, these lines would have too short
    intervals. In a given direction, an eigenvalue below 3 stds reaches 5 stds in at most 2.3 percent of the cases.
    Between 3 and 5 stds, an eigenvalue is resolved only if other released numbers lead to expect one of 3 stds.

    Parameters
    ----------
    values : eigenvalues of H
    predicted : curvature in the direction of each, predicted from the second moments
    std : noise std of an eigenvalue
    """
    is_usual = values >= np.median(values) / _EXPECTED_RATIO
    is_expected = predicted >= _EXPECTED_RATIO * _RESOLVED_STDS * std
    minimum = np.where(is_usual | is_expected, _RESOLVED_STDS, _CERTAIN_STDS) * std
    return np.asarray(values >= minimum)


def _fit_facts(problem: Problem, coordinates: Coordinates, theta: Vector, answers: Answers, stds: Stds) -> FitFacts:
    """Return the released facts by which a family may refuse the table."""
    return FitFacts(
        target=answers.target,
        rows=problem.slots * answers.share,
        share_std=total_share_std(stds, answers.share, answers.target.mean),
        parameters=coordinates.size,
        margin_spread=math.sqrt(max(float(theta @ coordinates.estimated.covariance @ theta), 0.0)),
    )


def _remainder(coordinates: Coordinates, weights: AnyWeights, start: Vector, end: Vector, noise: Matrix) -> Vector:
    """Return how much the mean score at `end` differs from its linear prediction at `start`, if rows are Gaussian.

    The part that the noise of `end` alone would cause is taken off.

    Parameters
    ----------
    noise : covariance of the noise of `end`
    """
    second = coordinates.second_estimate / coordinates.weight
    moved = max(float((end - start) @ second @ (end - start)), 1e-300)
    real = max(0.0, 1 - float(np.trace(second @ noise)) / moved)
    return real * _gaussian_remainder(coordinates, weights, start, end - start)


def _gaussian_remainder(coordinates: Coordinates, weights: AnyWeights, start: Vector, change: Vector) -> Vector:
    """Return the mean of omega (g(m + dm) - g(m) - g'(m) dm) u for Gaussian rows, by quadrature over (m, dm)."""
    covariance, directions = coordinates.estimated.covariance, np.column_stack((start, change))
    squares = directions.T @ covariance @ directions
    along = math.sqrt(max(float(squares[0, 0]), 1e-12))
    mixed = float(squares[0, 1]) / along
    across = math.sqrt(max(float(squares[1, 1]) - mixed**2, 1e-14))
    first, second = np.meshgrid(NODES, NODES)
    node_weights = np.outer(NODE_WEIGHTS, NODE_WEIGHTS)
    margins = float(coordinates.mean @ start) + along * first
    changes = float(coordinates.mean @ change) + mixed * first + across * second
    bend = weights.mean(margins + changes) - weights.mean(margins) - weights.curvature(margins) * changes
    values = node_weights * weights.weights(margins, np.ones_like(margins)) * bend
    by_first = float((values * first).sum())
    by_second = float((values * second).sum())
    slopes = np.array((by_first / along, 0.0))
    if across > 1e-6:
        slopes = np.linalg.solve(np.array([[along, mixed], [0.0, across]]), np.array((by_first, by_second)))
    return np.asarray(coordinates.weight * (coordinates.mean * values.sum() + covariance @ directions @ slopes))
