"""AbstractWithMoments: the base of oracles whose queries need released moments of the same data.

Guarantee: each query belongs either to the moments or to the oracle itself, so no answer is counted by two oracles.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from accounting.noise import Noise
from accounting.plan import Plan
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.summed import Summed
from solvers.problem import Problem


class AbstractWithMoments(AbstractOracle):
    """An oracle of rows whose layout is public, together with the oracle of their moments.

    Parameters as `AbstractOracle`. The plan is split by the names of its queries.
    """

    __slots__ = ("_moments",)
    _moment_queries: ClassVar[set[str]]
    """Names of the queries that the oracle of the moments answers."""

    def __init__(
        self, problem: Problem, data: Summed, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None
    ) -> None:
        moments_plan, own_plan = split(plan, self._moment_queries)
        self._moments = StandardisedOracle(problem, data, moments_plan, noise, on_answer)
        super().__init__(problem, data, own_plan, noise, counting_on(moments_plan, on_answer))

    @property
    def moments(self) -> StandardisedOracle:
        """The oracle of the columns' moments."""
        return self._moments

    def transcript(self) -> Plan:
        """Return what was really answered, the moments first."""
        own = self._meter.transcript()
        return replace(own, queries=self._moments.transcript().queries + own.queries)


def split(plan: Plan, names: set[str]) -> tuple[Plan, Plan]:
    """Return the plan of the queries with these names, and the plan of all other queries."""
    chosen = tuple(query for query in plan.queries if query.name in names)
    remaining = tuple(query for query in plan.queries if query not in chosen)
    return replace(plan, queries=chosen), replace(plan, queries=remaining)


def counting_on(answered: Plan, on_answer: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Return a callback that adds the answers of an earlier plan to the number that it is called with."""
    if on_answer is None:
        return None
    count, report = sum(query.answers for query in answered.queries), on_answer
    return lambda more: report(count + more)
