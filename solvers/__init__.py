"""Private solvers: problems, the oracle, methods; plan and solve."""

from solvers import domains, losses, methods, potentials, regularizers
from solvers.forecast import Forecast
from solvers.problem import Problem
from solvers.solve import Quote, Release, plan, solve

__all__ = [
    "Forecast",
    "Problem",
    "Quote",
    "Release",
    "domains",
    "losses",
    "methods",
    "plan",
    "potentials",
    "regularizers",
    "solve",
]
