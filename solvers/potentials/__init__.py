"""The potentials of mirror steps, one file each, and the union that names them."""

from solvers.potentials.half_squared_l2 import HalfSquaredL2

Potential = HalfSquaredL2

__all__ = ["HalfSquaredL2", "Potential"]
