"""All compiled code that a run calls: the loops, and the derivative of every loss.

Importing this module compiles the code or loads it from numba's cache. A server's worker imports it when it starts, so
nothing is compiled in a job. The one job of `purse fit` loads only the code that its method uses.
"""

from typing import get_args

from solvers.kernels import ENTRIES, c_function  # noqa: F401, all entries: a name alone loads its module's
from solvers.losses import Loss
from solvers.losses.one_margin import OneMargin

for _kind in get_args(Loss):
    if issubclass(_kind, OneMargin):
        c_function(_kind.derivative)
