"""The accountants: each certifies an epsilon for a plan at a delta; the least of them is what a job is charged as."""

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
"""In order of preference: the first that supports a plan and is least wins."""


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
