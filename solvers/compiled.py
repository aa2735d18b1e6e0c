"""All that a run calls and that is compiled: the loops, and the derivative of every loss.

Importing this compiles it, or loads it from numba's cache. A server's worker does so as it starts: nothing is compiled
in a job. The one job of `purse fit` loads what it takes, as its method asks for it.
"""

from typing import get_args

from solvers.kernels import ENTRIES, c_function  # noqa: F401, all entries: a name alone loads its module's
from solvers.losses import Loss
from solvers.losses.one_margin import OneMargin

for _kind in get_args(Loss):
    if issubclass(_kind, OneMargin):
        c_function(_kind.derivative)
