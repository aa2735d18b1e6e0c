"""Sums of gradients that are rounded first, so that no order of adding shows: for a choice among points."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import lattice_bits
from solvers.data_access.data import Data
from solvers.data_access.rows import cut
from solvers.data_access.unfolded import rows_of

_PULSE = 64  # points between two heartbeats


def lattice_mean_gradients(data: Data, points: NDArray[np.float64], pulse: Callable[[], None]) -> NDArray[np.float64]:
    """The mean of grad f_i at each point, (m, d), every record's gradient first rounded to the lattice of G 2^-k.

    The rounded gradients are integers, summed without error: the mean is one record's function plus one that does not
    know it, bit for bit, whatever the order. For few coordinates; elementwise, so that no record's margin is touched by
    another's.
    """
    problem, total = data.problem, np.zeros(points.shape, dtype=np.int64)
    unit, bound = problem.G * 2.0 ** -lattice_bits(problem), problem.slope_bound
    for block in cut(problem.places, problem.d):
        columns, y = rows_of(data, block).T.copy(), data.y[block]
        for j, w in enumerate(points):
            if j % _PULSE == 0:
                pulse()
            margins = columns[0] * w[0]
            for column, coordinate in zip(columns[1:], w[1:], strict=True):
                margins += column * coordinate
            slopes = np.clip(problem.loss.slope(margins, y), -bound, bound)
            total[j] += np.rint(columns * slopes / unit).sum(axis=1).astype(np.int64)
    means: NDArray[np.float64] = total.astype(np.float64) * (unit / problem.places)
    return means
