"""SampledOracle: private gradients over random batches, and over all records.

Precondition: the data are `Data` of the problem. The plan, n and the batch rates are public.
Guarantee: as `FullBatchOracle`. Proof: docs/proofs/oracle.md.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import PoissonGaussian, SvrgStep
from accounting.noise import Noise, batches, draws
from accounting.plan import Plan, PlannedQuery
from solvers import kernels
from solvers.bounds import printed_bound, sampled_bound
from solvers.centred import centred_bound, centres, check_centred
from solvers.data_access.data import Data, slots_of
from solvers.data_access.full_batch import full_gradient
from solvers.data_access.meter import Meter
from solvers.data_access.summed import Summed
from solvers.data_access.sums import RowCount, center, gradient_sum, mean_gradient, reach
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

Walking = Callable[[Noise, Vector, Vector, Vector, int], Vector]
Walker = Callable[[Problem, Data, PlannedQuery, float, bool], Walking | None]


class SampledOracle:
    """Private answers about one problem on one dataset, within one plan.

    Parameters
    ----------
    problem, data, plan, noise, on_answer : as `FullBatchOracle`
    walker : `walk.Walk.of`, for runs that request walks
    """

    __slots__ = ("__anchor", "__anchor_gradient", "__data", "__meter", "__problem", "__walker")

    def __init__(
        self,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
        walker: Walker | None = None,
    ) -> None:
        if data.problem != problem:
            raise Unsuitable("the data were prepared for another problem")
        self.__problem, self.__data, self.__meter = problem, data, Meter(plan, noise, on_answer, problem.relation)
        self.__anchor: Vector | None = None  # of the stored exact gradient
        self.__anchor_gradient = np.empty(0)
        self.__walker = walker

    def gradient(self, query: str, w: Vector) -> Vector:
        """Return grad F(w) + noise, over all records; see `FullBatchOracle.gradient`."""
        return full_gradient(self.__data, self.__meter, query, w)

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of grad f_i(w) + noise; per-record bound G / b, plus rounding.

        b = n rate is fixed. It is not the size of the batch, which is secret. For an empty batch, the answer is noise
        alone. Raises as `gradient`; the planned mechanism must be Poisson-sampled.
        """
        norm = reach(self.__problem, w)
        planned = self.__meter.take(query, PoissonGaussian)
        batch, size = self.__batch(planned)
        value = gradient_sum(self.__data, batch, w) / (size * self.__problem.unit.slots)
        return self.__meter.answer(planned, value, sampled_bound(self.__problem, size, self.__problem.G, norm))

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of clip(grad f_i(w) - grad f_i(anchor), c) + noise.

        c = min(G, L ||w - anchor||) is a public function of private iterates. Every record's loss is L-smooth, so
        clipping changes nothing while L ||w - anchor|| <= G. If w = anchor, the answer is 0; it is counted, but reads
        no data. Raises as `sampled_gradient`.
        """
        norm = reach(self.__problem, w) + reach(self.__problem, anchor)
        planned = self.__meter.take(query, PoissonGaussian)
        problem = self.__problem
        distance = kernels.length(w - anchor)
        bound = 0.0 if distance == 0.0 else min(problem.G, problem.L * distance)
        if bound == 0.0:
            return self.__meter.count(np.zeros(problem.size))
        (batch, size), k = self.__batch(planned), problem.unit.slots
        value = gradient_sum(self.__data, batch, w, anchor, bound / problem.row_norm) / (size * k)
        return self.__meter.answer(planned, value, sampled_bound(problem, size, bound, norm))

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of (grad f_i(w) - grad f_i(anchor) - (L/2) u) + (L/2) u + noise.

        Here u = w - anchor. A record's change of slope lies between 0 and its curvature times <x_i, u>, and is clipped
        to this interval. So the per-record bound is (L/2) ||u|| / b, plus rounding, half of that of `sampled_change`.
        If this bound exceeds G / b, or if u is so short that its length is not exact, this is a `sampled_change`.
        Raises as `sampled_change`, and `Unsuitable` as `check_centred`.
        """
        problem = self.__problem
        check_centred(problem)
        reach(problem, w), reach(problem, anchor)
        moved = w - anchor
        distance = kernels.length(moved)
        if not centres(problem, distance):
            return self.sampled_change(query, w, anchor)
        planned = self.__meter.take(query, PoissonGaussian)
        (batch, size), k = self.__batch(planned), problem.unit.slots
        sums = gradient_sum(self.__data, batch, moved, anchor, 0.0, problem.loss.curvature_bound)
        row_count = int(self.__data.total(RowCount(), batch))
        value = sums / (size * k) + center(problem, moved, row_count / (size * k))
        return self.__meter.answer(planned, value, centred_bound(problem, size, problem.L * distance / 2))

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return (1/b) sum over b distinct rows of (grad f_i(w) - grad f_i(anchor)) + grad F(anchor) + one noise.

        The per-record bound is 2G/b, plus rounding; nothing is clipped. The exact grad F(anchor) is stored for the next
        answer and never leaves without noise. Raises as `gradient`; the planned mechanism must be the printed step.
        """
        norm, n = reach(self.__problem, w) + reach(self.__problem, anchor), self.__problem.n
        planned = self.__meter.take(query, SvrgStep)
        mechanism = planned.mechanism
        if not isinstance(mechanism, SvrgStep) or mechanism.rows != n:
            raise OutOfPlan(f"query {query!r} is planned for another number of rows")
        batch, widest = draws.distinct_rows(self.__meter.noise, n, mechanism.batch), 2 * self.__problem.G
        slots, k = slots_of(batch, self.__problem), self.__problem.unit.slots
        change = gradient_sum(self.__data, slots, w, anchor, widest / self.__problem.row_norm) / (mechanism.batch * k)
        bound = printed_bound(self.__problem, mechanism.batch, norm)
        return self.__meter.answer(planned, np.stack([change, self.__at_anchor(anchor)]), bound)

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> NDArray[np.float64] | None:
        """Return the `count` points that follow w, shape (count, d), with w <- prox(w - step v); each uses one answer.

        v = snapshot + sampled_change(query, w, anchor), or centred_change, while L ||w - anchor|| <= G, and
        sampled_gradient(query, w) otherwise. The answers have the same law as single requests (docs/proofs/oracle.md).
        Returns None and counts nothing if the walk is not compiled; then request each answer. `on_answer` is called
        once, after all answers, so request about a thousand at a time. Raises as `sampled_change`; if the plan has
        fewer answers left, none is counted.
        """
        for point in (w, anchor, snapshot):
            reach(self.__problem, point)
        if centred:
            check_centred(self.__problem)
        planned = self.__meter.look(query, PoissonGaussian)
        walker, data = self.__walker, self.__data
        compiled = walker(self.__problem, data, planned, step, centred) if walker and isinstance(data, Data) else None
        if compiled is None:
            return None
        self.__meter.take(query, PoissonGaussian, count)
        points = compiled(self.__meter.noise, w, anchor, snapshot, count)
        self.__meter.report(count)
        return points

    def transcript(self) -> Plan:
        """Return what was really answered."""
        return self.__meter.transcript()

    def __at_anchor(self, anchor: Vector) -> Vector:
        """Return the exact grad F(anchor), summed once for each anchor: only for answers that add noise to it."""
        if self.__anchor is None or not np.array_equal(self.__anchor, anchor):
            self.__anchor, self.__anchor_gradient = anchor.copy(), mean_gradient(self.__data, anchor)
        return self.__anchor_gradient

    def __batch(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        """Return the slots of a fresh batch, and its fixed expected size in records."""
        if not isinstance(planned.mechanism, PoissonGaussian):
            raise OutOfPlan(f"query {planned.name!r} is not sampled")
        rate = planned.mechanism.rate
        drawn = batches.poisson_rows(self.__meter.noise, self.__problem.n, rate)
        return slots_of(drawn, self.__problem), rate * self.__problem.n
