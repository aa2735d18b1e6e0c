"""The mechanisms, one file each, and the union that names them."""

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.objective_perturbation import ObjectivePerturbation
from accounting.mechanisms.poisson_gaussian import PoissonGaussian

Mechanism = Gaussian | ObjectivePerturbation | PoissonGaussian

__all__ = ["Gaussian", "Mechanism", "ObjectivePerturbation", "PoissonGaussian"]
