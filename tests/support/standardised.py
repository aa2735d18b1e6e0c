"""Requests to a StandardisedOracle, and the slopes that it limits."""

import numpy as np
from numpy.typing import NDArray

from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.losses import Loss, Quantile, Softmax, Squared
from solvers.losses.smoothing import BoundedSlope
from solvers.methods.standardised.adaptive_gd import SUPPORTED_LOSSES
from tests.support.members import every

Vector = NDArray[np.float64]
LIMITED_LOSSES: list[Loss] = every(SUPPORTED_LOSSES, Softmax(3), Quantile(0.9), Quantile(0.2, 0.3))
"""Every loss whose gradients `adaptive_gd` limits, from the union that it states."""
QUERIES = ("means", "spread", "variances", "target_mean", "target_spread", "residual", "gradient")


def every_answer(oracle: StandardisedOracle, loss: Loss, center: Vector, frame: Frame, w: Vector, limit: float) -> None:
    """Ask the oracle once for each kind of answer that suits the loss."""
    oracle.means("means")
    oracle.spread("spread", center)
    for radius in (0.3, 1.0, 9.0):
        oracle.variances("variances", center, radius)
    oracle.gradient("gradient", w, frame, limit)
    oracle.gradient("gradient", w, frame, limit, 0.6)
    if loss.takes == "number":
        oracle.target_mean("target_mean")
        oracle.target_spread("target_spread", 0.4)
        oracle.residual("residual", w, frame, 0.7)


def limited(loss: Loss, margins: Vector, y: Vector, allowed: Vector) -> Vector:
    """Return t of each row, shape (rows, K), with norms up to `allowed`, by NumPy; see docs/proofs/adaptive_gd.md."""
    if isinstance(loss, Squared):
        return (margins[:, 0] - y).clip(-allowed, allowed)[:, None]
    if isinstance(loss, BoundedSlope):
        return (loss.slope(margins[:, 0], y) * np.minimum(1, allowed / loss.slope_bound))[:, None]
    if loss.outputs == 1:
        s = 1 / (1 + np.exp(y * margins[:, 0]))
        slopes, longest = (-y * s)[:, None], np.maximum(s, 1 - s)
    else:
        p = np.exp(margins - margins.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        slopes, longest = p - np.eye(loss.outputs)[y.astype(int)], np.sqrt((p**2).sum(axis=1) + 1 - 2 * p.min(axis=1))
    return slopes * np.minimum(1, allowed / longest)[:, None]
