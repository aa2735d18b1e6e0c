"""DataAccess: what a method that sees data may do with it; each such method is reviewed like a mechanism.

Promise: fields are private to the class, and only `release` lets a function of the data out, once for each planned
answer, through its mechanism; the answers of one parallel use come from disjoint positions, in increasing order.
That the value moves by at most the stated bound is each method's own proof (docs/proofs/<method>.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import Exponential, Gaussian, Laplace, Parallel, PerturbedObjective, Resampled
from accounting.noise import Noise, draws
from accounting.plan import Plan, PlannedQuery
from solvers import kernels
from solvers.bounds import Reads, unfolded_rows
from solvers.data_access.data import Data
from solvers.data_access.meter import Meter
from solvers.data_access.summed import Places, Summed, Work
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_RELEASED = Exponential | Gaussian | Laplace | Parallel | PerturbedObjective | Resampled  # none hides by sampling
_PULSE = 1024  # rows of a pass between two heartbeats

Rounded = Callable[[Summed, NDArray[np.float64], Callable[[], None]], NDArray[np.float64]]


class DataAccess:
    """The data of one problem, and one plan's releases.

    Parameters
    ----------
    problem, data : the data must be `inputs.of_arrays(..., problem)`
    plan : what may be released
    noise : the randomness
    on_answer : called with the number of releases so far, after each and during long work; may raise to stop the run
    rounded : `lattice_sums.lattice_mean_gradients`, handed to the runs that ask for them alone
    """

    __slots__ = ("__data", "__drawn", "__meter", "__problem", "__read", "__rounded", "__spent")

    def __init__(
        self,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
        rounded: Rounded | None = None,
    ) -> None:
        if data.problem != problem:
            raise Unsuitable("the data were prepared for another problem")
        self.__problem, self.__data, self.__meter = problem, data, Meter(plan, noise, on_answer, problem.relation)
        self.__rounded = rounded
        self.__drawn = False  # whether the rows are drawn with replacement, or have been
        self.__read: range | None = None  # the least range around all positions read since the last release
        self.__spent: dict[str, int] = {}  # where the positions of a parallel query's next part may begin

    def mean_gradient(self, rows: range, w: Vector, problem: Problem | None = None) -> Vector:
        """The mean of grad f_i(w) over the positions, without noise: never to be returned by a method.

        Parameters
        ----------
        problem : the same but for its loss, which takes the same targets; the data's own if None
        """
        data = self.__seen_by(problem)
        self.__reads(rows)
        self.__meter.pulse()
        k = self.__problem.unit.slots
        return gradient_sum(data, slice(k * rows.start, k * rows.stop), w) / (k * len(rows))

    def one_pass(self, rows: range, start: Vector, step: float) -> Vector:
        """The mean of w_0 = start, .., w_(m-1), w_j = prox(w_(j-1) - step grad F_j(w_(j-1)), step), a step a position,
        F_j the mean of its record's k losses; in order; without noise: never to be returned by a method.
        """
        self.__reads(rows)
        problem, data, w, total = self.__problem, self.__here(), start, start.copy()
        loss = problem.compiled
        if loss is None:
            raise Unsuitable("one record a step needs a loss of one margin")
        few, k = min(_PULSE, unfolded_rows(problem.d)), problem.unit.slots
        first, last = k * rows.start, k * (rows.stop - 1)
        moved = np.zeros(problem.d)
        for place in range(first, last):
            if (at := (place - first) % few) == 0:
                self.__meter.pulse()
                unfolded = rows_of(data, slice(place, min(place + few, last)))
            x = unfolded[at]
            moved += (step / k * kernels.slope(loss, x @ w, data.y[place])) * x
            if place % k == k - 1:
                w = problem.prox(w - moved, step)
                total += w
                moved[:] = 0.0
        return total / len(rows)

    def mean_gradients(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of grad f_i over all records at each point, (m, d), every row's first rounded to a lattice; without
        noise: never to be returned by a method.
        """
        if self.__rounded is None:
            raise OutOfPlan("this run asks for no table of gradients")
        self.__reads(range(self.__problem.n))
        return self.__rounded(self.__data, points, self.__meter.pulse)

    def moments(self, limit: float) -> tuple[NDArray[np.float64], Vector]:
        """X'X/(n k) and X'y/(n k) of the scaled rows and the targets clipped to [-limit, limit], without noise: never
        to be returned by a method.
        """
        problem = self.__problem
        self.__reads(range(problem.n))
        sums = self.__data.total(SecondMoments(limit), pulse=self.__meter.pulse) / problem.places
        return sums[:-1], sums[-1]

    def planned(self, query: str) -> PlannedQuery:
        """The query with its noise, as planned."""
        return self.__meter.plan.query(query)

    def redrawn(self) -> "DataAccess":
        """An access to n rows drawn from these, uniformly with replacement, secret, in memory; once a run.

        Raises
        ------
        OutOfPlan
            at a second draw: the proof is for one run on one draw.
        """
        if self.__drawn:
            raise OutOfPlan("rows are drawn once in a run")
        rows, data = draws.uniform_indices(self.__meter.noise, self.__problem.n, self.__problem.n), self.__here()
        access = DataAccess(self.__problem, data, self.__meter.plan, self.__meter.noise)
        access.__data = data.drawn(rows)
        access.__meter = self.__meter
        access.__drawn = self.__drawn = True
        return access

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        """`value` made private by the planned mechanism; a neighbor may move it by 2 `bound` at most, under zero_out by
        `bound`, in the mechanism's norm: l2 (Gaussian), l1 (Laplace), or each score (exponential, which answers a
        position).

        Where the mechanism is `Parallel`, the positions read since the last release must come after those of the
        query's earlier parts; where it is `Resampled`, the rows must be drawn ones.

        Raises
        ------
        OutOfPlan
            if the plan does not hold this answer, or its mechanism draws records or hides steps; if a part of a
            parallel use would read a position again, or the rows are not those that the mechanism is for.
        """
        planned = self.__meter.take(query, _RELEASED)
        mechanism = planned.mechanism
        if isinstance(mechanism, Resampled) != self.__drawn or (self.__drawn and planned.count != 1):
            raise OutOfPlan(f"query {query!r} is planned for other rows: drawn ones, or those of the data")
        within = mechanism.each if isinstance(mechanism, Resampled) else mechanism
        if isinstance(within, Parallel):
            begin = self.__spent.get(query, 0)
            if planned.count != 1 or self.__read is None or self.__read.start < begin:
                raise OutOfPlan(f"the parts of query {query!r} must read disjoint positions, in increasing order")
            self.__spent[query] = self.__read.stop
        self.__read = None
        return self.__meter.answer(planned, value, bound)

    def transcript(self) -> Plan:
        """What was really released."""
        return self.__meter.transcript()

    def __reads(self, rows: range) -> None:
        if rows.step != 1 or not 0 <= rows.start < rows.stop <= self.__problem.n:
            raise Unsuitable("positions are a non-empty range of the data's")
        seen = self.__read or rows
        self.__read = range(min(seen.start, rows.start), max(seen.stop, rows.stop))

    def __here(self) -> Data:
        """The records themselves."""
        if not isinstance(self.__data, Data):
            raise Unsuitable("this needs all rows on one machine")
        return self.__data

    def __seen_by(self, problem: Problem | None) -> Summed:
        """The data as another loss sees them."""
        if problem is None or problem == self.__problem:
            return self.__data
        mine = self.__problem
        if replace(problem, loss=mine.loss) != mine or problem.loss.takes != mine.loss.takes:
            raise Unsuitable("the data were prepared for another problem")
        return self.__data.seen_by(problem)


@dataclass(frozen=True, slots=True)
class SecondMoments(Work):
    """X'X, and X'y in a last row, the targets clipped to [-limit, limit]: (d + 1, d)."""

    reads: ClassVar[Reads] = "rows"

    limit: float

    def on(self, data: Data) -> Callable[[Places], NDArray[np.float64]]:
        """Over a piece."""

        def work(rows: Places) -> NDArray[np.float64]:
            X = rows_of(data, rows)
            return np.vstack((X.T @ X, X.T @ np.clip(data.y[rows], -self.limit, self.limit)))

        return work
