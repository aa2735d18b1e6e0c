"""Private statistics of a dataset. Each is planned, priced and run like a method."""

from solvers.inference import RegressionTableRun
from solvers.statistics.counts import Counts as Counts
from solvers.statistics.covariance import Covariance as Covariance
from solvers.statistics.evaluation import Evaluation as Evaluation
from solvers.statistics.means import Means as Means
from solvers.statistics.profile import Profile as Profile
from solvers.statistics.quantiles import Quantiles as Quantiles
from solvers.statistics.table1 import Table1 as Table1

AnyStatistic = Profile | Counts | Means | Quantiles | Covariance | Table1
"""Statistics of any dataset."""

AnyCounting = AnyStatistic | Evaluation | RegressionTableRun
"""All runs that release answers: statistics, evaluations, which use the holdout set only, and regression tables."""
