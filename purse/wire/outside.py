"""What ran elsewhere, charged here; and the calculator."""

from typing import Annotated, Any, Literal

from pydantic import Field

from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian
from accounting.plan import MAX_COUNT
from accounting.privacy import Relation
from accounting.records.outside import OutsideEvent
from purse.wire.base import Delta, Epsilon, Identifier, Sha256, Title, Wire
from purse.wire.datasets import BudgetStatus


class ExternalCharge(Wire):
    """A mechanism that ran elsewhere, on the same people: what it cost is charged to the dataset's ledger."""

    label: Annotated[
        Title, Field(description="Your own name for it. The same label with the same event again is the same charge.")
    ]
    event: Annotated[
        OutsideEvent,
        Field(description="What ran, in the names of dp-accounting; noise multipliers over the per-record bound."),
    ]
    exceeds: Annotated[
        bool,
        Field(
            description="Record it also if it does not fit, for it has happened: the budget is then exceeded, and "
            "the ledger frozen. Without this, what does not fit is refused."
        ),
    ] = False


class ExternalCharged(Wire):
    """An entry of the ledger, and how the budget then stands."""

    dataset: Identifier
    label: Title
    event: Annotated[dict[str, Any], Field(description="As stated.")]
    exceeds: Annotated[bool, Field(description="Whether it did not fit the budget.")]
    sequence: Annotated[int, Field(description="The ledger's entry of it.")]
    hash: Sha256
    budget: Annotated[BudgetStatus, Field(description="The budget as it stands now.")]


class CalibrationRequest(Wire):
    """A mechanism, and what all its answers together are to keep."""

    mechanism: Annotated[
        Gaussian | Laplace | PoissonGaussian,
        Field(discriminator="name", description="How each answer is made private."),
    ]
    count: Annotated[int, Field(ge=1, le=MAX_COUNT, description="How many answers.")] = 1
    epsilon: Epsilon
    delta: Delta = 0.0
    neighbors: Annotated[Relation, Field(description="Between which datasets.")] = "replace_one"


class Calibration(Wire):
    """The least noise for it."""

    noise_multiplier: Annotated[
        float, Field(description="Noise std (Laplace: scale) over the most that one record adds to an answer.")
    ]
    epsilon: Annotated[float, Field(description="What is certified at delta; never above what was asked for.")]
    delta: Annotated[float, Field(description="As asked for.")]
    neighbors: Annotated[Literal["replace_one", "zero_out"], Field(description="As asked for.")]
    accountant: Annotated[str, Field(description="Who certifies it.")]
    accountant_version: Annotated[str, Field(description="And which version of it.")]
    event: Annotated[dict[str, Any], Field(description="All the answers, as an event.")]
