"""A mechanism used once, by its own profile, perhaps beside Gaussian answers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from accounting.plan import Plan

_ROUNDED_UP = 1 + 1e-12  # more than a root and its square may lose


@dataclass(frozen=True, slots=True)
class SingleUseAccountant:
    """epsilon of a plan that is one use of one mechanism by its profile, such as a random iterate or an allocation;
    and of one that holds Gaussian answers beside it, where the mechanism knows its profile with them.
    """

    name: ClassVar[str] = "single_use"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether the plan is that and delta is positive."""
        return delta > 0 and self._profile(plan) is not None

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        profile = self._profile(plan) if delta > 0 else None
        return math.inf if profile is None else profile(delta)

    def _profile(self, plan: Plan) -> Callable[[float], float] | None:
        """epsilon at a delta."""
        own = [q for q in plan.queries if q.curves(plan.relation).epsilon is not None]
        if len(own) != 1 or own[0].count != 1:
            return None
        rest, curves = (
            Plan(tuple(q for q in plan.queries if q is not own[0]), plan.relation),
            own[0].curves(plan.relation),
        )
        if not rest.queries:
            return curves.epsilon
        mu, beside = rest.gdp(), curves.epsilon_beside
        return None if mu is None or beside is None else lambda delta: beside(delta, mu * mu * _ROUNDED_UP)
