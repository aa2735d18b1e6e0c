"""Compiled loops over records: arrays and numbers, nothing of ours but their slopes. Importing this compiles them all.

All signatures are explicit: the import compiles them, or loads them from numba's cache, and nothing is compiled later.
"""

from solvers.kernels.build import ENTRIES, c_function
from solvers.kernels.slopes import MOST_PARAMETERS, Slope, derivatives, slope
from solvers.kernels.steps import ABSOLUTE, COARSEST, FARTHEST, FINEST, LARGEST, RELATIVE, Walk, fit, round_tails, walk
from solvers.kernels.sums import length, norms, sum_of_changes, sum_of_places, sum_of_range

__all__ = [
    "ABSOLUTE",
    "COARSEST",
    "ENTRIES",
    "FARTHEST",
    "FINEST",
    "LARGEST",
    "MOST_PARAMETERS",
    "RELATIVE",
    "Slope",
    "Walk",
    "c_function",
    "derivatives",
    "fit",
    "length",
    "norms",
    "round_tails",
    "slope",
    "sum_of_changes",
    "sum_of_places",
    "sum_of_range",
    "walk",
]
