"""The mechanisms, one file each, and the union that names them."""

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.parallel import Parallel
from accounting.mechanisms.poisson_gaussian import PoissonGaussian

Mechanism = Gaussian | Laplace | PoissonGaussian | Parallel

__all__ = ["Gaussian", "Laplace", "Mechanism", "Parallel", "PoissonGaussian"]
