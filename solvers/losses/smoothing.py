"""Smooth forms of losses that are not smooth, and their distance from the loss.

An envelope keeps convexity and the slope bound S. Its curvature is at most about 1/h. It differs from the loss by at
most `bias`: h S^2 / 2 for the Moreau envelopes of the piecewise linear losses, (1 - k/2) h^k for a power.
"""

from dataclasses import replace

from solvers.errors import Unsuitable
from solvers.losses import Absolute, Hinge, Huber, HuberHinge, Loss, Power, Quantile

SMOOTHING_RANGE = (1e-4, 100.0)  # of every smoothed loss


def smoothed(loss: Loss, smoothing: float) -> Loss:
    """Return the loss if it is smooth, else its smooth form with h = `smoothing`, clipped to the range of h.

    Raises
    ------
    Unsuitable
        if the loss has no smooth form.
    """
    if loss.curvature_bound < float("inf"):
        return loss
    h = min(max(smoothing, SMOOTHING_RANGE[0]), SMOOTHING_RANGE[1])
    match loss:
        case Hinge():
            return HuberHinge(h)
        case Absolute():
            return Huber(h)
        case Quantile():
            return replace(loss, smoothing=h)
        case Power():
            return replace(loss, smoothing=min(h, loss.residual_bound))
    raise Unsuitable(f"{loss.name} has no smooth form, which this method needs. Use a smooth loss")


def bias(loss: Loss, smooth: Loss) -> float:
    """Return the largest |f - f_h| over m and y."""
    if loss == smooth:
        return 0.0
    if isinstance(smooth, Power):
        return float((1 - smooth.exponent / 2) * smooth.smoothing**smooth.exponent)
    return loss.slope_bound**2 / (2 * smooth.curvature_bound)
