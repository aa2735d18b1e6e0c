"""Weights of records in a generalized linear model, which bound every record's score and curvature.

For a point w, a record (x, y) with coordinates u = u(x) has the margin m = <u, w>, a weight omega(x) in [0, 1] that its
target does not enter, the residual t and the slope f of t in m. For every record and every w

    omega |t| ||u|| <= gradient_bound,    omega f ||u||^2 <= curvature_bound.

Proof: docs/proofs/regression_table.md. Reference: docs/spec 27.4.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.moment_bounds import MOMENTS
from solvers.problem import Vector

MOMENTS_OF_TABLES = MOMENTS | {"target_mean", "target_spread"}
"""Names of the queries of a weighted run that are moments of the columns and of the target."""

LEAST_NORM = 1e-140
"""Norm that replaces smaller ones, so that no quotient of a bound by its square overflows; the rows of empty slots have
norm 0."""

_LARGEST_MARGIN = 500.0  # beyond it the sigmoid is 0 or 1 to the last bit that matters
_LEAST_SLOPE = 1e-300
_LOG_MEANS = -40.0, 3.0  # the largest mean count has the log 0


@dataclass(frozen=True, slots=True)
class LogisticWeights:
    """Weights of a logistic model with targets -1 and 1.

    Parameters
    ----------
    row_limit : r, the norm beyond which a record's weight falls
    score_limit : c, in (0, 1]; weighted scores have norms up to c r
    curvature_limit : h, in (0, 1/4]; weighted curvatures have norms up to h r^2
    """

    row_limit: float
    score_limit: float
    curvature_limit: float
    is_linear: ClassVar[bool] = False

    @property
    def gradient_bound(self) -> float:
        """c r."""
        return self.score_limit * self.row_limit

    @property
    def curvature_bound(self) -> float:
        """h r^2."""
        return self.curvature_limit * self.row_limit**2

    def weights(self, margins: Vector, norms: Vector) -> Vector:
        """Return min(1, r^2 / ||u||^2) min(1, h / (s (1 - s))), at most c r / (||u|| max(s, 1 - s))."""
        s = sigmoid(margins)
        lengths = np.maximum(norms, LEAST_NORM)
        omega = np.minimum(1.0, self.row_limit**2 / lengths**2)
        omega = omega * np.minimum(1.0, self.curvature_limit / np.maximum(s * (1 - s), _LEAST_SLOPE))
        return np.asarray(np.minimum(omega, self.gradient_bound / (lengths * np.maximum(s, 1 - s))))

    def residuals(self, margins: Vector, targets: Vector) -> Vector:
        """Return sigmoid(m) - 1 for the target 1, and sigmoid(m) for -1."""
        return np.asarray(sigmoid(margins) - (targets > 0))

    def slopes(self, margins: Vector, targets: Vector) -> Vector:  # noqa: ARG002
        """Return s (1 - s)."""
        return self.curvature(margins)

    def curvature(self, margins: Vector) -> Vector:
        """Return s (1 - s)."""
        s = sigmoid(margins)
        return np.asarray(s * (1 - s))

    def mean(self, margins: Vector) -> Vector:
        """Return P(y = 1) at these margins."""
        return sigmoid(margins)


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """Weights of a linear model with targets in [-1, 1].

    Parameters
    ----------
    row_limit : r, the norm beyond which a record's weight falls
    residual_limit : C > 0, to which residuals are cut
    """

    row_limit: float
    residual_limit: float
    is_linear: ClassVar[bool] = True

    @property
    def gradient_bound(self) -> float:
        """C r."""
        return self.residual_limit * self.row_limit

    @property
    def curvature_bound(self) -> float:
        """r^2."""
        return self.row_limit**2

    def weights(self, margins: Vector, norms: Vector) -> Vector:  # noqa: ARG002
        """Return min(1, r^2 / ||u||^2)."""
        return np.asarray(np.minimum(1.0, self.row_limit**2 / np.maximum(norms, LEAST_NORM) ** 2))

    def residuals(self, margins: Vector, targets: Vector) -> Vector:
        """Return m - y, cut to [-C, C]."""
        return np.asarray(np.clip(margins - np.clip(targets, -1, 1), -self.residual_limit, self.residual_limit))

    def slopes(self, margins: Vector, targets: Vector) -> Vector:
        """Return 1 where the residual is not cut, otherwise 0."""
        is_whole = np.abs(margins - np.clip(targets, -1, 1)) <= self.residual_limit
        return np.asarray(is_whole.astype(np.float64))

    def curvature(self, margins: Vector) -> Vector:
        """Return ones."""
        return np.ones_like(margins)

    def mean(self, margins: Vector) -> Vector:
        """Return the margins."""
        return margins


@dataclass(frozen=True, slots=True)
class PoissonWeights:
    """Weights of a Poisson model with log link, with a count in [0, Y] coded as the target 2 count / Y - 1 in [-1, 1].

    Here s = e^m is the mean count as a share of Y, and the count as a share of Y is (1 + y) / 2.

    Parameters
    ----------
    row_limit : r, the norm beyond which a record's weight falls
    mean_limit : q, in (0, 1/2], the share s beyond which a record's weight falls
    """

    row_limit: float
    mean_limit: float
    is_linear: ClassVar[bool] = False
    score_limit: ClassVar[float] = 0.5

    @property
    def curvature_limit(self) -> float:
        """h = q / (2 (1 - q)), the weighted slope at s = q."""
        return self.score_limit * self.mean_limit / (1 - self.mean_limit)

    @property
    def gradient_bound(self) -> float:
        """r / 2."""
        return self.score_limit * self.row_limit

    @property
    def curvature_bound(self) -> float:
        """h r^2."""
        return self.curvature_limit * self.row_limit**2

    def weights(self, margins: Vector, norms: Vector) -> Vector:
        """Return min(1, r^2 / ||u||^2) min(1 / (2 max(s, 1 - s)), h / s), where both factors are at most 1."""
        s = self.mean(margins)
        lengths = np.maximum(norms, LEAST_NORM)
        omega = np.minimum(1.0, self.row_limit**2 / lengths**2)
        by_mean = np.minimum(self.score_limit / np.maximum(s, 1 - s), self.curvature_limit / s)
        return np.asarray(omega * np.minimum(1.0, by_mean))

    def residuals(self, margins: Vector, targets: Vector) -> Vector:
        """Return e^m - (1 + y) / 2."""
        return np.asarray(self.mean(margins) - (1 + np.clip(targets, -1, 1)) / 2)

    def slopes(self, margins: Vector, targets: Vector) -> Vector:  # noqa: ARG002
        """Return e^m."""
        return self.mean(margins)

    def curvature(self, margins: Vector) -> Vector:
        """Return e^m."""
        return self.mean(margins)

    def mean(self, margins: Vector) -> Vector:
        """Return e^m, the mean count as a share of Y, with m cut to a range that no useful margin leaves."""
        return np.asarray(np.exp(np.clip(margins, *_LOG_MEANS)))


AnyWeights = LogisticWeights | LinearWeights | PoissonWeights


def sigmoid(margins: Vector) -> Vector:
    """Return 1 / (1 + e^-m)."""
    return np.asarray(1 / (1 + np.exp(-np.clip(margins, -_LARGEST_MARGIN, _LARGEST_MARGIN))))
