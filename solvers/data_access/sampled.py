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
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.summed import Summed
from solvers.data_access.sums import RowCount, center, gradient_sum, mean_gradient, reach
from solvers.problem import Problem, Vector

Walking = Callable[[Noise, Vector, Vector, Vector, int], Vector]
Walker = Callable[[Problem, Data, PlannedQuery, float, bool], Walking | None]


class SampledOracle(AbstractOracle):
    """Private answers about one problem on one dataset, within one plan.

    Parameters
    ----------
    problem, data, plan, noise, on_answer : as for `AbstractOracle`
    walker : `walk.Walk.of`, for runs that request walks
    """

    __slots__ = ("_anchor", "_anchor_gradient", "_walker")

    def __init__(
        self,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
        walker: Walker | None = None,
    ) -> None:
        super().__init__(problem, data, plan, noise, on_answer)
        self._anchor: Vector | None = None  # of the stored exact gradient
        self._anchor_gradient = np.empty(0)
        self._walker = walker

    def gradient(self, query: str, w: Vector) -> Vector:
        """Return grad F(w) + noise, over all records; see `FullBatchOracle.gradient`."""
        return full_gradient(self._data, self._meter, query, w)

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of grad f_i(w) + noise; per-record bound G / b, plus rounding.

        b = n rate is fixed. It is not the size of the batch, which is secret. For an empty batch, the answer is noise
        alone. Raises as `gradient`; the planned mechanism must be Poisson-sampled.
        """
        norm = reach(self._problem, w)
        planned = self._meter.take(query, PoissonGaussian)
        batch, size = self._batch(planned)
        value = gradient_sum(self._data, batch, w) / (size * self._problem.unit.slots)
        return self._meter.answer(planned, value, sampled_bound(self._problem, size, self._problem.G, norm))

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of clip(grad f_i(w) - grad f_i(anchor), c) + noise.

        c = min(G, L ||w - anchor||) is a public function of private iterates. Every record's loss is L-smooth, so
        clipping changes nothing while L ||w - anchor|| <= G. If w = anchor, the answer is 0; it is counted, but reads
        no data. Raises as `sampled_gradient`.
        """
        norm = reach(self._problem, w) + reach(self._problem, anchor)
        planned = self._meter.take(query, PoissonGaussian)
        problem = self._problem
        distance = kernels.length(w - anchor)
        bound = 0.0 if distance == 0.0 else min(problem.G, problem.L * distance)
        if bound == 0.0:
            return self._meter.count(np.zeros(problem.size))
        (batch, size), k = self._batch(planned), problem.unit.slots
        value = gradient_sum(self._data, batch, w, anchor, bound / problem.row_norm) / (size * k)
        return self._meter.answer(planned, value, sampled_bound(problem, size, bound, norm))

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of (grad f_i(w) - grad f_i(anchor) - (L/2) u) + (L/2) u + noise.

        Here u = w - anchor. A record's change of slope lies between 0 and its curvature times <x_i, u>, and is clipped
        to this interval. So the per-record bound is (L/2) ||u|| / b, plus rounding, half of that of `sampled_change`.
        If this bound exceeds G / b, or if u is so short that its length is not exact, this is a `sampled_change`.
        Raises as `sampled_change`, and `Unsuitable` as `check_centred`.
        """
        problem = self._problem
        check_centred(problem)
        reach(problem, w), reach(problem, anchor)
        moved = w - anchor
        distance = kernels.length(moved)
        if not centres(problem, distance):
            return self.sampled_change(query, w, anchor)
        planned = self._meter.take(query, PoissonGaussian)
        (batch, size), k = self._batch(planned), problem.unit.slots
        sums = gradient_sum(self._data, batch, moved, anchor, 0.0, problem.loss.curvature_bound)
        row_count = int(self._data.total(RowCount(), batch))
        value = sums / (size * k) + center(problem, moved, row_count / (size * k))
        return self._meter.answer(planned, value, centred_bound(problem, size, problem.L * distance / 2))

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return (1/b) sum over b distinct rows of (grad f_i(w) - grad f_i(anchor)) + grad F(anchor) + one noise.

        The per-record bound is 2G/b, plus rounding; nothing is clipped. The exact grad F(anchor) is stored for the next
        answer and never leaves without noise. Raises as `gradient`; the planned mechanism must be the printed step.
        """
        norm, n = reach(self._problem, w) + reach(self._problem, anchor), self._problem.n
        planned = self._meter.take(query, SvrgStep)
        mechanism = planned.mechanism
        if not isinstance(mechanism, SvrgStep) or mechanism.rows != n:
            raise OutOfPlan(f"query {query!r} is planned for another number of rows")
        batch, widest = draws.distinct_rows(self._meter.noise, n, mechanism.batch), 2 * self._problem.G
        slots, k = slots_of(batch, self._problem), self._problem.unit.slots
        change = gradient_sum(self._data, slots, w, anchor, widest / self._problem.row_norm) / (mechanism.batch * k)
        bound = printed_bound(self._problem, mechanism.batch, norm)
        return self._meter.answer(planned, np.stack([change, self._at_anchor(anchor)]), bound)

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
            reach(self._problem, point)
        if centred:
            check_centred(self._problem)
        planned = self._meter.look(query, PoissonGaussian)
        walker, data = self._walker, self._data
        compiled = walker(self._problem, data, planned, step, centred) if walker and isinstance(data, Data) else None
        if compiled is None:
            return None
        self._meter.take(query, PoissonGaussian, count)
        points = compiled(self._meter.noise, w, anchor, snapshot, count)
        self._meter.report(count)
        return points

    def _at_anchor(self, anchor: Vector) -> Vector:
        """Return the exact grad F(anchor), summed once for each anchor: only for answers that add noise to it."""
        if self._anchor is None or not np.array_equal(self._anchor, anchor):
            self._anchor, self._anchor_gradient = anchor.copy(), mean_gradient(self._data, anchor)
        return self._anchor_gradient

    def _batch(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        """Return the slots of a fresh batch, and its fixed expected size in records."""
        assert isinstance(planned.mechanism, PoissonGaussian)
        rate = planned.mechanism.rate
        drawn = batches.poisson_rows(self._meter.noise, self._problem.n, rate)
        return slots_of(drawn, self._problem), rate * self._problem.n
