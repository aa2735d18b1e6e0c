"""Private moments of rows whose layout is declared: means, and variances, clamped to where they can lie.

Three Gaussian answers at most (docs/proofs/standardisation.md); what is computed from them is post-processing.
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

FARTHEST = 4.0  # the most that (x - m)^2 can be: numbers and means lie in [-1, 1]


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy means m, and noisy means v of (x - m)^2, of a row's coordinates but the constant.

    Parameters
    ----------
    center : m, each in [-1, 1]
    variances : v, each in [0, 4]; m (1 - m) for a block's coordinates
    noise : for each v the std of the noise that decides whether it is believed, above 0: its own or m's for a block's,
        or that of a coarser answer

    Raises
    ------
    Unsuitable
        if they are not that, as many of each.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    center: tuple[float, ...]
    variances: tuple[float, ...]
    noise: tuple[float, ...]

    def __post_init__(self) -> None:
        m, v, noise = (np.array(part, dtype=float) for part in (self.center, self.variances, self.noise))
        if not len(m) == len(v) == len(noise):
            raise Unsuitable("there is a mean, a variance and a noise std for each coordinate")
        if not ((np.abs(m) <= 1).all() and ((v >= 0) & (v <= FARTHEST)).all()):
            raise Unsuitable("means lie in [-1, 1], variances in [0, 4]")
        if not ((noise >= 1e-300) & (noise <= 1e30)).all():
            raise Unsuitable("a noise std is positive, and at most 1e30")

    def floored(self, floor: float) -> Vector:
        """v, of at least `floor` stds of its noise, in (0, 4]: (d - 1,)."""
        least = np.minimum(floor * np.array(self.noise), FARTHEST)
        found: Vector = np.clip(np.array(self.variances), least, FARTHEST)
        return found

    def coarsened(self, problem: Problem, multiplier: Callable[[str], float]) -> "Moments":
        """No more to be believed than answers at these multipliers would be."""
        numbers, center = columns_of(problem).is_number, np.array(self.center)
        spread = float(np.array(self.variances)[numbers].sum())
        noise = np.maximum(self.noise, noise_stds(problem, center, _radius(spread), multiplier))
        return replace(self, noise=tuple(noise.tolist()))

    def at(self, places: Sequence[int]) -> "Moments":
        """Those of some coordinates, in this order."""
        center, variances, noise = (
            tuple(part[place] for place in places) for part in (self.center, self.variances, self.noise)
        )
        return Moments(center, variances, noise)


NARROW = "all numbers are declared to lie within 1e-12 of their scale: name a smaller scale"


def are_narrow(columns: Columns) -> bool:
    """Whether there are numbers, and all are declared to be next to nothing, which no frame can stretch."""
    return bool(columns.is_number.any() and (columns.high - columns.low).max() < 1e-12)  # frames stretch by 1e25


def columns_of(problem: Problem) -> Columns:
    """The declared layout; `Unsuitable` if there is none, or rows are clipped."""
    if problem.columns is None or problem.row_norm < problem.columns.row_norm:
        raise Unsuitable("private moments need declared columns; rows must not be clipped: leave out row_norm")
    return problem.columns


def queries(problem: Problem, means: float, spread: float, variances: float) -> tuple[Query, ...]:
    """What is asked, with these weights: no variances where no column is a number, nothing where there is no column,
    or where the moments are known.
    """
    if problem.moments is not None:
        return ()
    found: tuple[Query, ...] = (Query("means", 1, Gaussian(), means),) if problem.d > 1 else ()
    if columns_of(problem).is_number.any():
        found += (Query("spread", 1, Gaussian(), spread), Query("variances", 1, Gaussian(), variances))
    return found


def bounds(problem: Problem) -> dict[str, tuple[float, int]]:
    """Of each of them its per-record bound at its largest, m an end of each range, rounding aside; its coordinates."""
    columns, n, k = columns_of(problem), problem.n, sensitivity_factor(problem.relation)
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
    """Of the variances of numbers, and of the means of blocks, whose variances follow from these: (d - 1,).

    Parameters
    ----------
    share : of places that hold a row
    """
    columns, n, relation = columns_of(problem), problem.n * share, problem.relation
    found = np.full(problem.d - 1, multiplier("means") * moment_bounds.means(columns, relation, problem.unit) / n)
    if columns.is_number.any():
        moved = moment_bounds.variances(columns, center, radius, relation)
        found[columns.is_number] = multiplier("variances") * moved / n
    return found


def ask(oracle: Standardised, problem: Problem, floor: float) -> tuple[Vector, Vector]:
    """Means, and variances of at least `floor` stds of their own noise, in (0, 4]: (d - 1,) each; those that are known
    without a question.
    """
    found = answered(oracle, problem) if problem.moments is None else Moments(*problem.moments)
    return np.array(found.center), found.floored(floor)


def answered(oracle: Standardised, problem: Problem) -> Moments:
    """The moments, as the oracle answers."""
    columns = columns_of(problem)
    if problem.d == 1:
        return Moments((), (), ())
    numbers = columns.is_number
    low, high = np.zeros(problem.d - 1), np.ones(problem.d - 1)
    low[numbers], high[numbers] = columns.low, columns.high
    center = np.clip(oracle.means("means"), low, high)
    n = problem.n * oracle.share
    v = center * (1 - center)
    radius = 0.0
    if numbers.any():
        most = float(moment_bounds.farthest(columns, center).sum()) / sensitivity_factor(problem.relation)
        least = oracle.planned("spread").noise_multiplier * most / n
        spread = min(max(oracle.spread("spread", center), least), FARTHEST * int(numbers.sum()))
        radius = _radius(spread)
        v[numbers] = oracle.variances("variances", center, radius)
    stds = noise_stds(problem, center, radius, lambda query: oracle.planned(query).noise_multiplier, oracle.share)
    return Moments(tuple(center.tolist()), tuple(np.clip(v, 0.0, FARTHEST).tolist()), tuple(stds.tolist()))


def _radius(spread: float) -> float:
    """To what numbers are shortened that have this mean square together."""
    return 1.2 * math.sqrt(1.1 * spread)
