"""Prices of sessions: the cost of a plan, and the refund of the part that was not used."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from accounting.errors import BudgetExhausted
from accounting.filter import Cost, Filter
from accounting.records.sessions import Certificate, SessionPlan, plan_epsilon, refund


@dataclass(frozen=True, slots=True)
class PricePlan:
    """A request for the cost of a session's plan.

    Parameters
    ----------
    rule : the filter that would be charged
    delta : at which the plan's epsilon is stated
    """

    plan: SessionPlan
    rule: Filter
    delta: float
    kind: Literal["price_plan"] = "price_plan"


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """The cost of a plan in the filter's currency (None if no budget could hold it), and its guarantee."""

    cost: Cost | None
    certificate: Certificate
    kind: Literal["priced_plan"] = "priced_plan"


@dataclass(frozen=True, slots=True)
class PriceRefund:
    """A request for the refund of a session that has recorded these uses of its plan.

    Parameters
    ----------
    rule, cost, whole : the filter, the charge, and whether it took the whole budget
    delta : at which the epsilon of the recorded uses is stated
    """

    plan: SessionPlan
    recorded: tuple[int, ...]
    rule: Filter
    cost: Cost
    whole: bool
    delta: float
    kind: Literal["price_refund"] = "price_refund"


@dataclass(frozen=True, slots=True)
class PricedRefund:
    """The refund of a session that is closed, and the epsilon of its recorded uses."""

    cost: Cost
    certificate: Certificate
    kind: Literal["priced_refund"] = "priced_refund"


def price_plan(question: PricePlan) -> PricedPlan:
    """Return the price of a plan."""
    cost: Cost | None = None
    with suppress(BudgetExhausted):
        cost = question.rule.cost(question.plan)
    return PricedPlan(cost, plan_epsilon(question.plan, question.delta))


def price_refund(question: PriceRefund) -> PricedRefund:
    """Return the refund of a session."""
    cost = refund(question.rule, question.cost, question.plan, question.recorded, whole=question.whole)
    return PricedRefund(cost, plan_epsilon(question.plan.recorded(question.recorded), question.delta))
