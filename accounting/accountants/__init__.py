"""The accountants: each certifies an epsilon for a plan at a delta, and the smallest one is stated.

An accountant that does not cover a plan returns an infinite epsilon.
"""

from accounting.accountants.pure import PureAccountant as PureAccountant
from accounting.accountants.rdp import RdpAccountant as RdpAccountant
from accounting.accountants.single_use import SingleUseAccountant as SingleUseAccountant
from accounting.accountants.tight import GaussianAccountant as GaussianAccountant
from accounting.accountants.tight import PldAccountant as PldAccountant
from accounting.accountants.tight import RoughPld as RoughPld

Accountant = PureAccountant | GaussianAccountant | SingleUseAccountant | PldAccountant | RdpAccountant
ACCOUNTANTS: tuple[Accountant, ...] = (
    PureAccountant(),
    GaussianAccountant(),
    SingleUseAccountant(),
    PldAccountant(),
    RdpAccountant(),
)
"""In order of preference: the first with the smallest epsilon wins."""
