"""Allotments: limits on what one analyst may spend of a dataset's budget."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from purse.wire.base import Delta, Epsilon, Identifier, Name, Timestamp, Wire

Mode = Literal["reserved", "shared"]


class AllotmentRequest(Wire):
    """A limit for one analyst: a share of the budget, or an (epsilon, delta) for all of their jobs together."""

    share: Annotated[float | None, Field(gt=0.0, le=1.0)] = None
    """Fraction of the budget: 0.25 is a quarter."""
    epsilon: Epsilon | None = None
    """At most the budget's."""
    delta: Delta | None = None
    """Allowed only with epsilon, and at most the budget's delta, which is the default."""
    mode: Mode = "shared"
    """`shared` is an upper limit, and all analysts draw on one pool. `reserved` sets the allotment aside for this
    analyst. All reservations and everything spent must fit in the budget. An analyst with a reservation and all others
    do not see each other's spending, except for profiles, which belong to the dataset."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.share is None) == (self.epsilon is None):
            raise ValueError("pass either share or epsilon, because each is a limit by itself")
        if self.delta is not None and self.epsilon is None:
            raise ValueError("delta is only for a limit by epsilon. Add epsilon, or leave out delta")
        return self


class Allotment(Wire):
    """An analyst's limit and how much of it is used."""

    analyst: Name
    identity: Annotated[Identifier, Field(description="Identity of the analyst, the same for all of their tokens.")]
    mode: Mode
    """`shared` is an upper limit. `reserved` is set aside for this analyst."""
    share: float
    """Fraction of the budget that all jobs of the analyst together may use."""
    epsilon: float
    """Epsilon that this share guarantees at delta."""
    delta: float
    """Its delta."""
    used: float
    """Fraction of the allotment that is spent."""
    set_by: Annotated[Name, Field(description="The steward who set it.")]
    set_at: Timestamp
