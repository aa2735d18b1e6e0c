"""The path of a regression table: steps by curvatures that are predicted from released numbers.

A wrong prediction makes intervals wider, and never wrong. Reference: docs/spec 27.5.
"""

import math
from dataclasses import dataclass

import numpy as np

from solvers.inference.coordinates import Coordinates, Matrix, raised
from solvers.problem import Vector
from solvers.weighting import AnyWeights

NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
"""Nodes of the quadrature over N(0, 1)."""

NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
"""Their weights, with sum 1."""

_LEAST_CURVATURE = 0.03  # of the mean curvature; eigenvalues are raised to it, so that no step is too long
_LEAST_VARIANCE = 1e-12  # of margins
_LEAST_MEAN = 1e-12  # of curvatures, which are 0 at margins that rare noise makes huge


@dataclass(frozen=True, slots=True)
class TablePath:
    """Steps in the coordinates of a table.

    Parameters
    ----------
    coordinates : of the table
    longest_step : largest root mean square change of the margins in one step
    """

    coordinates: Coordinates
    longest_step: float

    def moved(self, w: Vector, score: Vector, weights: AnyWeights) -> Vector:
        """Return the point after a step against a noisy score at w."""
        coordinates = self.coordinates
        step = np.linalg.solve(predicted_curvature(coordinates, w, weights, _LEAST_CURVATURE), score)
        length = math.sqrt(float(step @ (coordinates.second / coordinates.weight) @ step))
        return np.asarray(w - step * min(1.0, self.longest_step / max(length, 1e-12)))


def predicted_curvature(coordinates: Coordinates, w: Vector, weights: AnyWeights, least_share: float) -> Matrix:
    """Return the mean weighted curvature at w if rows were Gaussian, by Stein's identity.

    Margins are then Gaussian, and the mean of F(m) u u' is a matrix in span(second, mean, covariance w).

    Parameters
    ----------
    least_share : smallest eigenvalue, as a share of the mean curvature
    """
    along = coordinates.covariance @ w
    variance = max(float(w @ along), _LEAST_VARIANCE)
    margins = float(coordinates.mean @ w) + math.sqrt(variance) * NODES
    values = weights.weights(margins, np.ones_like(margins)) * weights.curvature(margins)
    mean = max(float(NODE_WEIGHTS @ values), _LEAST_MEAN)
    slope = float(NODE_WEIGHTS @ (values * NODES)) / math.sqrt(variance)
    bend = float(NODE_WEIGHTS @ (values * (NODES**2 - 1))) / variance
    mixed = np.outer(coordinates.mean, along)
    change = slope * (mixed + mixed.T) + bend * np.outer(along, along)
    minimum = least_share * mean * float(np.trace(coordinates.second)) / coordinates.size
    return raised(mean * coordinates.second + coordinates.weight * change, minimum)
