"""Counts of rows in each cell of some columns: a histogram of one column, or a cross table of several.

Review: The sensitivity is sqrt(2), however many cells there are.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import count_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused

MOST_BINS, MOST_CELLS, MOST_COLUMNS = 1024, 2**18, 18  # 18 columns of two parts each have 2^18 cells


@dataclass(frozen=True, slots=True)
class Counts(Statistic):
    """Noisy counts c_j = #{i : x_i in cell j} + N(0, std^2).

    A cell combines a part of each number's range and a category of each other column. This is one Gaussian answer,
    whose l2 sensitivity is sqrt(2) for any number of cells (1 under zero_out). Noisy counts may be negative and need
    not add up to n. A person's row counts 1/k.

    Parameters
    ----------
    bins : number of equal parts of each number's declared range, in [1, 1024]

    Precondition: columns are declared, rows are not clipped, delta > 0, at most 2^18 cells.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    bins: Annotated[int, Field(ge=1, le=MOST_BINS)] = 10
    name: Literal["counts"] = "counts"

    def refusal(self, problem: Problem) -> str | None:
        """Return why there are too many cells, or None."""
        too_many = len(moments.columns_of(problem).widths) > MOST_COLUMNS or self.size(problem) > MOST_CELLS
        limit = f"there may be at most {MOST_CELLS} cells of {MOST_COLUMNS} columns. Use fewer bins or columns"
        return bins_refused(self.bins, MOST_BINS) or (limit if too_many else None)

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """Return the query of one answer."""
        return (Query("cells", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return 1/sqrt(2), or 1 under zero_out, because a record is in one cell."""
        return {"cells": (count_bounds.cells(problem.relation), self.size(problem))}

    def size(self, problem: Problem) -> int:
        """Return the number of cells."""
        return moments.columns_of(problem).cells(self.bins)

    def run(self, oracle: Counting, problem: Problem) -> Vector:  # noqa: ARG002
        """Return the counts; neighboring entries differ in the last column."""
        return oracle.cells("cells", self.bins)
