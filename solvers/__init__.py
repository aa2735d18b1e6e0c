"""Private solvers: problems, the oracle, methods; plan and solve."""

from solvers import domains, losses, methods, potentials, regularizers
from solvers.problem import Problem
from solvers.solve import Quote, Release, plan, solve

__all__ = ["Problem", "Quote", "Release", "domains", "losses", "methods", "plan", "potentials", "regularizers", "solve"]
