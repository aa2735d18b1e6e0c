"""Allotments: what one analyst may spend of a dataset's budget."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from purse.wire.base import Delta, Epsilon, Identifier, Name, Timestamp, Wire

Mode = Literal["reserved", "shared"]


class AllotmentRequest(Wire):
    """A cap for one analyst: a share of the budget, or an (epsilon, delta) that their jobs together keep."""

    share: Annotated[float | None, Field(gt=0.0, le=1.0, description="A part of the budget: 0.25 is a quarter.")] = None
    epsilon: Annotated[Epsilon | None, Field(description="At most the budget's.")] = None
    delta: Annotated[Delta | None, Field(description="With an epsilon; at most the budget's, which it is if null.")] = (
        None
    )
    mode: Annotated[
        Mode,
        Field(
            description="shared: a cap, and whatever others leave. reserved: kept for this analyst; all reservations "
            "and what is spent fit the budget, and no one's spending shows in another's answers, but for profiles: "
            "they are the dataset's."
        ),
    ] = "shared"

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.share is None) == (self.epsilon is None):
            raise ValueError("name either a share or an epsilon")
        if self.delta is not None and self.epsilon is None:
            raise ValueError("delta goes with an epsilon")
        return self


class Allotment(Wire):
    """What one analyst may spend of a budget, as it was set, and as it stands."""

    analyst: Name
    identity: Annotated[Identifier, Field(description="The analyst's, whatever token it shows.")]
    mode: Annotated[Mode, Field(description="shared: a cap; reserved: kept for this analyst.")]
    share: Annotated[float, Field(description="Of the budget: what the analyst's jobs may use of it together.")]
    epsilon: Annotated[float, Field(description="What that guarantees at this delta.")]
    delta: Annotated[float, Field(description="Its delta.")]
    used: Annotated[float, Field(description="The part of the allotment that is spent.")]
    set_by: Annotated[Name, Field(description="The steward who set it.")]
    set_at: Timestamp
