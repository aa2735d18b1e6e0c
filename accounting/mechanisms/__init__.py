"""The mechanisms, one file each, and the union that names them."""

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.poisson_gaussian import PoissonGaussian
from accounting.mechanisms.random_allocation import RandomAllocation

Mechanism = Gaussian | PoissonGaussian | RandomAllocation

__all__ = ["Gaussian", "Mechanism", "PoissonGaussian", "RandomAllocation"]
