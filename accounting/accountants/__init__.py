"""The accountants: each certifies an epsilon for a plan at a delta, and the smallest one is stated."""

from accounting.accountants.pure import PureAccountant
from accounting.accountants.rdp import RdpAccountant
from accounting.accountants.single_use import SingleUseAccountant
from accounting.accountants.tight import GaussianAccountant, PldAccountant, RoughPld

Accountant = PureAccountant | GaussianAccountant | SingleUseAccountant | PldAccountant | RdpAccountant
ACCOUNTANTS: tuple[Accountant, ...] = (
    PureAccountant(),
    GaussianAccountant(),
    SingleUseAccountant(),
    PldAccountant(),
    RdpAccountant(),
)
"""In order of preference: the first with the smallest epsilon wins."""


__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "GaussianAccountant",
    "PldAccountant",
    "PureAccountant",
    "RdpAccountant",
    "RoughPld",
    "SingleUseAccountant",
]
