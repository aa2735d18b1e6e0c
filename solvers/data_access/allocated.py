"""AllocatedOracle: private gradients over the secret slots of a random allocation.

Precondition: the data are `Data` of the problem. The plan, n, the rate and the number of slots are public.
Guarantee: no record is in two slots of one use. Otherwise as `FullBatchOracle`.
Proofs: docs/proofs/oracle.md, docs/proofs/random_allocation.md.
"""

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import RandomAllocation
from accounting.noise import batches, draws
from accounting.plan import PlannedQuery
from solvers.bounds import sampled_bound
from solvers.data_access.data import slots_of
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.sums import checked_norm, gradient_sum
from solvers.problem import Vector


class AllocatedOracle(AbstractOracle):
    """Private answers over the slots of an allocation. Parameters as `AbstractOracle`."""

    __slots__ = ("_allocated",)

    def _set_up(self) -> None:
        self._allocated: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """Return (1/b) sum over the next slot of grad f_i(w) + noise; per-record bound G / b, plus rounding.

        The first answer of each use allocates the rows to slots 1..T in secret. The t-th answer is over slot t, so no
        row is in two answers of one use. b = q n / T is fixed and does not depend on the content of a slot. Raises as
        `FullBatchOracle.gradient`; the planned mechanism must be the random allocation.
        """
        norm = checked_norm(self._problem, w)
        planned = self._meter.take(query, RandomAllocation)
        records, size = self._slot(planned)
        slots = slots_of(np.sort(records), self._problem)
        value = gradient_sum(self._data, slots, w) / (size * self._problem.unit.slots)
        return self._meter.answer(planned, value, sampled_bound(self._problem, size, self._problem.G, norm))

    def _slot(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        """Return the records of the current slot, and the fixed number by which their sum is divided."""
        mechanism, n = planned.mechanism, self._problem.n
        assert isinstance(mechanism, RandomAllocation)
        turn = (self._meter.answered(planned.name) - 1) % mechanism.slots
        size = mechanism.normalizer(n)
        if turn == 0:
            self._allocated.pop(planned.name, None)  # no later slot may be of an earlier use, even if this draw fails
            if mechanism.form == "independent":
                self._allocated[planned.name] = batches.slots(self._meter.noise, n, mechanism.rate, mechanism.slots)
            else:
                size = float(mechanism.batch(n))
                rows = draws.ordered_rows(self._meter.noise, n, mechanism.slots * mechanism.batch(n))
                self._allocated[planned.name] = rows, mechanism.batch(n) * np.arange(mechanism.slots + 1)
        rows, offsets = self._allocated[planned.name]
        return rows[offsets[turn] : offsets[turn + 1]], size
