"""The mechanisms, one file each, and the union that names them."""

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.objective_perturbation import ObjectivePerturbation
from accounting.mechanisms.parallel import Parallel
from accounting.mechanisms.poisson_gaussian import PoissonGaussian
from accounting.mechanisms.resampled import Resampled

Mechanism = Gaussian | Laplace | ObjectivePerturbation | Parallel | PoissonGaussian | Resampled

__all__ = ["Gaussian", "Laplace", "Mechanism", "ObjectivePerturbation", "Parallel", "PoissonGaussian", "Resampled"]
