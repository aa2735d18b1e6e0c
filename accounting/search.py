"""The largest total that stays within a target, by few evaluations of what is dear to evaluate."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
"""x = ln total, and f = ln of what is spent there over the target."""

_SLOPE = 0.6  # about by how much ln epsilon grows with ln mu^2 at the epsilons of interest
_STEEPEST, _FLATTEST = 10.0, 0.1
_BEND = 0.5  # of a step along the slope, the most that a bend may add or take away
_LONGEST, _BLIND = 3.0, 1.4  # steps of x: the longest, and where there is no slope to go by
_ROUNDS = 24
_NARROW = 1e-6  # a bracket of x not worth halving
_STALLED = 2  # rounds that have not halved the bracket, after which it is halved
_EDGE = 1e-3  # of the bracket, nearer than which to an end is no place to look


@dataclass(frozen=True, slots=True)
class Found:
    """A total within the target, or near it, 0 if there is none; and the points where it was looked for and the spent
    was finite, those nearest to it last: before them what was known of another share, moved to this one's.
    """

    total: float
    points: tuple[Point, ...]


def largest(
    share: Callable[[float], float], guess: float, close: float, like: Sequence[Point] = (), rough: bool = False
) -> Found:
    """A total with share(total) <= 1, and within `close` of 1 unless it jumps there.

    Root finding on f over x, which grows but may jump: by inverse interpolation through the last three points; once
    there is a bracket within it, and halving it where that goes slowly.

    Parameters
    ----------
    share : what is spent at a total over what may be; grows; 0 and infinity are fine
    like : points of another share, as `Found` has them, the last one at the guess: the search begins where that share
        has the aim, and takes this one to miss it by a factor
    rough : where the search only looks for a place to begin: a total that is over by half of `close` will do
    """
    least, most = (math.log1p(-close), 0.0) if not rough else (math.log1p(-close / 2), math.log1p(close / 2))
    aim = (least + most) / 2
    x = math.log(guess) + (_step(like, aim) if like else 0.0)
    low, high, width, stalled, own = (-math.inf, math.nan), (math.inf, math.nan), math.inf, 0, list[Point]()
    for _ in range(_ROUNDS):
        f = _log(share(math.exp(x)))
        low, high = ((x, f), high) if f <= 0 else (low, (x, f))
        if math.isfinite(f):
            own.append((x, f))
        if least <= f <= most or high[0] - low[0] < _NARROW:
            low = (x, f) if f <= most else low
            break
        stalled = stalled + 1 if high[0] - low[0] > width / 2 else 0
        width = high[0] - low[0]
        x += _step([*_moved(like, own, aim), *own], aim) if math.isfinite(f) else -math.copysign(_BLIND, f)
        if math.isfinite(width):
            if stalled >= _STALLED or not math.isfinite(low[1] + high[1]):
                x, stalled = (low[0] + high[0]) / 2, 0
            elif not low[0] + _EDGE * width <= x <= high[0] - _EDGE * width:
                x = low[0] + width * min(max((aim - low[1]) / (high[1] - low[1]), _EDGE), 1 - _EDGE)
    points = sorted(own, key=lambda point: -abs(point[0] - low[0]))
    return Found(math.exp(low[0]), (*_moved(like, own, aim), *points))


def _log(share: float) -> float:
    return math.log(share) if 0 < share < math.inf else (-math.inf if share == 0 else math.inf)


def _moved(like: Sequence[Point], own: Sequence[Point], aim: float) -> list[Point]:
    """The other share's points, moved by what lies between the two at the first of our own, where it has the aim; none
    where two of our own have a slope.
    """
    return [(x, f + own[0][1] - aim) for x, f in like] if len(own) == 1 else []


def _step(points: Sequence[Point], aim: float) -> float:
    """From the last point to where a parabola through the last three has the aim; by the slope where they are fewer."""
    missing, step = aim - points[-1][1], (aim - points[-1][1]) / _SLOPE
    if len(points) > 1:
        inverse = _inverse(points[-2], points[-1])
        step = missing * inverse
        if len(points) > 2 and points[-1][1] != points[-3][1]:
            bend = (inverse - _inverse(points[-3], points[-2])) / (points[-1][1] - points[-3][1])
            step += min(max(bend * missing * (aim - points[-2][1]), -_BEND * abs(step)), _BEND * abs(step))
    return min(max(step, -_LONGEST), _LONGEST)


def _inverse(a: Point, b: Point) -> float:
    """dx / df, within reason."""
    return min(max((b[0] - a[0]) / (b[1] - a[1]) if b[1] != a[1] else math.inf, 1 / _STEEPEST), 1 / _FLATTEST)
