"""Budgets of datasets: declared, spent and remaining."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.allotments import Allotment
from purse.wire.base import Delta, Epsilon, Name, Protected, Timestamp, Wire
from purse.wire.neighbors import Meaning, Neighbors, OtherRelation

FilterKind = Literal["rdp", "gdp", "gdp_rdp", "pure"]


class Budget(Wire):
    """The budget of all answers about a dataset together."""

    epsilon: Epsilon
    delta: Delta
    filter: Annotated[
        FilterKind,
        Field(
            description="gdp_rdp (any mechanism, Gaussian ones nearly as under gdp), rdp (any mechanism), gdp "
            "(Gaussian mechanisms alone), pure (delta = 0)."
        ),
    ] = "gdp_rdp"
    slack: Annotated[
        float | None,
        Field(
            gt=0,
            le=0.01,
            description="Part of delta, at most half, set aside for jobs that are "
            "charged by an approximation. If null, "
            "a sixteenth of delta under gdp_rdp. Under rdp it serves up to 16 jobs with secret slots "
            "(noisy_mirror_descent), which are otherwise charged as if the slots were public.",
        ),
    ] = None


class BudgetChange(Wire):
    """A new budget in place of the last one."""

    epsilon: Epsilon
    delta: Delta
    filter: Annotated[
        FilterKind | None, Field(description="The filter. Unchanged if null. The first charge fixes it.")
    ] = None
    slack: Annotated[
        float | None,
        Field(
            gt=0, le=0.01, description="As in a spec. It cannot change after the first charge, so it must then be null."
        ),
    ] = None


class PrivacyLoss(Wire):
    """An (epsilon, delta) pair."""

    epsilon: Annotated[float, Field(description="Its epsilon.")]
    delta: Annotated[float, Field(description="Its delta.")]


class AnalystSpend(Wire):
    """Spending of one analyst so far."""

    analyst: Name
    jobs: Annotated[int, Field(description="Number of charged jobs.")]
    share: Annotated[float, Field(description="Fraction of the budget, 0 to 1, that this analyst has spent.")]
    spent: Annotated[PrivacyLoss, Field(description="Guarantee of this analyst's charges alone.")]
    allotment: Annotated[Allotment | None, Field(description="The analyst's limit, if there is one.")] = None


class Promise(Wire):
    """A budget and its start. Everything released before the next budget began is covered by this one."""

    epsilon: Annotated[float, Field(description="Its epsilon.")]
    delta: Annotated[float, Field(description="Its delta.")]
    since: Timestamp


class BudgetStatus(Wire):
    """A dataset's budget: an odometer (spent) and a filter (remaining)."""

    epsilon: Annotated[
        float,
        Field(description="Epsilon of the budget. If allotments are reserved, an analyst sees that of the own part."),
    ]
    delta: Annotated[float, Field(description="The budget's delta.")]
    neighbors: Neighbors
    meaning: Meaning
    elsewhere: OtherRelation
    unit: Protected
    filter: Annotated[FilterKind, Field(description="Privacy filter that enforces the budget.")]
    share: Annotated[
        float,
        Field(
            description="Fraction of the budget, 0 to 1, that is spent. It is measured at the filter's order with the "
            "largest remainder, like the fractions of all analysts, which add up to it."
        ),
    ]
    spent: Annotated[PrivacyLoss, Field(description="Guarantee of all charges so far, at the budget's delta.")]
    remaining: Annotated[
        PrivacyLoss, Field(description="The largest epsilon of one more Gaussian-type job that would be admitted.")
    ]
    jobs: Annotated[int, Field(description="Number of charged jobs.")]
    promises: Annotated[
        list[Promise],
        Field(description="All budgets, from the first one to the last, which is in force."),
    ]
    frozen: Annotated[bool, Field(description="Whether the steward has stopped all spending.")]
    exceeded: Annotated[
        bool, Field(description="Whether external charges exceed the budget, so that its guarantee no longer holds.")
    ]
    analysts: Annotated[
        list[AnalystSpend],
        Field(description="Spending by analyst. An analyst sees the own entry. Stewards and auditors see all."),
    ]

    def __repr__(self) -> str:
        remainder = f"one more job may take epsilon {self.remaining.epsilon:.4g}"
        return f"<budget: {self.share:.3%} of epsilon {self.epsilon:g} at delta {self.delta:g} is spent; {remainder}>"
