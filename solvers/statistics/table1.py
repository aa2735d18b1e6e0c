"""Table 1: the rows of each group, counted and described.

Review: Counts, moments and parts of all groups are three answers of stated bounds.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import count_bounds
from solvers.groups import Groups
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused

MOST_BINS, MOST_GROUPS, MOST_DESCRIPTIONS, MOST_CELLS = 256, 128, 2**11, 2**18
_GROUPS_SHARE, _MOMENTS_SHARE = 0.2, 0.4  # of mu^2; the remaining share is for the parts

_ALL = Groups()  # all rows are one group, of which all features are described
TableBins = Annotated[int, Field(ge=1, le=MOST_BINS)]


@dataclass(frozen=True, slots=True)
class Table1(Statistic):
    """Noisy counts and moments of described columns in groups of rows, by at most three Gaussian answers.

    - groups: the number of rows in each group, as `Counts` counts cells
    - moments: if numbers are described, the sums of u and u^2 in each group, with u in [-1, 1]. The l2 sensitivity is
      2 sqrt(p) for p numbers (sqrt(2 p) under zero_out)
    - parts: the number of rows in each category, or in each of `bins` parts of a number's range, in each group. The l2
      sensitivity is sqrt(2 m) for m described columns (sqrt(m) under zero_out)

    Means, standard deviations, quantiles, shares and differences are post-processing. A row that fails a condition adds
    0 to every answer. A person's row counts 1/k.

    Parameters
    ----------
    groups : which features make groups, which are described, and the conditions on rows
    bins : number of equal parts of each described number's range, in [1, 256]

    Precondition: columns are declared, rows are not clipped, delta > 0; at most 128 groups, and 2048 pairs of a group
    and a described column.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    groups: SkipJsonSchema[Annotated[Groups, Field(exclude_if=lambda groups: groups == _ALL)]] = _ALL
    bins: TableBins = 32
    name: Literal["table1"] = "table1"

    def refusal(self, problem: Problem) -> str | None:
        """Return why groups or bins are not accepted, or None if they are."""
        columns = moments.columns_of(problem)
        refusal = bins_refused(self.bins, MOST_BINS) or self.groups.refusal(columns)
        if refusal is not None:
            return refusal
        groups = self.groups.count(columns)
        parts = self.groups.parts(columns, self.bins)
        if groups > MOST_GROUPS or groups * len(parts) > MOST_DESCRIPTIONS or groups * sum(parts) > MOST_CELLS:
            return (
                f"there may be at most {MOST_GROUPS} groups, counting other, {MOST_DESCRIPTIONS} pairs of a group and "
                f"a described column, and {MOST_CELLS} parts in all groups. Group by fewer categories, or describe "
                "fewer columns"
            )
        return None

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the queries for the groups, for the moments of numbers if there are any, and for the parts."""
        shares = {"groups": _GROUPS_SHARE, "moments": _MOMENTS_SHARE if self._numbers(problem) else 0.0}
        shares["parts"] = 1 - sum(shares.values())
        return tuple(Query(name, 1, Gaussian(), share) for name, share in shares.items() if share)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the bounds of sums in which a person's row counts 1/k."""
        columns = moments.columns_of(problem)
        p = self._numbers(problem)
        groups = self.groups.count(columns)
        parts = self.groups.parts(columns, self.bins)
        bounds: Bounds = {
            "groups": (count_bounds.cells(problem.relation), groups),
            "parts": (count_bounds.cells(problem.relation, len(parts)), groups * sum(parts)),
        }
        return bounds | {"moments": (count_bounds.group_moments(p, problem.relation), groups * 2 * p)} if p else bounds

    def size(self, problem: Problem) -> int:
        """Return how many numbers `run` returns."""
        return sum(coordinates for _, coordinates in self.bounds(problem).values())

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Return the counts of groups, the moments, and the counts of parts, flat; `unpack` separates them."""
        counts, answers = oracle.group_counts("groups", self.groups, 0), []
        if self._numbers(problem):
            answers.append(oracle.group_moments("moments", self.groups))
        return np.concatenate((counts, *answers, oracle.group_counts("parts", self.groups, self.bins)))

    def unpack(self, problem: Problem, answers: Vector) -> tuple[Vector, Vector, Vector, list[Vector]]:
        """Return the counts (groups,), sums (p, groups), squares (p, groups) and parts, each (groups, parts)."""
        columns = moments.columns_of(problem)
        p = self._numbers(problem)
        count = self.groups.count(columns)
        sizes = self.groups.parts(columns, self.bins)
        ends = np.cumsum([count, count * p, count * p, *(count * size for size in sizes)])
        counts, sums, squares, *parts = np.split(answers, ends[:-1])
        blocks = [part.reshape(count, size) for part, size in zip(parts, sizes, strict=True)]
        return counts, sums.reshape(p, count), squares.reshape(p, count), blocks

    def _numbers(self, problem: Problem) -> int:
        """Return how many described columns are numbers."""
        return self.groups.layout(moments.columns_of(problem)).widths.count(1)
