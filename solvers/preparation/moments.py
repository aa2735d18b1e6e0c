"""Private moments of rows whose layout is declared: means, and variances, clamped to where they can lie.

Three Gaussian answers at most (docs/proofs/standardisation.md); what is computed from them is post-processing.
"""

import math

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers.columns import Columns
from solvers.doors import Standardised
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_FARTHEST = 4.0  # the most that (x - m)^2 can be: numbers and means lie in [-1, 1]


def columns_of(problem: Problem) -> Columns:
    """The declared layout; `Unsuitable` if there is none, or rows are clipped."""
    if problem.columns is None or problem.row_norm < problem.columns.row_norm:
        raise Unsuitable("private moments need declared columns; rows must not be clipped: leave out row_norm")
    return problem.columns


def queries(problem: Problem, means: float, spread: float, variances: float) -> tuple[Query, ...]:
    """What is asked, with these weights: no variances where no column is a number, nothing where there is no column."""
    found: tuple[Query, ...] = (Query("means", 1, Gaussian(), means),) if problem.d > 1 else ()
    if columns_of(problem).is_number.any():
        found += (Query("spread", 1, Gaussian(), spread), Query("variances", 1, Gaussian(), variances))
    return found


def bounds(problem: Problem) -> dict[str, tuple[float, int]]:
    """Of each of them: half its sensitivity at its largest, m an end of each range, rounding aside; its coordinates."""
    columns, n = columns_of(problem), problem.n
    numbers, widest = int(columns.is_number.sum()), (columns.high - columns.low) ** 2
    every = {
        "means": (columns.diameter / 2 / n, problem.d - 1),
        "spread": (float(widest.sum()) / 2 / n, 1),
        "variances": (math.hypot(*widest.tolist()) / 2 / n, numbers),
    }
    return {query.name: every[query.name] for query in queries(problem, 1.0, 1.0, 1.0)}


def ask(oracle: Standardised, problem: Problem, floor: float) -> tuple[Vector, Vector]:
    """Means, and variances of at least `floor` stds of their own noise, in (0, 4]: (d - 1,) each."""
    columns, n = columns_of(problem), problem.n
    if problem.d == 1:
        return np.zeros(0), np.zeros(0)
    numbers = columns.is_number
    low, high = np.zeros(problem.d - 1), np.ones(problem.d - 1)
    low[numbers], high[numbers] = columns.low, columns.high
    center = np.clip(oracle.means("means"), low, high)
    v = center * (1 - center)
    stds = np.full(len(v), oracle.planned("means").noise_multiplier * columns.diameter / 2 / n)
    if numbers.any():
        least = oracle.planned("spread").noise_multiplier * float(columns.farthest(center).sum()) / (2 * n)
        spread = min(max(oracle.spread("spread", center), least), _FARTHEST * int(numbers.sum()))
        radius = 1.2 * math.sqrt(1.1 * spread)
        v[numbers] = oracle.variances("variances", center, radius)
        stds[numbers] = oracle.planned("variances").noise_multiplier * columns.variance_bound(center, radius) / n
    return center, np.clip(v, np.minimum(floor * stds, _FARTHEST), _FARTHEST)
