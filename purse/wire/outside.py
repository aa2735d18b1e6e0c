"""Charges for mechanisms that ran elsewhere, and calibrations of noise."""

from typing import Annotated, Any, Literal

from pydantic import Field

from purse.wire.base import Identifier, Sha256, Title, Wire
from purse.wire.budgets import BudgetStatus


class ExternalCharged(Wire):
    """The ledger entry of an external charge, and the budget afterwards."""

    dataset: Identifier
    label: Title
    event: Annotated[dict[str, Any], Field(description="As stated.")]
    exceeds: Annotated[bool, Field(description="Whether it exceeded the budget.")]
    sequence: Annotated[int, Field(description="Number of its ledger entry.")]
    hash: Sha256
    budget: Annotated[BudgetStatus, Field(description="The budget after the charge.")]


class Calibration(Wire):
    """The smallest noise for a privacy target."""

    noise_multiplier: Annotated[
        float, Field(description="Noise std (Laplace: scale) divided by the largest contribution of one record.")
    ]
    epsilon: Annotated[float, Field(description="Certified epsilon at delta, at most the requested one.")]
    delta: Annotated[float, Field(description="As requested.")]
    neighbors: Annotated[Literal["replace_one", "zero_out"], Field(description="As requested.")]
    accountant: Annotated[str, Field(description="The accountant that certifies it.")]
    accountant_version: Annotated[str, Field(description="Version of the accountant.")]
    event: Annotated[dict[str, Any], Field(description="All answers as one event.")]
