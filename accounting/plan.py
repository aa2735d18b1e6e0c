"""Plans: the queries of a run, without and with their noise fixed, and the cost of their composition."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
"""The range of noise multipliers in calibrated plans and in all stored ones."""

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,64}")


@dataclass(frozen=True, slots=True)
class AbstractQuery:
    """`count` uses of one mechanism, accounted for together.

    Parameters
    ----------
    name : the solver's name of the query ("snapshot")
    count : number of uses
    mechanism : makes each answer private
    """

    name: str
    count: int
    mechanism: Annotated[Mechanism, Field(discriminator="name")]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OutOfRange("a query's name must have 1 to 64 characters and no control character")
        whole(self.count, "the count of a query", 1, MAX_COUNT)

    @property
    def answers(self) -> int:
        """Number of answers to the solver: `count` uses of a mechanism that may give several answers a use."""
        return self.count * self.mechanism.answers


@dataclass(frozen=True, slots=True)
class Query(AbstractQuery):
    """A query whose noise is still open.

    Parameters
    ----------
    weight : float in [1e-6, 1e6], the query's share of the plan's mu^2 (shares are normalized)
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        AbstractQuery.__post_init__(self)
        within(self.weight, "weight", 1e-6, 1e6)


@dataclass(frozen=True, slots=True)
class PlannedQuery(AbstractQuery):
    """A query whose noise multiplier (noise std over per-record bound, unitless) is fixed."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    noise_multiplier: float

    def __post_init__(self) -> None:
        AbstractQuery.__post_init__(self)
        if finite(self.noise_multiplier, "noise multiplier") <= 0:
            raise OutOfRange("noise multiplier must be positive")

    def curves(self, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the cost of one use."""
        return self.mechanism.curves(self.noise_multiplier, relation)


class AbstractComposition(ABC):
    """Uses of mechanisms, each perhaps chosen after earlier answers, and their cost together."""

    __slots__ = ()

    @abstractmethod
    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """Return the number of uses and the cost of one, for each kind of use."""

    @final
    def rdp(self, orders: Sequence[float]) -> NDArray[np.float64]:
        """Return rho(a) = sum of count * rho_query(a), an upper bound of the Renyi divergence at each order."""
        total = np.zeros(len(orders))
        for count, curves in self.parts():
            total += count * curves.rdp(orders)
        if not (total >= 0).all():
            raise OutOfRange("a Renyi curve must be nonnegative and not NaN")
        return total

    @final
    def gdp(self) -> float | None:
        """Return mu with mu^2 = sum of count * mu_query^2, or None if a query is not Gaussian-DP."""
        return self._mu(lambda curves: curves.gdp)

    @final
    def gdp_bound(self) -> float | None:
        """Return mu of a Gaussian pair that dominates the plan, mu^2 = sum of count * mu_query^2, or None."""
        return self._mu(lambda curves: curves.gdp_bound)

    @final
    def pure(self) -> float | None:
        """Return epsilon at delta = 0, the sum of count * epsilon_query, or None if a query has none."""
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
    """The adaptive composition of its queries' answers, accounted for between these neighbors."""

    queries: tuple[PlannedQuery, ...]
    relation: Relation = REPLACE_ONE

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """Return the number of uses and the cost of one, for each query."""
        return tuple((query.count, query.curves(self.relation)) for query in self.queries)

    def query(self, name: str) -> PlannedQuery:
        """Return the planned query of that name. Raise `OutOfPlan` if there is none."""
        for query in self.queries:
            if query.name == name:
                return query
        raise OutOfPlan(f"the plan has no query {name!r}")

    def event(self) -> Event:
        """Return the plan as an event tree, with multipliers as noise std over the per-record bound."""
        events = [self_composed(q.mechanism.event(q.noise_multiplier), q.count) for q in self.queries]
        return events[0] if len(events) == 1 else composed(events)

    def covers(self, transcript: "Plan") -> bool:
        """Return whether this plan allows all answers of a transcript.

        Every query of the transcript must be planned once, with the same noise, mechanism and neighbors and no smaller
        count.
        """
        planned = {q.name: q for q in self.queries} if self.relation == transcript.relation else {}
        return len({q.name for q in transcript.queries}) == len(transcript.queries) and all(
            q.name in planned and q.count <= planned[q.name].count and replace(planned[q.name], count=q.count) == q
            for q in transcript.queries
        )


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """A calibrated plan with its certificate.

    Parameters
    ----------
    plan : the plan
    epsilon : certified at delta; never above the target
    delta : of the target
    accountant, accountant_version : the certifying accountant
    """

    plan: Plan
    epsilon: float
    delta: float
    accountant: str
    accountant_version: str
