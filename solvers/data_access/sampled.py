"""SampledOracle: private gradients over random batches, and over all records.

Precondition: the data are `Data` of the problem. The plan, n and the batch rates are public.
Guarantee: as `FullBatchOracle`. Proof: docs/proofs/oracle.md.
"""

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import PoissonGaussian, SvrgStep
from accounting.noise import batches, draws
from accounting.plan import PlannedQuery
from solvers import kernels
from solvers.bounds import printed_bound, sampled_bound
from solvers.centred import centred_bound, centres, check_centred
from solvers.data_access.data import slots_of
from solvers.data_access.full_batch import FullBatchOracle
from solvers.data_access.sums import RowCount, center, checked_norm, gradient_sum, mean_gradient
from solvers.problem import Vector


class SampledOracle(FullBatchOracle):
    """Private answers about one problem on one dataset, within one plan. Parameters as `AbstractOracle`."""

    __slots__ = ("_anchor",)

    def _set_up(self) -> None:
        self._anchor: tuple[Vector, Vector] | None = None  # the last anchor and the exact gradient there

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Return (1/b) sum over a fresh batch of grad f_i(w) + noise; per-record bound G / b, plus rounding.

        b = n rate is fixed. It is not the size of the batch, which is secret. For an empty batch, the answer is noise
        alone. Raises as `gradient`; the planned mechanism must be Poisson-sampled.
        """
        norm = checked_norm(self._problem, w)
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
        norm = checked_norm(self._problem, w) + checked_norm(self._problem, anchor)
        planned = self._meter.take(query, PoissonGaussian)
        problem = self._problem
        distance = kernels.length(w - anchor)
        bound = 0.0 if distance == 0.0 else min(problem.G, problem.L * distance)
        if bound == 0.0:
            self._meter.report()
            return np.zeros(problem.size)
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
        for point in (w, anchor):
            checked_norm(problem, point)
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
        norm, n = checked_norm(self._problem, w) + checked_norm(self._problem, anchor), self._problem.n
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
        """Return None and count nothing: only a run that declares walks gets a `WalkingOracle`, which answers this."""

    def _at_anchor(self, anchor: Vector) -> Vector:
        """Return the exact grad F(anchor), summed once for each anchor: only for answers that add noise to it."""
        if self._anchor is None or not np.array_equal(self._anchor[0], anchor):
            self._anchor = anchor.copy(), mean_gradient(self._data, anchor)
        return self._anchor[1]

    def _batch(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        """Return the slots of a fresh batch, and its fixed expected size in records."""
        assert isinstance(planned.mechanism, PoissonGaussian)
        rate = planned.mechanism.rate
        drawn = batches.poisson_rows(self._meter.noise, self._problem.n, rate)
        return slots_of(drawn, self._problem), rate * self._problem.n
