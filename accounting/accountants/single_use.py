"""Accounting for one use of a mechanism by its own privacy profile."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from accounting.plan import Plan

_ROUNDING = 1 + 1e-12  # more than a root and its square may lose


@dataclass(frozen=True, slots=True)
class SingleUseAccountant:
    """epsilon by the profile of the only mechanism that has one, such as a random iterate or an allocation.

    The mechanism is used once. Other answers must be Gaussian, and the mechanism must know its profile beside them.
    """

    name: ClassVar[str] = "single_use"
    version: ClassVar[str] = "1"

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the epsilon certified for the plan at delta; infinite if it has no such profile or delta is 0."""
        profile = self.profile(plan) if delta > 0 else None
        return math.inf if profile is None else profile(delta)

    def profile(self, plan: Plan) -> Callable[[float], float] | None:
        """Return epsilon as a function of delta, or None if the plan has no such profile."""
        profiled = [q for q in plan.queries if q.curves(plan.relation).epsilon is not None]
        if len(profiled) != 1 or profiled[0].count != 1:
            return None
        curves = profiled[0].curves(plan.relation)
        gaussian = Plan(tuple(q for q in plan.queries if q is not profiled[0]), plan.relation)
        if not gaussian.queries:
            return curves.epsilon
        mu, epsilon = gaussian.gdp(), curves.epsilon_with_gaussian
        return None if mu is None or epsilon is None else lambda delta: epsilon(delta, mu * mu * _ROUNDING)
