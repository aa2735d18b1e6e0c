"""Populations for the benchmark of regression tables: models with known coefficients, and finite sets of rows.

Every population states at which coefficients the intervals of a table aim, and how wide intervals without privacy are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting import Unit
from solvers.columns import Columns
from solvers.inference.table import SolvedTable
from solvers.weighting import AnyWeights, LinearWeights

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Family = Literal["logistic", "linear", "poisson"]

_REFERENCE_ROWS = 100_000  # drawn for the covariance without privacy
_NEWTON_STEPS = 25
_LEAST_STEP = 1e-6  # relative; Newton's method doubles the digits in each step


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows without the constant, targets, and whether each slot of a person holds a row (None if records are rows)."""

    X: Matrix
    y: Vector
    present: NDArray[np.bool_] | None = None

    @property
    def with_constant(self) -> Matrix:
        """Rows with the constant as the last column; empty slots are 0."""
        rows = np.column_stack((self.X, np.ones(len(self.X))))
        return rows if self.present is None else rows * self.present[:, None]


@dataclass(frozen=True, eq=False)
class Population(ABC):
    """A population to draw records from.

    Parameters
    ----------
    name : for the command's output
    columns : layout of a row
    family : of the models
    """

    name: str
    columns: Columns
    family: Family

    unit = Unit()
    is_correct = True
    """Whether the model is right, so that the coefficients do not depend on the weights of rows."""

    @property
    def largest_count(self) -> float | None:
        """Y, of a count."""
        return None

    @abstractmethod
    def draw(self, records: int, rng: np.random.Generator) -> Sample:
        """Return independent records."""

    @abstractmethod
    def aim(self, result: SolvedTable) -> Vector:
        """Return the coefficients of the coded columns and the intercept at which the table's intervals aim, (d,)."""

    @property
    @abstractmethod
    def covariance(self) -> Matrix:
        """Covariance of the fit without privacy, times the number of records, (d, d)."""

    @property
    def records(self) -> int:
        """Number of records of a finite population."""
        raise NotImplementedError

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Whether a coded column is a number, or a level with a record, (d,)."""
        return np.ones(self.columns.d, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Model(Population):
    """A population whose model is right.

    Parameters
    ----------
    rows : returns rows without the constant
    coefficients : of the coded columns and the intercept, (d,)
    errors : returns errors of a number target, with mean 0; for counts, the factors of the means, with mean 1
    largest_count : of counts, whose coefficients are those of the log of the mean as a share of it
    """

    rows: Callable[[int, np.random.Generator], Matrix]
    coefficients: Vector
    errors: Callable[[int, np.random.Generator], Vector] | None = None
    largest_count: float | None = None

    def draw(self, records: int, rng: np.random.Generator) -> Sample:
        """Return independent records."""
        X = self.rows(records, rng)
        margins = X @ self.coefficients[:-1] + self.coefficients[-1]
        if self.largest_count is not None:
            factors = np.ones(records) if self.errors is None else self.errors(records, rng)
            counts = rng.poisson(self.largest_count * factors * np.exp(margins))
            return Sample(X, 2 * np.minimum(counts, self.largest_count) / self.largest_count - 1)
        if self.errors is None:
            return Sample(X, np.where(rng.random(records) < 1 / (1 + np.exp(-margins)), 1.0, -1.0))
        return Sample(X, np.clip(margins + self.errors(records, rng), -1, 1))

    def aim(self, result: SolvedTable) -> Vector:
        """Return the coefficients, with the intercept at the center of the errors if residuals are cut."""
        weights, aim = result.estimate.weights, self.coefficients.copy()
        if isinstance(weights, LinearWeights):
            aim[-1] += center(self._some_errors, weights.residual_limit)
        return aim

    @cached_property
    def _some_errors(self) -> Vector:
        assert self.errors is not None
        return np.sort(self.errors(2_000_000, np.random.default_rng(4)))[1000::2000]

    @cached_property
    def covariance(self) -> Matrix:
        """Covariance of the fit without privacy, times the number of records."""
        sample = self.draw(_REFERENCE_ROWS, np.random.default_rng(98))
        return sandwich(sample, self.coefficients, self.family, 1)


@dataclass(frozen=True, eq=False)
class Rows(Population):
    """Finite rows, drawn with replacement. A table aims at the fit to all rows with the weights of the table.

    Parameters
    ----------
    everything : the rows; slots of a person follow each other
    unit : whose records are drawn
    count_limit : Y, of counts
    """

    everything: Sample
    unit: Unit = field(default_factory=Unit)
    count_limit: float | None = None
    is_correct = False

    @property
    def largest_count(self) -> float | None:
        """Y, of a count."""
        return self.count_limit

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.everything.y) // self.unit.slots

    def draw(self, records: int, rng: np.random.Generator) -> Sample:
        """Return independent records."""
        chosen, k = rng.integers(0, self.records, records), self.unit.slots
        slots = (chosen[:, None] * k + np.arange(k)).ravel()
        own = self.everything
        return Sample(own.X[slots], own.y[slots], None if own.present is None else own.present[slots])

    def aim(self, result: SolvedTable) -> Vector:
        """Return the fit to all rows with the weights that the table used."""
        frame, weights, start = result.estimate.coordinates.frame, result.estimate.weights, result.answers.point
        is_left_out = np.append(~frame.has_weight, False)
        rows, y = self._kept
        u = (frame.raw.T @ rows.T).T
        if is_left_out.any():
            u[(rows[:, is_left_out] > 0).any(axis=1)] = 0.0
        omega = weights.weights(u @ start, np.sqrt(np.einsum("ij,ij->i", u, u)))
        return np.asarray(frame.raw @ solved(u, y, omega, weights, result.estimate.theta))

    @cached_property
    def _kept(self) -> tuple[Matrix, Vector]:
        """Rows with the constant and targets, without the empty slots, whose terms are 0."""
        own = self.everything
        chosen = slice(None) if own.present is None else own.present
        return np.asfortranarray(own.with_constant[chosen]), own.y[chosen]

    @cached_property
    def exists(self) -> NDArray[np.bool_]:
        """Whether a coded column is a number, or a level with a record, (d,)."""
        return np.asarray((self.everything.with_constant != 0).any(axis=0))

    @cached_property
    def whole_fit(self) -> Vector:
        """Fit without weights, (d,)."""
        rows = self.everything.with_constant
        return solved(rows, self.everything.y, np.ones(len(rows)), _Whole(self.family), np.zeros(rows.shape[1]))

    @cached_property
    def covariance(self) -> Matrix:
        """Covariance of the fit without privacy, times the number of records."""
        return sandwich(self.everything, self.whole_fit, self.family, self.unit.slots)


@dataclass(frozen=True)
class _Whole:
    """Residuals and slopes of a model without weights and limits."""

    family: Family

    def residuals(self, margins: Vector, targets: Vector) -> Vector:
        return np.asarray(self._predicted(margins) - self._means(targets))

    def slopes(self, margins: Vector, targets: Vector) -> Vector:  # noqa: ARG002
        s = self._predicted(margins)
        return np.ones_like(margins) if self.family == "linear" else s * (1 - s) if self.family == "logistic" else s

    def _predicted(self, margins: Vector) -> Vector:
        if self.family == "linear":
            return margins
        return _probabilities(margins) if self.family == "logistic" else np.asarray(np.exp(np.minimum(margins, 3.0)))

    def _means(self, targets: Vector) -> Vector:
        if self.family == "linear":
            return targets
        return np.asarray((targets > 0).astype(float) if self.family == "logistic" else (1 + targets) / 2)


def solved(u: Matrix, y: Vector, omega: Vector, weights: AnyWeights | _Whole, start: Vector) -> Vector:
    """Return the root of the weighted mean score by Newton's method, of least norm if rows are collinear."""
    theta = start.copy()
    for _ in range(_NEWTON_STEPS):
        margins = u @ theta
        curvature = (u * (omega * weights.slopes(margins, y))[:, None]).T @ u
        score = (omega * weights.residuals(margins, y)) @ u
        step = np.linalg.lstsq(curvature, score, rcond=1e-10)[0]
        theta = theta - step
        if np.abs(step).max() < _LEAST_STEP * (1 + np.abs(theta).max()):
            break
    return np.asarray(theta)


def sandwich(sample: Sample, coefficients: Vector, family: Family, slots: int) -> Matrix:
    """Return the covariance of a fit without privacy, times the number of records, robust to clusters of `slots`."""
    rows, whole = sample.with_constant, _Whole(family)
    margins, records = rows @ coefficients, len(rows) // slots
    curvature = (rows * whole.slopes(margins, sample.y)[:, None]).T @ rows / records
    scores = (rows * whole.residuals(margins, sample.y)[:, None]).reshape(records, slots, -1).sum(axis=1)
    bread = np.linalg.pinv(curvature, rcond=1e-10, hermitian=True)
    return np.asarray(bread @ (scores.T @ scores / records) @ bread)


def center(errors: Vector, limit: float) -> float:
    """Return Huber's center of errors: the number from which their cut distances have the mean 0."""
    low = float(errors.min())
    high = float(errors.max())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(errors - middle, -limit, limit).mean() > 0 else (low, middle)
    return (low + high) / 2


def _probabilities(margins: Vector) -> Vector:
    return np.asarray(1 / (1 + np.exp(-np.clip(margins, -500, 500))))
