"""FullBatchOracle: private gradients over all records.

Precondition: the data are `Data` of the problem. The plan and n are public.
Guarantee: all answers together are as private as the plan, whatever a solver requests and however it chooses a request
from earlier answers. Each planned query has at most `count` answers. Each is made by the query's mechanism with the
planned noise multiplier and a bound that holds for every record in floating point. Proof: docs/proofs/oracle.md.
"""

from collections.abc import Callable

from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, RandomIterate
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.bounds import gradient_bound
from solvers.data_access.meter import AbstractOracle, Meter
from solvers.data_access.summed import Summed
from solvers.data_access.sums import mean_gradient, reach
from solvers.problem import Problem, Vector

HiddenSteps = Callable[[Summed, Meter, str, int, float], Vector]


class FullBatchOracle(AbstractOracle):
    """Private answers about one problem on one dataset, within one plan.

    Parameters
    ----------
    problem, data, plan, noise, on_answer : as for `AbstractOracle`
    hidden_steps : `last_iterate.last_iterate`, for runs that request it
    """

    __slots__ = ("_hidden_steps",)

    def __init__(
        self,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
        hidden_steps: HiddenSteps | None = None,
    ) -> None:
        super().__init__(problem, data, plan, noise, on_answer)
        self._hidden_steps = hidden_steps

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
        return full_gradient(self._data, self._meter, query, w)

    def horizon(self, query: str) -> int:
        """Return how many answers the query allows: the planned number, or a random one drawn without the data."""
        return self._meter.horizon(query)

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """Return the last point of w <- prox(w - step (grad F(w) + noise)) from the start; the others stay hidden.

        This is one answer. Raises as `gradient`; the planned mechanism must be the last iterate of exactly these steps.
        """
        if self._hidden_steps is None:
            raise OutOfPlan(f"query {query!r}: this run is declared without hidden steps, so it cannot request them")
        return self._hidden_steps(self._data, self._meter, query, steps, step)


def full_gradient(data: Summed, meter: Meter, query: str, w: Vector) -> Vector:
    """Return `FullBatchOracle.gradient`, for all oracles that answer it."""
    norm = reach(data.problem, w)
    planned = meter.take(query, Gaussian | RandomIterate)
    return meter.answer(planned, mean_gradient(data, w), gradient_bound(data.problem, norm))
