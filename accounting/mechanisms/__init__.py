"""The mechanisms, one file each, and the union that names them."""

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.poisson_gaussian import PoissonGaussian

Mechanism = Gaussian | PoissonGaussian

__all__ = ["Gaussian", "Mechanism", "PoissonGaussian"]
