"""Counts: how many rows lie in each cell of some columns: a histogram of one, a cross table of several."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import moment_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, bins_refused

MOST_BINS, MOST_CELLS, MOST_COLUMNS = 1024, 2**18, 18  # so many parts of two make as many cells


@dataclass(frozen=True, slots=True)
class Counts(Statistic):
    """c_j = #{i : x_i in cell j} + N(0, std^2), a cell being a part of each number's range and a category of each
    other column: one Gaussian answer, whose l2 sensitivity is sqrt(2) however many cells there are (1 under zero_out).

    Noisy counts may be negative and need not add up to n. A person's row counts 1/k.

    Parameters
    ----------
    bins : of every number's declared range, equal, in [1, 1024]

    Precondition: columns are declared, rows are not clipped, delta > 0, at most 2^18 cells.
    Proof: docs/proofs/statistics.md. Reference: docs/spec 22.
    """

    bins: Annotated[int, Field(ge=1, le=MOST_BINS)] = 10
    name: Literal["counts"] = "counts"

    def refusal(self, problem: Problem) -> str | None:
        """Too many cells."""
        too_many = len(moments.columns_of(problem).widths) > MOST_COLUMNS or self.size(problem) > MOST_CELLS
        most = f"there are at most {MOST_CELLS} cells, of at most {MOST_COLUMNS} columns: take fewer bins or columns"
        many = most if too_many else None
        return bins_refused(self.bins, MOST_BINS) or many

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """One answer."""
        return (Query("cells", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """1/sqrt(2) or 1: a record is in one cell."""
        return {"cells": (moment_bounds.cells(problem.relation), self.size(problem))}

    def size(self, problem: Problem) -> int:
        """How many cells there are."""
        return moments.columns_of(problem).cells(self.bins)

    def run(self, oracle: Counting, problem: Problem) -> Vector:  # noqa: ARG002
        """The counts, the last column's parts side by side."""
        return oracle.cells("cells", self.bins)
