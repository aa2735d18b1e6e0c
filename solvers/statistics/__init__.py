"""What is told of a dataset beside models: each a run that is planned, priced and answered as a method's is."""

from solvers.statistics.profile import Profile

__all__ = ["Profile"]
