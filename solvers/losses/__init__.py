"""The losses, one file each, and the union that names them."""

from solvers.losses.logistic import Logistic
from solvers.losses.squared import Squared

Loss = Logistic | Squared

__all__ = ["Logistic", "Loss", "Squared"]
