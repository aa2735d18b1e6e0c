"""What ran elsewhere, charged here; and the calculator."""

from typing import Annotated, Any, Literal

from pydantic import Field

from purse.wire.base import Identifier, Sha256, Title, Wire
from purse.wire.datasets import BudgetStatus


class ExternalCharged(Wire):
    """An entry of the ledger, and how the budget then stands."""

    dataset: Identifier
    label: Title
    event: Annotated[dict[str, Any], Field(description="As stated.")]
    exceeds: Annotated[bool, Field(description="Whether it did not fit the budget.")]
    sequence: Annotated[int, Field(description="The ledger's entry of it.")]
    hash: Sha256
    budget: Annotated[BudgetStatus, Field(description="The budget as it stands now.")]


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
