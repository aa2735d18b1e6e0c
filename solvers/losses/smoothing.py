"""Smooth forms of losses that are not smooth, and their distance from the loss.

An envelope keeps convexity and the slope bound S. Its curvature is at most about 1/h. It differs from the loss by at
most `bias`: h S^2 / 2 for the Moreau envelopes of the piecewise linear losses, (1 - k/2) h^k for a power.
"""

from dataclasses import dataclass, replace

from solvers.errors import Unsuitable
from solvers.losses import Absolute, Hinge, Huber, HuberHinge, Loss, Power, Quantile

_SMALLEST, _LARGEST = 1e-4, 100.0  # h of every smoothed loss

BoundedSlope = Absolute | Huber | Quantile | Hinge | HuberHinge
"""Losses whose slope is bounded and rises along one straight line, or jumps."""


def smoothed(loss: Loss, smoothing: float) -> Loss:
    """Return the loss if it is smooth, else its smooth form with h = `smoothing`, clipped to the range of h.

    Raises
    ------
    Unsuitable
        if the loss has no smooth form.
    """
    if loss.curvature_bound < float("inf"):
        return loss
    if isinstance(loss, BoundedSlope):
        return at_least(loss, smoothing)
    if isinstance(loss, Power):
        return replace(loss, smoothing=min(in_range(smoothing), loss.residual_bound))
    raise Unsuitable(f"{loss.name} has no smooth form, which this method needs. Use a smooth loss")


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A smooth loss whose slope is taken at the margin `factor` m + `shift`.

    The smooth loss rises along a line of which the loss has a kink. Factor and shift move the center of the line to the
    kink. The slope at m is then the mean of f'(m + u) over |u| <= W/2, so it belongs to the mean of f(m + u). That mean
    exceeds f by at most W/8 times the jump of the slope, and is equal to f outside of the window.

    Parameters
    ----------
    loss : the smooth loss
    curvature : the largest curvature of the mean, the jump over W
    factor, shift : of the margin
    """

    loss: Huber | HuberHinge | Quantile
    curvature: float
    factor: float = 1.0
    shift: float = 0.0


def surrogate(loss: BoundedSlope, smoothing: float) -> Surrogate:
    """Return a form of the loss with at least this smoothing; the loss itself if it is as smooth already."""
    own = getattr(loss, "smoothing", 0.0)
    smooth = at_least(loss, smoothing)
    h = smooth.smoothing
    factor, shift = 1.0, 0.0
    if isinstance(smooth, HuberHinge):  # the line of the loss is centered at y m = 1 - h/2
        factor = (1 - h / 2) / (1 - own / 2) if own < h else 1.0
    elif isinstance(smooth, Quantile):  # the line of the loss is centered at m - y = (1/2 - q) h
        shift = (0.5 - smooth.level) * (h - own)
    return Surrogate(smooth, factor / h, factor, shift)


def at_least(loss: BoundedSlope, smoothing: float) -> Huber | HuberHinge | Quantile:
    """Return the smooth form of a loss with at least this smoothing; a smoother loss is returned unchanged."""
    h = max(getattr(loss, "smoothing", 0.0), in_range(smoothing))
    match loss:
        case Hinge() | HuberHinge():
            return HuberHinge(h)
        case Absolute() | Huber():
            return Huber(h)
    return replace(loss, smoothing=h)


def in_range(smoothing: float) -> float:
    """Return h, clipped to the range in which losses are smoothed."""
    return min(max(smoothing, _SMALLEST), _LARGEST)


def bias(loss: Loss, smooth: Loss) -> float:
    """Return the largest |f - f_h| over m and y."""
    if loss == smooth:
        return 0.0
    if isinstance(smooth, Power):
        return float((1 - smooth.exponent / 2) * smooth.smoothing**smooth.exponent)
    return loss.slope_bound**2 / (2 * smooth.curvature_bound)
