"""Prices of sessions: the cost of a plan on each ledger that it is reserved on, and of the part that was used."""

from dataclasses import dataclass
from typing import Literal

from accounting.errors import BudgetExhausted
from accounting.filter import Cost, Filter
from accounting.records.sessions import Certificate, SessionPlan, plan_epsilon, refund, session_cost


@dataclass(frozen=True, slots=True)
class PricePlan:
    """A request for the cost of a session's plan.

    Parameters
    ----------
    rules : filters of the ledgers that the plan is reserved on
    delta : at which the plan's epsilon is stated
    """

    plan: SessionPlan
    rules: tuple[Filter, ...]
    delta: float
    kind: Literal["price_plan"] = "price_plan"


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """The cost of a plan under each filter (None if no budget could hold it), and its guarantee."""

    costs: tuple[Cost | None, ...]
    certificate: Certificate
    kind: Literal["priced_plan"] = "priced_plan"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A live charge of a session on one ledger; `whole` if it took the whole budget."""

    rule: Filter
    cost: Cost
    whole: bool


@dataclass(frozen=True, slots=True)
class PriceRefund:
    """A request for the refund of a session that has recorded these uses of its plan."""

    plan: SessionPlan
    recorded: tuple[int, ...]
    reservations: tuple[Reservation, ...]
    delta: float
    kind: Literal["price_refund"] = "price_refund"


@dataclass(frozen=True, slots=True)
class PricedRefund:
    """The refund on each ledger, and the guarantee of the recorded uses."""

    refunds: tuple[Cost, ...]
    certificate: Certificate
    kind: Literal["priced_refund"] = "priced_refund"


def price_plan(question: PricePlan) -> PricedPlan:
    """Return the price of a plan."""
    costs = tuple(_cost(rule, question.plan) for rule in question.rules)
    return PricedPlan(costs, plan_epsilon(question.plan, question.delta))


def price_refund(question: PriceRefund) -> PricedRefund:
    """Return the refund of a session."""
    refunds = tuple(
        refund(each.rule, each.cost, question.plan, question.recorded, whole=each.whole)
        for each in question.reservations
    )
    return PricedRefund(refunds, plan_epsilon(question.plan.recorded(question.recorded), question.delta))


def _cost(rule: Filter, plan: SessionPlan) -> Cost | None:
    try:
        return session_cost(rule, plan)
    except BudgetExhausted:
        return None
