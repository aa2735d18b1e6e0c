"""What a run may ask of the data: queries, and the same queries with their noise fixed."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting.errors import OutOfPlan, OutOfRange
from accounting.mechanisms import Mechanism
from accounting.mechanisms.mechanism import Curves, Event, composed, self_composed
from accounting.numbers import finite, whole, within
from accounting.privacy import REPLACE_ONE, Relation

MAX_COUNT = 10**9
MULTIPLIERS = (1e-3, 1e12)
"""The noise multipliers of plans that are calibrated, and of all that are written down."""

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,64}")


def _check(name: str, count: int) -> None:
    if not _NAME.fullmatch(name):
        raise OutOfRange("a query's name has 1 to 64 characters, none of them a control")
    whole(count, "the count of a query", 1, MAX_COUNT)


@dataclass(frozen=True, slots=True)
class Query:
    """`count` answers of one kind, accounted for together by their mechanism; noise still open.

    Parameters
    ----------
    name : str, what the solver calls it ("snapshot")
    count : int, answers
    mechanism : how each answer is made private
    weight : float in [1e-6, 1e6], the share of mu^2 this query asks of the whole plan (shares are normalized)
    """

    name: str
    count: int
    mechanism: Mechanism
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check(self.name, self.count)
        within(self.weight, "weight", 1e-6, 1e6)

    @property
    def answers(self) -> int:
        """How many answers the solver gets: `count` uses of a mechanism that may answer several times a use."""
        return self.count * self.mechanism.answers


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query whose noise multiplier (noise std over per-record bound, unitless) is fixed."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: str
    count: int
    mechanism: Annotated[Mechanism, Field(discriminator="name")]
    noise_multiplier: float

    def __post_init__(self) -> None:
        _check(self.name, self.count)
        if finite(self.noise_multiplier, "noise multiplier") <= 0:
            raise OutOfRange("noise multiplier must be positive")

    @property
    def answers(self) -> int:
        """How many answers the solver gets: `count` uses of a mechanism that may answer several times a use."""
        return self.count * self.mechanism.answers

    def curves(self, relation: Relation = REPLACE_ONE) -> Curves:
        """What one use costs."""
        return self.mechanism.curves(self.noise_multiplier, relation)


class AbstractComposition(ABC):
    """Uses of mechanisms, perhaps each chosen after the answers before it, and what they cost together."""

    __slots__ = ()

    @abstractmethod
    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """For each kind of use how many there are, and what one costs."""

    @final
    def rdp(self, orders: Sequence[float]) -> NDArray[np.float64]:
        """rho(a) = sum over queries of count * rho_query(a), an upper bound of the Renyi divergence at each order."""
        total = np.zeros(len(orders))
        for count, curves in self.parts():
            total += count * curves.rdp(orders)
        if not (total >= 0).all():
            raise OutOfRange("a Renyi curve is nonnegative and never NaN")
        return total

    @final
    def gdp(self) -> float | None:
        """mu with mu^2 = sum count * mu_query^2, or None when a query is not Gaussian-DP."""
        return self._mu(lambda curves: curves.gdp)

    @final
    def gdp_bound(self) -> float | None:
        """mu of a Gaussian pair that dominates the whole plan, mu^2 = sum count * mu_query^2; None if there is none."""
        return self._mu(lambda curves: curves.gdp_bound)

    @final
    def pure(self) -> float | None:
        """epsilon at delta = 0, the sum of count * epsilon_query, or None when a query has none."""
        total = 0.0
        for count, curves in self.parts():
            if curves.pure is None:
                return None
            total += count * curves.pure
        return total

    @final
    def _mu(self, of: Callable[[Curves], float | None]) -> float | None:
        total = 0.0
        for count, curves in self.parts():
            mu = of(curves)
            if mu is None:
                return None
            total += count * mu * mu
        return math.sqrt(total)


@dataclass(frozen=True, slots=True)
class Plan(AbstractComposition):
    """The adaptive composition of its queries' answers, and between which neighbors it is accounted for."""

    queries: tuple[PlannedQuery, ...]
    relation: Relation = REPLACE_ONE

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """For each query how often it is used, and what one use costs."""
        return tuple((query.count, query.curves(self.relation)) for query in self.queries)

    def query(self, name: str) -> PlannedQuery:
        """The planned query of that name; `OutOfPlan` if there is none."""
        for query in self.queries:
            if query.name == name:
                return query
        raise OutOfPlan(f"the plan holds no query {name!r}")

    def event(self) -> Event:
        """The plan as an event tree, multipliers as noise std over the per-record bound."""
        events = [self_composed(q.mechanism.event(q.noise_multiplier), q.count) for q in self.queries]
        return events[0] if len(events) == 1 else composed(events)

    def covers(self, other: "Plan") -> bool:
        """Whether every query of `other` stands here once, with the same noise, mechanism and neighbors and no smaller
        count.
        """
        mine = {q.name: q for q in self.queries} if self.relation == other.relation else {}
        return len({q.name for q in other.queries}) == len(other.queries) and all(
            (q.name in mine)
            and mine[q.name].mechanism == q.mechanism
            and mine[q.name].noise_multiplier == q.noise_multiplier
            and q.count <= mine[q.name].count
            for q in other.queries
        )


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """A plan together with what it was calibrated to and what an accountant certifies of it.

    Parameters
    ----------
    plan : Plan
    delta : float, the target's delta
    epsilon : float, what the accountant certifies at delta; never above the target
    accountant, accountant_version : str, who certifies it
    """

    plan: Plan
    epsilon: float
    delta: float
    accountant: str
    accountant_version: str
