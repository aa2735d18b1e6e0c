"""Budgets of datasets: declared, spent and remaining."""

from typing import Annotated, Literal

from pydantic import Field

from purse.text import percent
from purse.wire.allotments import Allotment
from purse.wire.base import Delta, Epsilon, Name, Protected, Timestamp, Wire
from purse.wire.neighbors import Meaning, Neighbors, OtherRelation

FilterKind = Literal["rdp", "gdp", "gdp_rdp", "pure"]


class Budget(Wire):
    """The budget of all answers about a dataset together."""

    epsilon: Epsilon
    delta: Delta
    filter: FilterKind = "gdp_rdp"
    """Privacy filter that enforces the budget. `gdp_rdp` admits any mechanism, and charges Gaussian ones nearly as
    `gdp` does. `rdp` admits any mechanism. `gdp` admits only pure ones, and Gaussian ones without sampling.
    `pure` is for delta = 0."""
    slack: Annotated[float | None, Field(gt=0, le=0.01)] = None
    """Part of delta, at most half, set aside for jobs that are charged by an approximation. If null, a sixteenth of
    delta under gdp_rdp. Under rdp it serves up to 16 jobs with secret slots (noisy_mirror_descent), which are otherwise
    charged as if the slots were public."""


class BudgetChange(Wire):
    """A new budget in place of the last one."""

    epsilon: Epsilon
    delta: Delta
    filter: FilterKind | None = None
    """The filter. Unchanged if null. The first charge fixes it."""
    slack: Annotated[float | None, Field(gt=0, le=0.01)] = None
    """Slack of the filter, as in a dataset spec. Must be null after the first charge."""


class PrivacyLoss(Wire):
    """An (epsilon, delta) pair."""

    epsilon: float
    """Its epsilon."""
    delta: float
    """Its delta."""


class AnalystSpend(Wire):
    """Spending of one analyst so far."""

    analyst: Name
    jobs: int
    """Number of this analyst's charges that were not refunded: jobs, sessions and charges from outside."""
    share: float
    """Fraction of the budget, 0 to 1, that this analyst has spent."""
    spent: PrivacyLoss
    """Guarantee of this analyst's charges alone."""
    allotment: Allotment | None = None
    """The analyst's limit, if there is one."""


class Promise(PrivacyLoss):
    """A budget and its start. Everything released before the next budget began is covered by this one."""

    since: Timestamp


class BudgetStatus(Wire):
    """A dataset's budget: what is spent of it, and what remains."""

    epsilon: float
    """Epsilon of the budget. If allotments are reserved, an analyst sees the epsilon of the analyst's own part
    instead."""
    delta: float
    """The budget's delta."""
    neighbors: Neighbors
    meaning: Meaning
    elsewhere: OtherRelation
    unit: Protected
    filter: FilterKind
    """Privacy filter that enforces the budget."""
    share: float
    """Fraction of the budget, 0 to 1, that is spent. If the filter keeps several sums, all fractions refer to the sum
    that is farthest from its threshold. Therefore those of the analysts add up to this one."""
    spent: PrivacyLoss
    """Guarantee of all charges so far, at the budget's delta."""
    remaining: PrivacyLoss
    """The largest epsilon of one more Gaussian-type job that would be admitted."""
    jobs: int
    """Number of charges that were not refunded: jobs, sessions and charges from outside."""
    promises: list[Promise]
    """All budgets, from the first one to the last, which is in force."""
    frozen: bool
    """Whether all spending is blocked, until a steward unfreezes the dataset."""
    exceeded: bool
    """Whether external charges exceed the budget, so that its guarantee no longer holds."""
    analysts: list[AnalystSpend]
    """Spending by analyst. Analysts see only their own entry. Stewards and auditors see all."""

    def __repr__(self) -> str:
        remainder = f"one more job may use epsilon {self.remaining.epsilon:.4g}"
        return (
            f"<budget: {percent(self.share)} of epsilon {self.epsilon:g} at delta {self.delta:g} is spent; {remainder}>"
        )
