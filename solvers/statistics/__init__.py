"""Private statistics of a dataset. Each is planned, priced and run like a method."""

from solvers.inference import RegressionTableRun
from solvers.statistics.counts import Counts
from solvers.statistics.covariance import Covariance
from solvers.statistics.evaluation import Evaluation
from solvers.statistics.means import Means
from solvers.statistics.profile import Profile
from solvers.statistics.quantiles import Quantiles
from solvers.statistics.table1 import Table1

AnyStatistic = Profile | Counts | Means | Quantiles | Covariance | Table1
"""Statistics of any dataset."""

AnyCounting = AnyStatistic | Evaluation | RegressionTableRun
"""All runs that release answers: statistics, evaluations, which use the holdout set only, and regression tables."""

__all__ = [
    "AnyCounting",
    "AnyStatistic",
    "Counts",
    "Covariance",
    "Evaluation",
    "Means",
    "Profile",
    "Quantiles",
    "Table1",
]
