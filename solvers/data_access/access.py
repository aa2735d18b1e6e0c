"""DataAccess: exact values for methods that see data, each of which is reviewed like a mechanism.

Guarantee: fields are private. Only `release` returns a private function of the data, once for each planned
answer and through its mechanism. The answers of one parallel use come from disjoint records, in increasing order.
Each method proves by itself that a value moves by at most the stated bound (docs/proofs/<method>.md).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms.mechanism import AbstractMechanism
from accounting.noise import draws
from accounting.plan import PlannedQuery
from solvers import kernels
from solvers.bounds import Reads, unfolded_rows
from solvers.data_access.data import Data, Slots, Work
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.summed import Summed
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_ROWS_PER_HEARTBEAT = 1024


class DataAccess(AbstractOracle):
    """The data of one problem, and the releases of one plan.

    Parameters as `AbstractOracle`; `on_answer` is also called during long work.
    """

    __slots__ = ("_drawn", "_read", "_spent")

    def _set_up(self) -> None:
        self._drawn = False  # whether the rows are drawn with replacement
        self._read: range | None = None  # smallest range with all records read since the last release
        self._spent: dict[str, int] = {}  # first record that the next part of a parallel query may read

    def mean_gradient(self, rows: range, w: Vector, problem: Problem | None = None) -> Vector:
        """Return the mean of grad f_i(w) over the records with these indices, without noise.

        A method must never return this value.

        Parameters
        ----------
        problem : the data's problem by default, or the same problem with another loss for the same targets
        """
        data = self._seen_by(problem)
        self._read_rows(rows)
        self._meter.pulse()
        k = self._problem.unit.slots
        return gradient_sum(data, slice(k * rows.start, k * rows.stop), w) / (k * len(rows))

    def one_pass(self, rows: range, start: Vector, step: float) -> Vector:
        """Return the mean of w_0 = start, ..., w_(m-1) with w_j = prox(w_(j-1) - step grad F_j(w_(j-1)), step).

        There is one step for each record, in order, and F_j is the mean of the record's k losses. There is no noise, so
        a method must never return this value.
        """
        self._read_rows(rows)
        problem = self._problem
        data = self._local()
        w = start
        total = start.copy()
        loss = problem.compiled
        if loss is None:
            raise Unsuitable("loss: steps of one record need a loss of one margin")
        count, k = min(_ROWS_PER_HEARTBEAT, unfolded_rows(problem.d)), problem.unit.slots
        first, last = k * rows.start, k * (rows.stop - 1)
        moved = np.zeros(problem.d)
        for slot in range(first, last):
            at = (slot - first) % count
            if at == 0:
                self._meter.pulse()
                unfolded = rows_of(data, slice(slot, min(slot + count, last)))
            x = unfolded[at]
            moved += (step / k * kernels.slope(loss, x @ w, data.y[slot])) * x
            if slot % k == k - 1:
                w = problem.prox(w - moved, step)
                total += w
                moved[:] = 0.0
        return total / len(rows)

    def mean_gradients(self, points: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """Raise `OutOfPlan`: only a run that declares tables gets a `TabulatingAccess`, which answers this."""
        raise OutOfPlan("this run is declared without a table of gradients, so it cannot request one")

    def moments(self, limit: float) -> tuple[NDArray[np.float64], Vector]:
        """Return X'X/(n k) and X'y/(n k) of the scaled rows and of the targets clipped to [-limit, limit].

        There is no noise, so a method must never return these values.
        """
        problem = self._problem
        self._read_rows(range(problem.n))
        sums = self._data.total(SecondMoments(limit), pulse=self._meter.pulse) / problem.slots
        return sums[:-1], sums[-1]

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise."""
        return self._meter.plan.query(query)

    def redrawn(self) -> "DataAccess":
        """Replace the records by n of them, drawn in secret, uniformly with replacement, and return this access.

        The records themselves can no longer be read, because a release would then use both them and the drawn ones.

        Raises
        ------
        OutOfPlan
            at a second draw, because the proof is for one run on one draw
        """
        if self._drawn:
            raise OutOfPlan("rows can be drawn only once in a run")
        rows = draws.uniform_indices(self._meter.noise, self._problem.n, self._problem.n)
        data = self._local()
        self._data, self._drawn, self._read = data.drawn(rows), True, None
        return self

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        """Return `value` with the noise of the planned mechanism.

        A neighbor may move the value by 2 `bound` at most (under zero_out by `bound`) in the mechanism's norm: l2
        (Gaussian), l1 (Laplace), or each score (exponential, which returns an index). The mechanism's `source` states
        which records the value must come from: all of them, drawn ones, or those of a part. For a part, the records
        read since the last release must come after those of the query's earlier parts.

        Raises
        ------
        OutOfPlan
            if the plan does not hold this answer, its mechanism has no source, a part of a parallel use would read a
            record again, or the mechanism is for other rows
        """
        mechanism = self.planned(query).mechanism
        source = mechanism.source
        if source is None:
            raise OutOfPlan(f"query {query!r} is planned with another mechanism than this answer uses")
        planned = self._meter.take(query, AbstractMechanism)
        is_fit = mechanism.fits(self._problem.n, self._problem.unit)
        if not is_fit or source.is_drawn != self._drawn or (self._drawn and planned.count != 1):
            raise OutOfPlan(f"query {query!r} is planned for other rows: drawn rows, or the rows of the data")
        if source.is_part:
            begin = self._spent.get(query, 0)
            if planned.count != 1 or self._read is None or self._read.start < begin:
                raise OutOfPlan(f"the parts of query {query!r} must read disjoint records, in increasing order")
            self._spent[query] = self._read.stop
        self._read = None
        return self._meter.answer(planned, value, bound)

    def _read_rows(self, rows: range) -> None:
        """Record that these records are read; raise `Unsuitable` unless they are a non-empty range of the data."""
        if rows.step != 1 or not 0 <= rows.start < rows.stop <= self._problem.n:
            raise Unsuitable("rows must be a non-empty range of record indices")
        earlier = self._read or rows
        self._read = range(min(earlier.start, rows.start), max(earlier.stop, rows.stop))

    def _local(self) -> Data:
        """Return the records, which must be in this memory."""
        if not isinstance(self._data, Data):
            raise Unsuitable("this method needs all rows on one machine. Keep the dataset on one")
        return self._data

    def _seen_by(self, problem: Problem | None) -> Summed:
        """Return the data for the same problem with another loss. Raise `Unsuitable` if anything else differs."""
        if problem is None or problem == self._problem:
            return self._data
        mine = self._problem
        if replace(problem, loss=mine.loss) != mine or problem.loss.takes != mine.loss.takes:
            raise Unsuitable("the data were prepared for another problem")
        return self._data.seen_by(problem)


@dataclass(frozen=True, slots=True)
class SecondMoments(Work):
    """The sum X'X, with X'y in a last row, the targets clipped to [-limit, limit]: (d + 1, d)."""

    reads: ClassVar[Reads] = "rows"

    limit: float

    def sum(self, data: Data, rows: Slots) -> NDArray[np.float64]:
        """Return the sum over a piece."""
        X = rows_of(data, rows)
        return np.vstack((X.T @ X, X.T @ np.clip(data.y[rows], -self.limit, self.limit)))
