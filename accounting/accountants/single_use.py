"""A mechanism used once, by its own profile."""

import math
from dataclasses import dataclass
from typing import ClassVar

from accounting.plan import Plan


@dataclass(frozen=True, slots=True)
class SingleUseAccountant:
    """epsilon of a plan that is one use of one mechanism by its profile, such as a random iterate or an allocation."""

    name: ClassVar[str] = "single_use"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether the plan is one such use and delta is positive."""
        return delta > 0 and [(q.count, q.curves.epsilon is None) for q in plan.queries] == [(1, False)]

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        profile = plan.queries[0].curves.epsilon if self.supports(plan, delta) else None
        return math.inf if profile is None else profile(delta)
