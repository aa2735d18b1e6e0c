"""ScoreOracle: how well a released model does on the rows, one Gaussian answer.

Promise: a record adds a number in [-1/2, 1/2], a function of that record and of w alone; a record that is not there
adds 0. Proof: docs/proofs/tunings.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan
from solvers import kernels
from solvers.data_access.data import Data, listed
from solvers.data_access.meter import Meter
from solvers.data_access.summed import Places, Work
from solvers.data_access.sums import reach
from solvers.problem import Problem, Vector

BOUND = 0.5
_STEPS = 2**16  # in which a row's score is counted: its sums are whole numbers below 2^53


class ScoreOracle:
    """Noisy mean scores of models on all rows.

    Parameters
    ----------
    problem, data, plan, noise : as `FullBatchOracle`
    """

    __slots__ = ("__data", "__meter", "__problem")

    def __init__(self, problem: Problem, data: Data, plan: Plan, noise: Noise) -> None:
        self.__problem, self.__data = problem, data
        self.__meter = Meter(plan, noise, relation=problem.relation)

    def score(self, query: str, w: Vector) -> float:
        """The mean over records of the score + noise, about in [-1/2, 1/2].

        A row's is 1/2 where its class is told right, -1/2 where it is not; of a number 1/2 less how far off its code is
        told, at most 1. A person's is the mean over the k places.

        Parameters
        ----------
        w : (size,), as released, in the coordinates of rows as declared
        """
        reach(self.__problem, w)
        planned, k = self.__meter.take(query, Gaussian), self.__problem.unit.slots
        total = float(self.__data.total(Scores(w))) / (2 * _STEPS)  # exactly; by k after the noise
        return float(self.__meter.answer(planned, np.array([total]), k * BOUND)[0]) / (k * self.__problem.n)


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Work):
    """The sum of the rows' scores, each in twice so many steps."""

    w: Vector

    def on(self, data: Data) -> Callable[[Places], NDArray[Any]]:
        """In a piece."""
        points = np.ascontiguousarray(self.w.reshape(data.problem.outputs, data.problem.d))

        def added(rows: Places) -> NDArray[Any]:
            places = listed(rows)
            y, scale = data.y[places], data.scale[places]
            margins = np.stack([kernels.margins_of(data.records, point, places) for point in points]) * scale
            return np.array(np.sum(_scored(data.problem, margins, y) * (scale > 0), dtype=np.int64))

        return added


def _scored(problem: Problem, margins: Vector, y: Vector) -> NDArray[np.int64]:
    """Of each row, in [-_STEPS, _STEPS]."""
    if problem.loss.takes == "number":
        steps = np.rint(_STEPS * (1 - 2 * np.minimum(np.abs(margins[0] - y), 1.0)))
        return np.asarray(steps.astype(np.int64))
    right = margins.argmax(axis=0) == y if problem.outputs > 1 else (margins[0] > 0) == (y > 0)
    return np.asarray(np.where(right, _STEPS, -_STEPS))
