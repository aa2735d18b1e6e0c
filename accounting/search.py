"""The largest total that stays within a target, found with few evaluations of an expensive function."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
"""x = ln total, and f = ln(spent / target) at that total."""

_TYPICAL_SLOPE = 0.6  # of ln epsilon over ln mu^2, about, at the epsilons of interest
_STEEPEST_SLOPE, _FLATTEST_SLOPE = 10.0, 0.1
_LARGEST_BEND = 0.5  # share of a step along the slope that the curvature may add or remove
_LONGEST_STEP, _STEP_WITHOUT_SLOPE = 3.0, 1.4  # of x
_MOST_ROUNDS = 24
_NARROWEST_BRACKET = 1e-6  # of x; a narrower bracket is not halved
_STALLED_ROUNDS = 2  # after so many rounds that did not halve the bracket, it is halved
_EDGE_SHARE = 1e-3  # of the bracket: no point nearer to an end is evaluated


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    Parameters
    ----------
    total : within the target, or near it for a rough search; 0 if there is none
    points : evaluated points with a finite f, by their distance from the total, the nearest last. A single point is
        preceded by the hints, shifted as by `_moved`
    """

    total: float
    points: tuple[Point, ...]


def largest(
    share: Callable[[float], float], guess: float, tolerance: float, hints: Sequence[Point] = (), rough: bool = False
) -> SearchResult:
    """Return a total with share(total) <= 1, and within `tolerance` of 1 unless the share jumps there.

    The search finds a root of f over x, which grows but may jump. It uses inverse interpolation through the last three
    points, inside the bracket once there is one, and halves the bracket if that is slow.

    Parameters
    ----------
    share : spent over target at a total; grows with it, and may be 0 or infinite
    guess : the first total
    tolerance : relative
    hints : points of another share, as `SearchResult` has them, the last one at the guess. The search begins where that
        share reaches the aim, and assumes that this share differs from it by a constant factor.
    rough : accept a total that is above the target by half of the tolerance
    """
    lowest = math.log1p(-tolerance / 2) if rough else math.log1p(-tolerance)
    highest = math.log1p(tolerance / 2) if rough else 0.0
    aim = (lowest + highest) / 2
    x = math.log(guess) + (_step(hints, aim) if hints else 0.0)
    low, high, width, stalled, own = (-math.inf, math.nan), (math.inf, math.nan), math.inf, 0, list[Point]()
    for _ in range(_MOST_ROUNDS):
        f = _log(share(math.exp(x)))
        low, high = ((x, f), high) if f <= 0 else (low, (x, f))
        if math.isfinite(f):
            own.append((x, f))
        if lowest <= f <= highest or high[0] - low[0] < _NARROWEST_BRACKET:
            low = (x, f) if f <= highest else low
            break
        stalled = stalled + 1 if high[0] - low[0] > width / 2 else 0
        width = high[0] - low[0]
        if math.isfinite(f):
            x += _step([*_moved(hints, own, aim), *own], aim)
        else:
            x -= math.copysign(_STEP_WITHOUT_SLOPE, f)
        if math.isfinite(width):
            if stalled >= _STALLED_ROUNDS or not math.isfinite(low[1] + high[1]):
                x, stalled = (low[0] + high[0]) / 2, 0
            elif not low[0] + _EDGE_SHARE * width <= x <= high[0] - _EDGE_SHARE * width:
                x = low[0] + width * min(max((aim - low[1]) / (high[1] - low[1]), _EDGE_SHARE), 1 - _EDGE_SHARE)
    points = sorted(own, key=lambda point: -abs(point[0] - low[0]))
    return SearchResult(math.exp(low[0]), (*_moved(hints, own, aim), *points))


def _log(share: float) -> float:
    return math.log(share) if 0 < share < math.inf else (-math.inf if share == 0 else math.inf)


def _moved(hints: Sequence[Point], own: Sequence[Point], aim: float) -> list[Point]:
    """Return the hints, shifted in f to lead through the only own point; empty if there is not exactly one."""
    return [(x, f + own[0][1] - aim) for x, f in hints] if len(own) == 1 else []


def _step(points: Sequence[Point], aim: float) -> float:
    """Return the step from the last point to where a parabola through the last three, or a line, reaches the aim."""
    missing, step = aim - points[-1][1], (aim - points[-1][1]) / _TYPICAL_SLOPE
    if len(points) > 1:
        inverse = _inverse_slope(points[-2], points[-1])
        step = missing * inverse
        if len(points) > 2 and points[-1][1] != points[-3][1]:
            bend = (inverse - _inverse_slope(points[-3], points[-2])) / (points[-1][1] - points[-3][1])
            limit = _LARGEST_BEND * abs(step)
            step += min(max(bend * missing * (aim - points[-2][1]), -limit), limit)
    return min(max(step, -_LONGEST_STEP), _LONGEST_STEP)


def _inverse_slope(a: Point, b: Point) -> float:
    """Return dx / df between two points, clipped."""
    slope = (b[0] - a[0]) / (b[1] - a[1]) if b[1] != a[1] else math.inf
    return min(max(slope, 1 / _STEEPEST_SLOPE), 1 / _FLATTEST_SLOPE)
