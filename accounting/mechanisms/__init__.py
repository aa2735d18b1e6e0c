"""The mechanisms, one file each, and the union that names them."""

from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.last_iterate import LastIterate
from accounting.mechanisms.objective_perturbation import ObjectivePerturbation
from accounting.mechanisms.poisson_gaussian import PoissonGaussian
from accounting.mechanisms.random_iterate import RandomIterate

Mechanism = Gaussian | LastIterate | ObjectivePerturbation | PoissonGaussian | RandomIterate

__all__ = ["Gaussian", "LastIterate", "Mechanism", "ObjectivePerturbation", "PoissonGaussian", "RandomIterate"]
