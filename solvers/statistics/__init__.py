"""What is told of a dataset beside models: each a run that is planned, priced and answered as a method's is."""

from solvers.statistics.counts import Counts
from solvers.statistics.covariance import Covariance
from solvers.statistics.evaluation import Evaluation
from solvers.statistics.means import Means
from solvers.statistics.profile import Profile
from solvers.statistics.quantiles import Quantiles

AnyStatistic = Profile | Counts | Means | Quantiles | Covariance
"""What may be asked of any dataset."""

AnyCounting = AnyStatistic | Evaluation
"""Beside them what is asked of a kept-out part alone."""

__all__ = ["AnyCounting", "AnyStatistic", "Counts", "Covariance", "Evaluation", "Means", "Profile", "Quantiles"]
