"""The regularizers, one file each, and the union that names them."""

from solvers.regularizers.l2 import L2
from solvers.regularizers.none import NoRegularizer

Regularizer = NoRegularizer | L2

__all__ = ["L2", "NoRegularizer", "Regularizer"]
