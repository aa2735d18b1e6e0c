"""What is told of a dataset beside models: each a run that is planned, priced and answered as a method's is."""

from solvers.statistics.counts import Counts
from solvers.statistics.covariance import Covariance
from solvers.statistics.means import Means
from solvers.statistics.profile import Profile
from solvers.statistics.quantiles import Quantiles

AnyStatistic = Profile | Counts | Means | Quantiles | Covariance

__all__ = ["AnyStatistic", "Counts", "Covariance", "Means", "Profile", "Quantiles"]
