"""Sessions: the plan of answers that a program computes elsewhere, its cost, and the part of it that is returned.

    reserve  rule.cost of the whole plan
    close    return the reserved cost less rule.cost of the recorded part

The filter admits the whole plan before the first answer. The program records each use before its first answer, so the
recorded part covers all answers. Then every filter keeps its guarantee although the answers decide when to stop. The
exceptions return nothing: a session that took the whole budget and has an answer, an expired session, and a ledger
that lost entries. Proof: docs/proofs/sessions.md.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter

from accounting.accountants import GaussianAccountant, PureAccountant, RdpAccountant
from accounting.accountants.rdp import ORDERS
from accounting.divergences.gaussian import rdp_epsilons
from accounting.errors import CodecError, OutOfRange, Unsupported
from accounting.filter import Cost, Filter
from accounting.mechanisms.mechanism import Curves
from accounting.plan import MAX_COUNT, AbstractComposition, Plan, PlannedQuery
from accounting.privacy import REPLACE_ONE, Relation, Unit
from accounting.records.documents import typed
from accounting.records.outside import MOST_EVENTS, EpsilonDeltaDpEvent, OutsideEvent, Single, counted, interleaved


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """`count` uses of one event; a program records each use before its first answer."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    event: Annotated[Single, Field(description="One use.", discriminator="type")]
    count: Annotated[int, Field(ge=1, le=MAX_COUNT, description="Number of uses.")]


_EVENTS: TypeAdapter[Iterable[PlannedEvent]] = TypeAdapter(
    Annotated[list[PlannedEvent], Field(min_length=1, max_length=MOST_EVENTS)]
)


@dataclass(frozen=True, slots=True)
class SessionPlan(AbstractComposition):
    """The events of a session or an outside release, between these neighbors; other answers may come in between."""

    events: tuple[PlannedEvent, ...]
    relation: Relation = REPLACE_ONE

    @staticmethod
    def of(events: Sequence[OutsideEvent], relation: Relation = REPLACE_ONE) -> "SessionPlan":
        """Return the plan of these events, with the parts of composed events as entries of their own.

        Raises
        ------
        OutOfRange
            if there are no entries, or more than 64.
        """
        planned = tuple(PlannedEvent(single, count) for event in events for single, count in counted(event))
        if not 1 <= len(planned) <= MOST_EVENTS:
            raise OutOfRange(f"a session must plan 1 to {MOST_EVENTS} kinds of answers; parts of composed events count")
        return SessionPlan(planned, relation)

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """Return the number of uses and the cost of one, for each event."""
        return tuple((planned.count, interleaved(planned.event, self.relation)) for planned in self.events)

    def recorded(self, recorded: Sequence[int]) -> "SessionPlan":
        """Return the part with this many uses of each event; without events if nothing was recorded.

        Raises
        ------
        OutOfRange
            unless there is one integer for each event, from 0 to its count.
        """
        is_complete = len(recorded) == len(self.events)
        if not is_complete or any(
            type(k) is not int or not 0 <= k <= planned.count for k, planned in zip(recorded, self.events, strict=True)
        ):
            raise OutOfRange("recorded must be one integer for each event of the plan, from 0 to its count")
        used = zip(recorded, self.events, strict=True)
        return SessionPlan(tuple(PlannedEvent(planned.event, k) for k, planned in used if k), self.relation)

    def misfit(self, n: int, unit: Unit) -> Single | None:
        """Return the first event that does not fit n records of this unit, or None."""
        return next((planned.event for planned in self.events if not planned.event.fits(n, unit)), None)

    def queries(self) -> Plan | None:
        """Return the plan of the same uses with nothing in between, or None if an event is no mechanism of ours."""
        queries = []
        for i, planned in enumerate(self.events):
            if isinstance(planned.event, EpsilonDeltaDpEvent):
                return None
            mechanism, noise_multiplier = planned.event.use
            queries.append(PlannedQuery(f"event {i}", planned.count, mechanism, noise_multiplier))
        return Plan(tuple(queries), self.relation)


