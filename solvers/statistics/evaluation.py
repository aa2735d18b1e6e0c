"""Evaluation of a released model on records that it was not trained on.

Review: Each holdout record is in exactly one cell.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import count_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic

MOST_BINS, MOST_CELLS = 256, 2**16

Bins = Annotated[int, Field(ge=2, le=MOST_BINS, multiple_of=2)]
Clip = Annotated[float, Field(gt=0, le=2)]


@dataclass(frozen=True, slots=True)
class Evaluation(Statistic):
    """Noisy counts c_j = #{i : (y_i, prediction for x_i) in cell j} + N(0, std^2).

    This is one Gaussian answer, whose l2 sensitivity is sqrt(2) for any number of cells (1 under zero_out). A person's
    row counts 1/k. Scores computed from the counts, at any threshold, are post-processing. The cells are:

    - two classes: the class and the bin of 1 / (1 + e^-margin), in equal bins of [0, 1]
    - more classes: the class and the class of the largest margin
    - numbers: the bin of the residual, clipped to [-clip, clip], in equal bins

    Parameters
    ----------
    bins : even number in [2, 256]; not used for more than two classes
    clip : largest residual, in the unit of encoded targets (half their range), in (0, 2]
    model, sha256 : the job that released the model, and the model's digest
    weights : the model's weights, flat, for rows as declared; empty in a quote or a receipt, which name the model

    Precondition: columns are declared, rows are not clipped, delta > 0, at most 2^16 cells. The records are not those
    that the model was trained on, or the model is public.
    Proof: docs/proofs/evaluation.md. Reference: docs/spec 23.
    """

    bins: Bins = 40
    clip: Clip = 0.5
    model: str = ""
    sha256: str = ""
    weights: Annotated[tuple[float, ...], Field(exclude_if=lambda weights: not weights)] = ()
    name: Literal["evaluation"] = "evaluation"

    def refusal(self, problem: Problem) -> str | None:
        """Return why bins, clip, classes or weights are not accepted, or None if they are."""
        if not (2 <= self.bins <= MOST_BINS and self.bins % 2 == 0 and 0 < self.clip <= 2):
            return f"bins must be even and in [2, {MOST_BINS}], and clip in (0, 2]"
        if self.size(problem) > MOST_CELLS:
            return f"the target has too many classes: there may be at most {MOST_CELLS} pairs of classes"
        return (
            None
            if len(self.weights) in (0, problem.size)
            else "the weights do not fit the problem. Pass those of a model with the same features and target"
        )

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """Return the query of one answer."""
        return (Query("scores", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """Return 1/sqrt(2), or 1 under zero_out, because a record is in one cell."""
        return {"scores": (count_bounds.cells(problem.relation), self.size(problem))}

    def size(self, problem: Problem) -> int:
        """Return the number of cells."""
        return count_bounds.scored(problem, self.bins)

    def run(self, oracle: Counting, problem: Problem) -> Vector:  # noqa: ARG002
        """Return the counts, class by class."""
        return oracle.scores("scores", np.array(self.weights), self.bins, self.clip)
