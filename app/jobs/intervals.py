"""Where the number without noise lies, from the noise that is known: post-processing of released answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.plan import Plan
from purse.wire.columns import NumberColumn
from purse.wire.profiles import Interval, QuantileEstimate
from solvers.methods.run import Run
from solvers.problem import Problem

WIDE = 1.959964  # stds of noise on either side: 95 %


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows there are, a person's counting 1/k each; the std of that number's noise, 0 where it is public."""

    n: float
    noise: float

    def around(self, value: float, std: float) -> tuple[float, float, float]:
        """A mean over the rows, its numerator's noise of this std: where their number is noisy, it is a quotient."""
        wide = WIDE * math.hypot(std, value * self.noise / self.n)
        return value, value - wide, value + wide


def stds_of(method: Run, problem: Problem, plan: Plan) -> dict[str, float]:
    """The noise std of each query's answers, at its largest bound."""
    bounds = method.bounds(problem)
    return {q.name: q.mechanism.std(q.noise_multiplier, *bounds[q.name]) for q in plan.queries}


def scale_of(column: NumberColumn) -> tuple[float, float]:
    """Value = first + second code."""
    return column.coding or ((column.lower + column.upper) / 2, (column.upper - column.lower) / 2)


def edges_of(column: NumberColumn, bins: int) -> NDArray[np.float64]:
    """The bins' ends, in the column's unit."""
    (origin, unit), (low, high) = scale_of(column), column.code_range
    return np.clip(origin + unit * np.linspace(low, high, bins + 1), column.lower, column.upper)


def mean_of(column: NumberColumn, around: Sequence[float]) -> Interval:
    """A mean code and its interval's ends, in the column's unit, within its range."""
    origin, unit = scale_of(column)
    return interval(origin + unit * np.clip(around, *column.code_range))


def quantile(
    share: float, counts: NDArray[np.float64], edges: NDArray[np.float64], std: float, rows: Rows
) -> QuantileEstimate:
    """Where the number of records up to an end of a bin reaches share n.

    Of bins 1..k the best estimate is cum_k - (k/B) (cum_B - n), of variance std^2 k (B - k) / B, since n is public;
    where n is a number with noise, its distance from share n has (k/B - share)^2 of that variance, too. The quantile's
    bin, up to which share n is reached and before which it is not, is among those for which neither can be excluded:
    one with a chance of 2.5 % is left out on either side.
    """
    bins, n, wanted = len(counts), rows.n, share * rows.n
    k = np.arange(bins + 1)
    upto = np.concatenate(([0.0], np.cumsum(counts)))
    upto, band = (
        upto - k / bins * (upto[-1] - n),
        WIDE * np.hypot(std * np.sqrt(k * (bins - k) / bins), (k / bins - share) * rows.noise),
    )
    upto[0], upto[-1] = 0.0, n
    first = int(np.flatnonzero(upto >= wanted)[0])
    last = int(np.flatnonzero(upto < wanted)[-1]) + 1
    lowest = int(np.flatnonzero(upto[1:] + band[1:] >= wanted)[0])
    highest = int(np.flatnonzero(upto[:-1] - band[:-1] <= wanted)[-1]) + 1
    return QuantileEstimate(share=share, at=interval(edges[[math.ceil((first + last) / 2), lowest, highest]]))


def interval(ends: NDArray[np.float64]) -> Interval:
    value, low, high = ends.tolist()
    return Interval(value=value, low=low, high=high)