@dataclass(frozen=True, slots=True)
class Certificate:
    """An epsilon that holds for a plan alone, at a delta, and the accountant that certifies it."""

    epsilon: float
    delta: float
    accountant: str
    accountant_version: str


def recorded_cost(rule: Filter, plan: SessionPlan, recorded: Sequence[int]) -> Cost:
    """Return the cost of the recorded uses of a plan; 0 if there are none. Raise as `SessionPlan.recorded`."""
    part = plan.recorded(recorded)
    return rule.cost(part) if part.events else rule.zero_cost


def refund(rule: Filter, cost: Cost, plan: SessionPlan, recorded: Sequence[int], *, whole: bool) -> Cost:
    """Return the largest part of a session's charge that may be returned when its program closes it.

    Parameters
    ----------
    rule : the ledger's filter now
    cost : the charge of the reservation
    recorded : uses of each event, at least those of which any answer was given
    whole : `LedgerState.whole`: the session took the whole budget

    Raises
    ------
    OutOfRange
        unless `recorded` is a part of the plan.
    """
    used = recorded_cost(rule, plan, recorded)
    if whole and any(recorded):
        return rule.zero_cost
    # A later version of this service may price the recorded part one unit above the whole plan. The paid price holds.
    return tuple(max(0, c - u) for c, u in zip(rule.vector(cost), used, strict=True))


def plan_epsilon(plan: SessionPlan, delta: float) -> Certificate:
    """Return the smallest epsilon of the plan alone at delta, by the sums of epsilon, mu^2 or Renyi curves.

    It holds whatever the answers are, and whenever they make the program stop. A plan without events has epsilon 0.

    Raises
    ------
    Unsupported
        if delta is 0 and an event is not pure.
    """
    candidates: list[Certificate] = []
    for accountant in (PureAccountant(), GaussianAccountant(), renyi_at_best(plan, delta)):
        epsilon = accountant.epsilon(plan, delta) if delta > 0 or isinstance(accountant, PureAccountant) else math.inf
        candidates.append(Certificate(epsilon, delta, accountant.name, accountant.version))
    best = min(candidates, key=lambda certificate: certificate.epsilon)
    if not math.isfinite(best.epsilon):
        raise Unsupported("this plan has no epsilon at delta 0: Gaussian noise needs a delta above 0")
    return best


def renyi_at_best(plan: SessionPlan, delta: float) -> RdpAccountant:
    """Return the Renyi accountant of the best order, which is found by bisection.

    Curves of many sampled events take seconds at all orders. The epsilon of an order a is ((a-1) rho(a) + (a-1) ln(a-1)
    - a ln a - ln delta) / (a-1). The numerator is convex in a, so epsilon falls and then rises. Any order is valid.
    """
    if not plan.events or delta <= 0:
        return RdpAccountant()
    low, high = 0, len(ORDERS) - 1
    while low < high:
        middle = (low + high) // 2
        pair = ORDERS[middle : middle + 2]
        smaller, larger = rdp_epsilons(pair, plan.rdp(pair), delta)
        low, high = (low, middle) if smaller <= larger else (middle + 1, high)
    return RdpAccountant(ORDERS[low : low + 1])


def plan_to_json(plan: SessionPlan) -> list[dict[str, Any]]:
    """Return `[{event, count}]`."""
    document: list[dict[str, Any]] = _EVENTS.dump_python(list(plan.events), mode="json")
    return document


def plan_from_json(document: Any, relation: Relation = REPLACE_ONE) -> SessionPlan:
    """Return the plan that `plan_to_json` wrote. Raise `CodecError` for anything else."""
    plan = SessionPlan(tuple(typed(_EVENTS, document, "a session's plan")), relation)
    if plan_to_json(plan) != document:
        raise CodecError("a session's plan differs from its canonical form")
    return plan
