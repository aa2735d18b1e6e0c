"""The inverse sensitivity of a median, smoothed."""

from collections.abc import Sequence


def least_slope(targets: Sequence[float], x: float, radius: float, low: float, high: float) -> float:
    """min |f'(t)| over |t - x| <= radius, t in [low, high], of f(t) = mean |t - s|, whose slope only rises with t."""

    def slope(t: float) -> float:
        return (sum(s < t for s in targets) - sum(s > t for s in targets)) / len(targets)

    left_slope, right_slope = slope(max(x - radius, low)), slope(min(x + radius, high))
    return left_slope if left_slope > 0 else -right_slope if right_slope < 0 else 0.0
