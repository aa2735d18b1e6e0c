"""Sums of gradients that are rounded first, so that no order of adding shows: for a choice among points."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import Reads
from solvers.data_access.data import Data
from solvers.data_access.summed import Slots, Summed, Work
from solvers.data_access.unfolded import rows_of
from solvers.problem import Problem
from solvers.rounded import lattice_bits

_TOGETHER = 64  # points between two heartbeats


def lattice_mean_gradients(data: Summed, points: NDArray[np.float64], pulse: Callable[[], None]) -> NDArray[np.float64]:
    """The mean of grad f_i at each point, (m, d), every record's gradient first rounded to the lattice of G 2^-k.

    The rounded gradients are integers, summed without error: the mean is one record's function plus one that does not
    know it, bit for bit, whatever the order. For few coordinates; elementwise, so that no record's margin is touched by
    another's.
    """
    problem = data.problem
    some = (points[j : j + _TOGETHER] for j in range(0, len(points), _TOGETHER))
    totals = np.concatenate([data.total(Rounded(part, lattice_bits(problem)), pulse=pulse) for part in some])
    means: NDArray[np.float64] = totals.astype(np.float64) * (_unit(problem, lattice_bits(problem)) / problem.slots)
    return means


@dataclass(frozen=True, slots=True, eq=False)
class Rounded(Work):
    """Of records' gradients in units of G 2^-bits, rounded, at each point: int64, (m, d)."""

    reads: ClassVar[Reads] = "rows"

    points: NDArray[np.float64]
    bits: int

    def on(self, data: Data) -> Callable[[Slots], NDArray[np.int64]]:
        """Over a piece."""
        problem, unit, bound = data.problem, _unit(data.problem, self.bits), data.problem.slope_bound

        def work(rows: Slots) -> NDArray[np.int64]:
            columns, y = rows_of(data, rows).T.copy(), data.y[rows]
            total = np.zeros(self.points.shape, dtype=np.int64)
            for j, w in enumerate(self.points):
                margins = columns[0] * w[0]
                for column, coordinate in zip(columns[1:], w[1:], strict=True):
                    margins += column * coordinate
                slopes = np.clip(problem.loss.slope(margins, y), -bound, bound)
                total[j] = np.rint(columns * slopes / unit).sum(axis=1).astype(np.int64)
            return total

        return work


def _unit(problem: Problem, bits: int) -> float:
    return problem.G * 2.0**-bits
