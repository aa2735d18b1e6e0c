"""The meter: what a plan holds, what has been asked of it, and the only place where a value becomes an answer."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from accounting.errors import OutOfPlan
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.problem import Vector


class Meter:
    """Counts every answer against the plan before it is made, and makes it private by the query's own mechanism.

    Parameters
    ----------
    plan : what may be asked
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    """

    __slots__ = ("_answered", "_on_answer", "noise", "plan")

    def __init__(self, plan: Plan, noise: Noise, on_answer: Callable[[int], None] | None = None) -> None:
        self.plan, self.noise, self._on_answer = plan, noise, on_answer
        self._answered: Counter[str] = Counter()

    def take(self, query: str, mechanism: type) -> PlannedQuery:
        """Count one answer; `OutOfPlan` if the plan does not hold it, or holds the query with another mechanism."""
        planned = self.plan.query(query)
        if not isinstance(planned.mechanism, mechanism):
            raise OutOfPlan(f"query {query!r} is planned with another mechanism")
        if self._answered[query] >= planned.answers:
            raise OutOfPlan(f"all {planned.answers} answers of query {query!r} have been given")
        self._answered[query] += 1
        return planned

    def answer(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        """The value, to which each record adds at most `bound` in the mechanism's norm, made private."""
        return self.count(planned.mechanism.perturb(value, planned.noise_multiplier, bound, self.noise))

    def count(self, answer: Vector) -> Vector:
        """An answer that goes out, reported."""
        self.pulse()
        return answer

    def pulse(self) -> None:
        """A sign of life in the middle of long work, at which a run may be stopped."""
        if self._on_answer is not None:
            self._on_answer(self._answered.total())

    def answered(self, query: str) -> int:
        """How many answers of the query have been counted."""
        return self._answered[query]

    def transcript(self) -> Plan:
        """What was really answered; a use that was begun counts whole."""
        return Plan(
            tuple(
                replace(q, count=math.ceil(self._answered[q.name] / q.mechanism.answers))
                for q in self.plan.queries
                if self._answered[q.name]
            )
        )
