"""Private solvers: problems, the oracle, methods; plan and solve."""

from solvers import domains as domains
from solvers import losses as losses
from solvers import methods as methods
from solvers import potentials as potentials
from solvers import regularizers as regularizers
from solvers.problem import Problem as Problem
from solvers.risk_bound import RiskBound as RiskBound
from solvers.solve import PlannedRun as PlannedRun
from solvers.solve import Release as Release
from solvers.solve import plan as plan
from solvers.solve import solve as solve
