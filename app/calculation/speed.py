"""Speed of this machine, measured once on a fixed array that contains no data."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import solvers
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.data_access import inputs
from solvers.data_access.sampled import SampledOracle
from solvers.losses import Logistic

_ROWS = 32_768
_NARROW, _WIDE = 4, 64
_RATE = 0.05
_REPEATS = 5
_CATEGORY = 4  # entries that a category costs; measured by python -m benchmarks coded


@dataclass(frozen=True, slots=True)
class Speed:
    """A linear model of the time of a run.

        seconds = K (full + scatter * sampled) (per_row + per_entry e) + answers (per_answer + per_coordinate K d)

    K is the number of the loss's outputs: a record of softmax counts as K, which is too much for many classes. e is the
    number of entries of a record: d or, if columns are declared, its numbers, the constant, and four for each category.
    """

    per_row: float
    per_entry: float
    scatter: float
    per_answer: float
    per_coordinate: float

    def seconds(self, evaluations: float, plan: Plan, problem: solvers.Problem) -> float:
        """Return the predicted time in seconds of a run on an idle core, with its data in memory.

        Parameters
        ----------
        evaluations : number of per-row gradients of all answers
        plan : planned answers
        problem : rows, columns and outputs
        """
        answers = sum(query.answers for query in plan.queries)
        passes = sum(query.count for query in plan.queries if isinstance(query.mechanism, Gaussian))
        full = float(problem.slots) * passes
        weighted = full + self.scatter * max(0.0, evaluations - full)
        columns, entries = problem.columns, problem.d
        if columns is not None:
            numbers = columns.widths.count(1)
            entries = numbers + 1 + _CATEGORY * (len(columns.widths) - numbers)
        record = problem.outputs * (self.per_row + self.per_entry * entries)
        return weighted * record + answers * (self.per_answer + self.per_coordinate * problem.size)


@cache
def measured_speed() -> Speed:
    """Return the speed of this machine, measured at the first call in some tenths of a second."""
    one_narrow, _ = _seconds(1, _NARROW)
    one_wide, one_sampled = _seconds(1, _WIDE)
    narrow, _ = _seconds(_ROWS, _NARROW)
    wide, sampled = _seconds(_ROWS, _WIDE)
    # Subtract the time of the answer itself.
    narrow, wide, sampled = narrow - one_narrow, wide - one_wide, sampled - one_sampled
    per_entry = max(0.0, wide - narrow) / _ROWS / (_WIDE - _NARROW)
    per_coordinate = max(0.0, one_wide - one_narrow) / (_WIDE - _NARROW)
    per_row = max(0.0, narrow / _ROWS - per_entry * _NARROW)
    return Speed(per_row, per_entry, max(1.0, sampled / (_RATE * max(wide, 1e-9))), one_narrow, per_coordinate)


def _seconds(n: int, d: int) -> tuple[float, float]:
    """Return the fastest times of a full gradient over n rows of d entries and of a sampled one, with their noise."""
    problem = solvers.Problem(Logistic(), n=n, d=d, row_norm=1.0)
    rows = np.linspace(-1, 1, n * d).reshape(n, d)
    queries = (
        PlannedQuery("full", _REPEATS, Gaussian(), 10.0),
        PlannedQuery("sampled", _REPEATS, PoissonGaussian(_RATE), 10.0),
    )
    oracle = SampledOracle(problem, inputs.of_arrays(rows, rows[:, 0].copy(), problem), Plan(queries), Noise())
    full = min(_timed(lambda: oracle.gradient("full", problem.start)) for _ in range(_REPEATS))
    return full, min(_timed(lambda: oracle.sampled_gradient("sampled", problem.start)) for _ in range(_REPEATS))


def _timed(work: Callable[[], object]) -> float:
    """Return the CPU time of the work, which does not depend on the load of the machine."""
    start = time.thread_time()
    work()
    return time.thread_time() - start
