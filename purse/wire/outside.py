"""Charges for mechanisms that ran elsewhere, and calibrations of noise."""

from typing import Any, Literal

from purse.wire.base import Identifier, Sha256, Title, Wire
from purse.wire.budgets import BudgetStatus


class ExternalCharged(Wire):
    """The ledger entry of an external charge, and the budget afterwards."""

    dataset: Identifier
    label: Title
    event: dict[str, Any]
    """The mechanism, as the request stated it."""
    exceeds: bool
    """True if the charge exceeded the budget."""
    sequence: int
    """Number of the ledger entry of the charge."""
    hash: Sha256
    budget: BudgetStatus
    """The budget after the charge."""


class Calibration(Wire):
    """The smallest noise for a privacy target."""

    noise_multiplier: float
    """Noise std (Laplace: scale) divided by the largest contribution of one record."""
    epsilon: float
    """Certified epsilon at delta, at most the requested one."""
    delta: float
    """The requested delta."""
    neighbors: Literal["replace_one", "zero_out"]
    """The requested neighbor relation."""
    accountant: str
    """The accountant that certifies it."""
    accountant_version: str
    """Version of the accountant."""
    event: dict[str, Any]
    """All answers as one event."""
