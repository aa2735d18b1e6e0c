"""Private means and variances of rows whose layout is declared, clamped to their possible range.

They need at most three Gaussian answers (docs/proofs/standardisation.md), and the rest is post-processing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import sensitivity_factor
from solvers import moment_bounds
from solvers.columns import Columns
from solvers.errors import Unsuitable
from solvers.oracles import Standardised
from solvers.problem import Problem, Vector

LARGEST_VARIANCE = 4.0  # of (x - m)^2, because numbers and means lie in [-1, 1]


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy means m, and noisy means v of (x - m)^2, for each coordinate of a row but the constant.

    Parameters
    ----------
    center : m, each in [-1, 1]
    variances : v, each in [0, 4]; m (1 - m) for the coordinates of a block
    noise : for each v a positive noise std, by which the significance of v is judged: that of v itself, that of m for a
        block, or that of a coarser answer

    Raises
    ------
    Unsuitable
        if the three have different lengths, or a value is out of range
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    center: tuple[float, ...]
    variances: tuple[float, ...]
    noise: tuple[float, ...]

    def __post_init__(self) -> None:
        m, v, noise = (np.array(part, dtype=float) for part in (self.center, self.variances, self.noise))
        if not len(m) == len(v) == len(noise):
            raise Unsuitable("moments must have one mean, one variance and one noise std for each coordinate")
        if not ((np.abs(m) <= 1).all() and ((v >= 0) & (v <= LARGEST_VARIANCE)).all()):
            raise Unsuitable("moments: means must lie in [-1, 1] and variances in [0, 4]")
        if not ((noise >= 1e-300) & (noise <= 1e30)).all():
            raise Unsuitable("moments: noise stds must lie in [1e-300, 1e30]")

    def floored(self, floor: float) -> Vector:
        """Return v raised to at least `floor` stds of its noise, in (0, 4]: (d - 1,)."""
        floors = np.minimum(floor * np.array(self.noise), LARGEST_VARIANCE)
        return np.asarray(np.clip(np.array(self.variances), floors, LARGEST_VARIANCE))

    def coarsened(self, problem: Problem, multiplier: Callable[[str], float]) -> "Moments":
        """Return the moments with at least the noise stds of answers at these multipliers."""
        numbers = columns_of(problem).is_number
        center = np.array(self.center)
        spread = float(np.array(self.variances)[numbers].sum())
        noise = np.maximum(self.noise, noise_stds(problem, center, radius_of(spread), multiplier))
        return replace(self, noise=tuple(noise.tolist()))

    def at(self, indices: Sequence[int]) -> "Moments":
        """Return the moments of these coordinates, in this order."""
        center, variances, noise = (
            tuple(part[index] for index in indices) for part in (self.center, self.variances, self.noise)
        )
        return Moments(center, variances, noise)


NARROW = "all numbers are declared to lie within 1e-12 of their scale: declare a smaller scale"


def are_narrow(columns: Columns) -> bool:
    """Return whether there are numbers and all their declared ranges are too narrow for any frame to stretch."""
    return bool(columns.is_number.any() and (columns.high - columns.low).max() < 1e-12)  # frames stretch by 1e25


def columns_of(problem: Problem) -> Columns:
    """Return the declared layout; raise `Unsuitable` if there is none, or if rows are clipped."""
    if problem.columns is None or problem.row_norm < problem.columns.row_norm:
        raise Unsuitable("private moments need declared columns, and rows that are not clipped. Leave out row_norm")
    return problem.columns


def queries(problem: Problem, means: float, spread: float, variances: float) -> tuple[Query, ...]:
    """Return the queries for moments with these weights.

    There are no queries for variances if no column is a number, and no queries at all without columns or if the moments
    were released before.
    """
    if problem.moments is not None:
        return ()
    planned: tuple[Query, ...] = (Query("means", 1, Gaussian(), means),) if problem.d > 1 else ()
    if columns_of(problem).is_number.any():
        planned += (Query("spread", 1, Gaussian(), spread), Query("variances", 1, Gaussian(), variances))
    return planned


def bounds(problem: Problem) -> dict[str, tuple[float, int]]:
    """Return for each query its largest per-record bound, without rounding, and its number of coordinates.

    The bound is largest if m is an end of each range.
    """
    columns = columns_of(problem)
    n = problem.n
    k = sensitivity_factor(problem.relation)
    numbers, widest = int(columns.is_number.sum()), (columns.high - columns.low) ** 2
    moved = moment_bounds.means(columns, problem.relation, problem.unit)
    every = {
        "means": (moved / n, problem.d - (not problem.unit.is_person)),
        "spread": (float(widest.sum()) / k / n, 1),
        "variances": (math.hypot(*widest.tolist()) / k / n, numbers),
    }
    return {query.name: every[query.name] for query in queries(problem, 1.0, 1.0, 1.0)}


def noise_stds(
    problem: Problem, center: Vector, radius: float, multiplier: Callable[[str], float], share: float = 1.0
) -> Vector:
    """Return the noise stds of the variances of numbers and of the means of blocks, (d - 1,).

    Variances of blocks follow from their means.

    Parameters
    ----------
    share : share of slots that hold a row
    """
    columns, n, relation = columns_of(problem), problem.n * share, problem.relation
    stds = np.full(problem.d - 1, multiplier("means") * moment_bounds.means(columns, relation, problem.unit) / n)
    if columns.is_number.any():
        moved = moment_bounds.variances(columns, center, radius, relation)
        stds[columns.is_number] = multiplier("variances") * moved / n
    return stds


def ask(oracle: Standardised, problem: Problem, floor: float) -> tuple[Vector, Vector]:
    """Return means, and variances of at least `floor` stds of their own noise, in (0, 4]: (d - 1,) each.

    Moments that were released before are used without a query.
    """
    moments = answered(oracle, problem) if problem.moments is None else Moments(*problem.moments)
    return np.array(moments.center), moments.floored(floor)


def answered(oracle: Standardised, problem: Problem) -> Moments:
    """Return the moments that the oracle answers."""
    columns = columns_of(problem)
    if problem.d == 1:
        return Moments((), (), ())
    numbers = columns.is_number
    low = np.zeros(problem.d - 1)
    high = np.ones(problem.d - 1)
    low[numbers], high[numbers] = columns.low, columns.high
    center = np.clip(oracle.means("means"), low, high)
    v = center * (1 - center)
    radius = 0.0
    if numbers.any():
        radius = radius_of(floored_spread(oracle, problem, center))
        v[numbers] = oracle.variances("variances", center, radius)
    stds = noise_stds(problem, center, radius, lambda query: oracle.planned(query).noise_multiplier, oracle.share)
    return Moments(tuple(center.tolist()), tuple(np.clip(v, 0.0, LARGEST_VARIANCE).tolist()), tuple(stds.tolist()))


def floored_spread(oracle: Standardised, problem: Problem, center: Vector) -> float:
    """Return the mean of ||y||^2, with y the numbers of x - center, raised to at least one std of its noise."""
    columns = columns_of(problem)
    bound = float(moment_bounds.farthest(columns, center).sum()) / sensitivity_factor(problem.relation)
    noise_std = oracle.planned("spread").noise_multiplier * bound / (problem.n * oracle.share)
    return min(max(oracle.spread("spread", center), noise_std), LARGEST_VARIANCE * columns.widths.count(1))


def radius_of(spread: float) -> float:
    """Return the radius to which the numbers of a row are shortened, from the mean square of all of them."""
    return 1.2 * math.sqrt(1.1 * spread)
