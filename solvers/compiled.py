"""All that a run calls and that is compiled: the loops, and the derivative of every loss.

Importing this compiles it, or loads it from numba's cache. A worker does so as it starts: nothing is compiled in a job.
"""

from typing import get_args

from solvers.kernels import ENTRIES, c_function
from solvers.losses import Loss
from solvers.losses.one_margin import OneMargin

assert ENTRIES  # all of them, by then

for _kind in get_args(Loss):
    if issubclass(_kind, OneMargin):
        c_function(_kind.derivative)
