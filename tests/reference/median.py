"""The inverse sensitivity of a median, smoothed."""

from collections.abc import Sequence


def least_slope(targets: Sequence[float], x: float, radius: float, low: float, high: float) -> float:
    """min |f'(t)| over |t - x| <= radius, t in [low, high], of f(t) = mean |t - s|, whose slope only rises with t."""

    def slope(t: float) -> float:
        return (sum(s < t for s in targets) - sum(s > t for s in targets)) / len(targets)

    left, right = slope(max(x - radius, low)), slope(min(x + radius, high))
    return left if left > 0 else -right if right < 0 else 0.0
