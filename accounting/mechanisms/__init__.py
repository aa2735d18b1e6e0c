"""The mechanisms, one file each, and their union."""

from accounting.mechanisms.exponential import Exponential as Exponential
from accounting.mechanisms.gaussian import Gaussian as Gaussian
from accounting.mechanisms.laplace import Laplace as Laplace
from accounting.mechanisms.last_iterate import LastIterate as LastIterate
from accounting.mechanisms.objective_perturbation import ObjectivePerturbation as ObjectivePerturbation
from accounting.mechanisms.parallel import Parallel as Parallel
from accounting.mechanisms.poisson_gaussian import PoissonGaussian as PoissonGaussian
from accounting.mechanisms.random_allocation import RandomAllocation as RandomAllocation
from accounting.mechanisms.random_iterate import RandomIterate as RandomIterate
from accounting.mechanisms.resampled import Resampled as Resampled
from accounting.mechanisms.row_objective_perturbation import RowObjectivePerturbation as RowObjectivePerturbation
from accounting.mechanisms.selection import Selection as Selection
from accounting.mechanisms.svrg_step import SvrgStep as SvrgStep
from accounting.mechanisms.without_replacement import WithoutReplacement as WithoutReplacement

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
