"""FullBatchOracle: private gradients over all records.

Precondition: the data are `Data` of the problem. The plan and n are public.
Guarantee: all answers together are as private as the plan, whatever a solver requests and however it chooses a request
from earlier answers. Each planned query has at most `count` answers. Each is made by the query's mechanism with the
planned noise multiplier and a bound that holds for every record in floating point. Proof: docs/proofs/oracle.md.
"""

from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, RandomIterate
from solvers.bounds import gradient_bound
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.sums import checked_norm, mean_gradient
from solvers.problem import Vector


class FullBatchOracle(AbstractOracle):
    """Private answers about one problem on one dataset, within one plan. Parameters as `AbstractOracle`."""

    __slots__ = ()

    def gradient(self, query: str, w: Vector) -> Vector:
        """Return grad F(w) + noise, over all records. The per-record bound is G / n, plus rounding.

        Raises
        ------
        OutOfPlan
            if the plan has no such query with the Gaussian mechanism or with a random number of its answers, or if all
            of its answers have been given
        Unsuitable
            if w is not of shape (size,), finite and of norm up to 1e100

        Both errors depend only on the request.
        """
        norm = checked_norm(self._problem, w)
        planned = self._meter.take(query, Gaussian | RandomIterate)
        return self._meter.answer(planned, mean_gradient(self._data, w), gradient_bound(self._problem, norm))

    def horizon(self, query: str) -> int:
        """Return how many answers the query allows: the planned number, or a random one drawn without the data."""
        return self._meter.horizon(query)

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:  # noqa: ARG002
        """Raise `OutOfPlan`: only a run that declares hidden steps gets a `HiddenStepsOracle`, which answers this."""
        raise OutOfPlan(f"query {query!r}: this run is declared without hidden steps, so it cannot request them")
