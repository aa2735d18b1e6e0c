"""A smooth curve through points, for a search. It is not a bound, and no certificate depends on it."""

from bisect import bisect
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def spline(x: Sequence[float], y: Sequence[float]) -> Callable[[float], float]:
    """Return the cubic spline through the points, or the polygon if there are fewer than four.

    x ascends. The third derivative is continuous at the points next to both ends.
    """
    h = np.diff(x)
    count = len(x)
    slopes = np.diff(y) / h
    bends: NDArray[np.float64] = np.zeros(count)
    if count > 3:
        system = np.eye(count)
        right = np.zeros(count)
        for i in range(1, count - 1):
            system[i, i - 1 : i + 2] = h[i - 1], 2 * (h[i - 1] + h[i]), h[i]
            right[i] = 6 * (slopes[i] - slopes[i - 1])
        system[0, :3] = h[1], -h[0] - h[1], h[0]
        system[-1, -3:] = h[-1], -h[-1] - h[-2], h[-2]
        bends = np.asarray(np.linalg.solve(system, right), dtype=np.float64)
    starts = slopes - h * (2 * bends[:-1] + bends[1:]) / 6
    thirds = np.diff(bends) / (6 * h)
    pieces: list[list[float]] = np.transpose([x[:-1], y[:-1], starts, bends[:-1] / 2, thirds]).tolist()

    def at(t: float) -> float:
        start, value, slope, bend, third = pieces[min(max(bisect(x, t) - 1, 0), count - 2)]
        s = t - start
        return value + s * (slope + s * (bend + s * third))

    return at
