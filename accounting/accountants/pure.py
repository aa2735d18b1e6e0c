"""Pure accounting: the sum of epsilons."""

import math
from dataclasses import dataclass
from typing import ClassVar

from accounting.plan import AbstractComposition

_ROUNDING = 1 + 1e-14  # more than a sum of at most 64 products can lose


@dataclass(frozen=True, slots=True)
class PureAccountant:
    """epsilon = sum over queries of count * epsilon_query, at every delta, 0 included.

    Reference: Dwork, McSherry, Nissim and Smith 2006; Rogers, Roth, Ullman and Vadhan 2016.
    """

    name: ClassVar[str] = "pure"
    version: ClassVar[str] = "1"

    def epsilon(self, plan: AbstractComposition, delta: float) -> float:
        """Return the epsilon certified for the plan; infinite if an answer has none at delta = 0, or delta < 0."""
        total = plan.pure()
        return total * _ROUNDING if total is not None and delta >= 0 else math.inf
