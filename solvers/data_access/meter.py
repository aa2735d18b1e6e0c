"""The meter, which counts answers against a plan and is the only code that turns an exact value into an answer.

Each answer takes three steps: `take` counts it against the plan, the oracle computes the exact value, and `answer` adds
the noise and reports the answer to the caller. `AbstractOracle` is the base of all classes that hold data and a meter.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import UnionType

from accounting.errors import OutOfPlan
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import REPLACE_ONE, Relation
from solvers.data_access.summed import Summed
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector


class Meter:
    """A counter of answers, which counts each answer before it is made and adds the noise of the query's mechanism.

    Parameters
    ----------
    plan : the queries that may be answered
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    relation : the neighboring relation of the problem and its bounds, which the plan must share
    """

    __slots__ = ("_answered", "_count", "_horizons", "_on_answer", "noise", "plan")

    def __init__(
        self, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None, relation: Relation = REPLACE_ONE
    ) -> None:
        if plan.relation != relation:
            raise OutOfPlan(
                f"the plan is for other neighbors than {relation}. Calibrate it for the relation of the problem"
            )
        self.plan, self.noise, self._on_answer = plan, noise, on_answer
        self._answered: Counter[str] = Counter()
        self._horizons: dict[str, int] = {}
        self._count = 0

    def horizon(self, query: str) -> int:
        """Return how many answers the query allows: the planned number, or a random one drawn once for this run."""
        planned = self.plan.query(query)
        if query not in self._horizons:
            horizon = planned.mechanism.horizon(self.noise)
            if horizon is None:
                return planned.answers
            if planned.count != 1:
                raise OutOfPlan(f"query {query!r}: count must be 1 if the number of answers is random")
            self._horizons[query] = horizon
        return self._horizons[query]

    def take(self, query: str, mechanism: type | UnionType, count: int = 1) -> PlannedQuery:
        """Count one answer, or several at once, against the plan, and return the planned query.

        Raises
        ------
        OutOfPlan
            if the plan has fewer answers left, or plans the query with another mechanism; then none is counted. The
            count must be positive: a negative one or NaN would allow more answers than planned
        """
        planned = self.look(query, mechanism)
        horizon = self.horizon(query)
        if not 1 <= count <= horizon - self._answered[query]:
            raise OutOfPlan(f"query {query!r} allows {horizon} answers, and too few are left. Plan more of them")
        self._answered[query] += count
        return planned

    def look(self, query: str, mechanism: type | UnionType) -> PlannedQuery:
        """Return the planned query without counting. Raise `OutOfPlan` as `take`."""
        planned = self.plan.query(query)
        if not isinstance(planned.mechanism, mechanism):
            raise OutOfPlan(f"query {query!r} is planned with another mechanism than this answer uses")
        return planned

    def answer(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        """Return the value with noise, and report the answer. Call `take` before the value is computed.

        Parameters
        ----------
        planned : what `take` returned
        bound : per-record bound of the value in the mechanism's norm
        """
        noisy = self.perturb(planned, value, bound)
        self.report()
        return noisy

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        """Return the value with noise, without a report; hidden steps call this directly."""
        return planned.mechanism.perturb(value, planned.noise_multiplier, bound, self.noise)

    def report(self, count: int = 1) -> None:
        """Report that `count` more answers leave the oracle."""
        self._count += count
        self.pulse()

    def pulse(self) -> None:
        """Report the number of answers so far, as a heartbeat during long work; `on_answer` may stop the run."""
        if self._on_answer is not None:
            self._on_answer(self._count)

    def answered(self, query: str) -> int:
        """Return how many answers of the query have been counted against the plan."""
        return self._answered[query]

    def transcript(self) -> Plan:
        """Return what was really answered; a use of a mechanism that has begun counts as a whole."""
        used = [q for q in self.plan.queries if self._answered[q.name] or q.name in self._horizons]
        counts = (max(1, math.ceil(self._answered[q.name] / q.mechanism.answers)) for q in used)
        queries = (replace(query, count=count) for query, count in zip(used, counts, strict=True))
        return replace(self.plan, queries=tuple(queries))


class AbstractOracle:
    """The data of one problem, and the answers of one plan about them.

    Parameters
    ----------
    problem, data : the problem, and data that were prepared for it
    plan : the queries that may be answered
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    """

    __slots__ = ("_data", "_meter", "_problem")

    def __init__(
        self, problem: Problem, data: Summed, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None
    ) -> None:
        if data.problem != problem:
            raise Unsuitable("the data were prepared for another problem")
        self._problem, self._data, self._meter = problem, data, Meter(plan, noise, on_answer, problem.relation)
        self._set_up()

    def _set_up(self) -> None:
        """Set the state that a kind of oracle has in addition, before its first answer."""

    def transcript(self) -> Plan:
        """Return what was really answered."""
        return self._meter.transcript()
