"""All of it: importing this compiles every loop for its one signature, or loads it from numba's cache."""

from solvers.kernels.build import ENTRIES, c_function
from solvers.kernels.limited import inverse_norms, residual_sum, scalar_sum, softmax_sum
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
    "inverse_norms",
    "length",
    "norms",
    "residual_sum",
    "round_tails",
    "scalar_sum",
    "slope",
    "softmax_sum",
    "sum_of_changes",
    "sum_of_places",
    "sum_of_range",
    "walk",
]
