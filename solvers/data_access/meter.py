"""The meter: what a plan holds, what has been asked of it, and the only place where a value becomes an answer."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import UnionType

from accounting.errors import OutOfPlan
from accounting.mechanisms import RandomIterate
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import REPLACE_ONE, Relation
from solvers.problem import Vector


class Meter:
    """Counts every answer against the plan before it is made, and makes it private by the query's own mechanism.

    Parameters
    ----------
    plan : what may be asked
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    relation : the problem's, by which bounds are made; the plan must be of the same
    """

    __slots__ = ("_answered", "_given", "_horizons", "_on_answer", "noise", "plan")

    def __init__(
        self, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None, relation: Relation = REPLACE_ONE
    ) -> None:
        if plan.relation != relation:
            raise OutOfPlan("the plan is accounted for between other neighbors")
        self.plan, self.noise, self._on_answer = plan, noise, on_answer
        self._answered: Counter[str] = Counter()
        self._horizons: dict[str, int] = {}
        self._given = 0

    def horizon(self, query: str) -> int:
        """How many answers the query will give: all that are planned, or the random number drawn for this run."""
        planned = self.plan.query(query)
        if not isinstance(planned.mechanism, RandomIterate):
            return planned.answers
        if planned.count != 1:
            raise OutOfPlan(f"query {query!r} holds more than one random iterate")
        if query not in self._horizons:
            self._horizons[query] = planned.mechanism.horizon(self.noise)
        return self._horizons[query]

    def take(self, query: str, mechanism: type | UnionType, count: int = 1) -> PlannedQuery:
        """Count one answer, or several at once.

        Raises
        ------
        OutOfPlan
            if the plan does not hold them, or holds the query with another mechanism; then none is counted.
        """
        planned = self.look(query, mechanism)
        if self._answered[query] + count > (most := self.horizon(query)):
            raise OutOfPlan(f"all {most} answers of query {query!r} have been given")
        self._answered[query] += count
        return planned

    def look(self, query: str, mechanism: type | UnionType) -> PlannedQuery:
        """The planned query, without counting; `OutOfPlan` as `take`."""
        planned = self.plan.query(query)
        if not isinstance(planned.mechanism, mechanism):
            raise OutOfPlan(f"query {query!r} is planned with another mechanism")
        return planned

    def answer(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        """The value, to which each record adds at most `bound` in the mechanism's norm, made private."""
        return self.count(self.perturb(planned, value, bound))

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        """The same, kept within the door: of hidden steps, whose last alone goes out."""
        return planned.mechanism.perturb(value, planned.noise_multiplier, bound, self.noise)

    def count(self, answer: Vector) -> Vector:
        """An answer that goes out, reported."""
        self.report(1)
        return answer

    def report(self, count: int) -> None:
        """So many answers went out."""
        self._given += count
        self.pulse()

    def pulse(self) -> None:
        """A heartbeat in the middle of long work, at which a run may be stopped: the number of answers given."""
        if self._on_answer is not None:
            self._on_answer(self._given)

    def answered(self, query: str) -> int:
        """How many answers of the query have been counted."""
        return self._answered[query]

    def transcript(self) -> Plan:
        """What was really answered; a use that was begun counts whole."""
        asked = [q for q in self.plan.queries if self._answered[q.name] or q.name in self._horizons]
        counts = (max(1, math.ceil(self._answered[q.name] / q.mechanism.answers)) for q in asked)
        return replace(self.plan, queries=tuple(map(lambda q, count: replace(q, count=count), asked, counts)))
