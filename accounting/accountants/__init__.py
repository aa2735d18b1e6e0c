"""The accountants: each certifies an epsilon for a plan at a delta; the least of them is what a job is charged as."""

from accounting.accountants.pure import PureAccountant
from accounting.accountants.random_iterate import RandomIterateAccountant
from accounting.accountants.rdp import RdpAccountant
from accounting.accountants.tight import GaussianAccountant, PldAccountant

Accountant = PureAccountant | GaussianAccountant | RandomIterateAccountant | PldAccountant | RdpAccountant
ACCOUNTANTS: tuple[Accountant, ...] = (
    PureAccountant(),
    GaussianAccountant(),
    RandomIterateAccountant(),
    PldAccountant(),
    RdpAccountant(),
)
"""In order of preference: the first that supports a plan and is least wins."""


def accountant(name: str) -> Accountant:
    """The accountant of that name (`KeyError` if there is none)."""
    return {a.name: a for a in ACCOUNTANTS}[name]


__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "GaussianAccountant",
    "PldAccountant",
    "PureAccountant",
    "RandomIterateAccountant",
    "RdpAccountant",
    "accountant",
]
