"""ScoreOracle: private scores of released models, one Gaussian answer each.

Guarantee: a record adds a number in [-1/2, 1/2] that depends only on the record and on w; a null record adds 0.
Proof: docs/proofs/tunings.md.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from solvers import kernels
from solvers.data_access.data import Data, Slots, Work, listed
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.sums import checked_norm
from solvers.problem import Problem, Vector

BOUND = 0.5
_STEPS = 2**16  # units of a row's score, so that sums are whole numbers below 2^53


class ScoreOracle(AbstractOracle):
    """Private mean scores of models on all rows."""

    __slots__ = ()

    def score(self, query: str, w: Vector) -> float:
        """Return the mean over records of the score + noise, about in [-1/2, 1/2].

        The score of a row is 1/2 if its class is predicted correctly, otherwise -1/2. For a number, it is 1/2 minus the
        error of the predicted code, at most 1. The score of a person is the mean over the k slots.

        Parameters
        ----------
        w : released coefficients in the coordinates of rows as declared, (size,)
        """
        checked_norm(self._problem, w)
        planned, k = self._meter.take(query, Gaussian), self._problem.unit.slots
        total = float(self._data.total(Scores(w))) / (2 * _STEPS)  # exact; divided by k after the noise
        return float(self._meter.answer(planned, np.array([total]), k * BOUND)[0]) / (k * self._problem.n)


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Work):
    """The sum of the rows' scores, in units of 1 / (2 _STEPS)."""

    w: Vector

    def sum(self, data: Data, rows: Slots) -> NDArray[Any]:
        """Return the sum over a piece."""
        points = np.ascontiguousarray(self.w.reshape(data.problem.outputs, data.problem.d))
        slots = listed(rows)
        y, scale = data.y[slots], data.scale[slots]
        margins = np.stack([kernels.margins_of(data.records, point, slots) for point in points]) * scale
        return np.array(np.sum(_scored(data.problem, margins, y) * (scale > 0), dtype=np.int64))


def _scored(problem: Problem, margins: Vector, y: Vector) -> NDArray[np.int64]:
    """Return the score of each row, in [-_STEPS, _STEPS]."""
    if problem.loss.takes == "number":
        steps = np.rint(_STEPS * (1 - 2 * np.minimum(np.abs(margins[0] - y), 1.0)))
        return np.asarray(steps.astype(np.int64))
    is_correct = margins.argmax(axis=0) == y if problem.outputs > 1 else (margins[0] > 0) == (y > 0)
    return np.asarray(np.where(is_correct, _STEPS, -_STEPS))
