"""Evaluation: how well a released model does on records that it was not trained on."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from solvers import moment_bounds
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic

MOST_BINS, MOST_CELLS = 256, 2**16

Bins = Annotated[int, Field(ge=2, le=MOST_BINS, multiple_of=2)]
Clip = Annotated[float, Field(gt=0, le=2)]


@dataclass(frozen=True, slots=True)
class Evaluation(Statistic):
    """c_j = #{i : (y_i, what the model says of x_i) in cell j} + N(0, std^2): one Gaussian answer, whose l2 sensitivity
    is sqrt(2) however many cells there are (1 under zero_out).

    Two classes: the class and the bin of 1 / (1 + e^-margin), equal bins of [0, 1]. More: the class and the one of the
    largest margin. A number: the bin of the residual, cut to [-clip, clip], equal bins. A person's row counts 1/k.
    What is made of the counts, at any threshold, is post-processing.

    Parameters
    ----------
    bins : even, in [2, 256]; not used where more than two classes are told apart
    clip : of residuals, in the unit of encoded targets (half their range), in (0, 2]
    model, sha256 : the job that released the model, and the model's digest
    weights : the model's, flat, of rows as declared; not there in a quote or a receipt, which name the model

    Precondition: columns are declared, rows are not clipped, delta > 0, at most 2^16 cells; model and records are of
    parts that share no record, or the model is public.
    Proof: docs/proofs/evaluation.md. Reference: docs/spec 23.
    """

    bins: Bins = 40
    clip: Clip = 0.5
    model: str = ""
    sha256: str = ""
    weights: Annotated[tuple[float, ...], Field(exclude_if=lambda weights: not weights)] = ()
    name: Literal["evaluation"] = "evaluation"

    def refusal(self, problem: Problem) -> str | None:
        """Bins or clip out of range, too many classes, or weights that are not this problem's."""
        if not (2 <= self.bins <= MOST_BINS and self.bins % 2 == 0 and 0 < self.clip <= 2):
            return f"bins are even and in [2, {MOST_BINS}], clip is in (0, 2]"
        if self.size(problem) > MOST_CELLS:
            return f"there are at most {MOST_CELLS} cells, of two classes each"
        return None if len(self.weights) in (0, problem.size) else "the weights are another model's"

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """One answer."""
        return (Query("scores", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        """1/sqrt(2) or 1: a record is in one cell."""
        return {"scores": (moment_bounds.cells(problem.relation), self.size(problem))}

    def size(self, problem: Problem) -> int:
        """How many cells there are."""
        return moment_bounds.scored(problem, self.bins)

    def run(self, oracle: Counting, problem: Problem) -> Vector:  # noqa: ARG002
        """The counts, class by class."""
        return oracle.scores("scores", np.array(self.weights), self.bins, self.clip)
