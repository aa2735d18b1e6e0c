"""The potentials of mirror steps, one file each, and their union."""

from typing import get_args

from solvers.potentials.half_squared_l2 import HalfSquaredL2
from solvers.potentials.half_squared_lp import HalfSquaredLp
from solvers.potentials.negative_entropy import NegativeEntropy

Potential = HalfSquaredL2 | HalfSquaredLp | NegativeEntropy
POTENTIALS: tuple[Potential, ...] = tuple(kind() for kind in get_args(Potential))

__all__ = ["POTENTIALS", "HalfSquaredL2", "HalfSquaredLp", "NegativeEntropy", "Potential"]
