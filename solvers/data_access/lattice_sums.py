"""Exact sums of rounded gradients for a choice among points; the order of addition does not matter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import Reads
from solvers.data_access.access import DataAccess
from solvers.data_access.data import Data, Slots, Work
from solvers.data_access.summed import Summed
from solvers.data_access.unfolded import rows_of
from solvers.problem import Problem
from solvers.rounded import lattice_bits

_POINTS_PER_HEARTBEAT = 64


class TabulatingAccess(DataAccess):
    """A data access that also returns gradients at many points."""

    __slots__ = ()

    def mean_gradients(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of grad f_i over all records at each point, (m, d), each rounded to a lattice first.

        There is no noise, so a method must never return this value.
        """
        self._read_rows(range(self._problem.n))
        return lattice_mean_gradients(self._data, points, self._meter.pulse)


def lattice_mean_gradients(data: Summed, points: NDArray[np.float64], pulse: Callable[[], None]) -> NDArray[np.float64]:
    """Return the mean of grad f_i at each point, (m, d), with every gradient rounded to the lattice of G 2^-k first.

    Rounded gradients are integers, which are added without error. So the mean is a function of one record plus a
    function of all others, bit for bit, in any order. Margins are computed elementwise, so no record affects the margin
    of another. Use it for few coordinates only.
    """
    problem = data.problem
    parts = (points[j : j + _POINTS_PER_HEARTBEAT] for j in range(0, len(points), _POINTS_PER_HEARTBEAT))
    totals = np.concatenate([data.total(Rounded(part, lattice_bits(problem)), pulse=pulse) for part in parts])
    means: NDArray[np.float64] = totals.astype(np.float64) * (_unit(problem, lattice_bits(problem)) / problem.slots)
    return means


@dataclass(frozen=True, slots=True, eq=False)
class Rounded(Work):
    """The sum of gradients at each point, rounded to integers in units of G 2^-bits: int64, (m, d)."""

    reads: ClassVar[Reads] = "rows"

    points: NDArray[np.float64]
    bits: int

    def sum(self, data: Data, rows: Slots) -> NDArray[np.int64]:
        """Return the sum over a piece."""
        problem, unit, bound = data.problem, _unit(data.problem, self.bits), data.problem.slope_bound
        columns, y = rows_of(data, rows).T.copy(), data.y[rows]
        total = np.zeros(self.points.shape, dtype=np.int64)
        for j, w in enumerate(self.points):
            margins = columns[0] * w[0]
            for column, coordinate in zip(columns[1:], w[1:], strict=True):
                margins += column * coordinate
            slopes = np.clip(problem.loss.slope(margins, y), -bound, bound)
            total[j] = np.rint(columns * slopes / unit).sum(axis=1).astype(np.int64)
        return total


def _unit(problem: Problem, bits: int) -> float:
    return problem.G * 2.0**-bits
