"""The mechanisms, one file each, and their union."""

from accounting.mechanisms.exponential import Exponential
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.laplace import Laplace
from accounting.mechanisms.last_iterate import LastIterate
from accounting.mechanisms.objective_perturbation import ObjectivePerturbation
from accounting.mechanisms.parallel import Parallel
from accounting.mechanisms.poisson_gaussian import PoissonGaussian
from accounting.mechanisms.random_allocation import RandomAllocation
from accounting.mechanisms.random_iterate import RandomIterate
from accounting.mechanisms.resampled import Resampled
from accounting.mechanisms.row_objective_perturbation import RowObjectivePerturbation
from accounting.mechanisms.selection import Selection
from accounting.mechanisms.svrg_step import SvrgStep
from accounting.mechanisms.without_replacement import WithoutReplacement

Mechanism = (
    Exponential
    | Gaussian
    | Laplace
    | LastIterate
    | ObjectivePerturbation
    | Parallel
    | PoissonGaussian
    | RandomAllocation
    | RandomIterate
    | Resampled
    | RowObjectivePerturbation
    | Selection
    | SvrgStep
    | WithoutReplacement
)

__all__ = [
    "Exponential",
    "Gaussian",
    "Laplace",
    "LastIterate",
    "Mechanism",
    "ObjectivePerturbation",
    "Parallel",
    "PoissonGaussian",
    "RandomAllocation",
    "RandomIterate",
    "Resampled",
    "RowObjectivePerturbation",
    "Selection",
    "SvrgStep",
    "WithoutReplacement",
]
