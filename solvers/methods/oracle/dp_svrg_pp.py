"""DP-SVRG++: DP-SVRG with epochs that double in length (Wang, Ye and Xu 2017, Algorithm 2), as mechanism S.

Review: The plan counts all snapshots and changes of the doubling epochs.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from accounting.privacy import Privacy
from solvers.methods.average import Average
from solvers.methods.oracle.variance_reduced import MOST_STEPS, Estimates, VarianceReduced, VarianceReducedRun
from solvers.oracles import Sampled
from solvers.problem import Problem, Vector
from solvers.ranges import Whole

_MOST_DEFAULT_EPOCHS = 5


@dataclass(frozen=True, slots=True)
class DpSvrgPp(VarianceReduced):
    """Variance-reduced noisy gradient descent with epochs that double in length.

    min_w F(w) + r(w): in each epoch s = 1..T, g = grad F(anchor) + noise once, then 2^s m times
    w <- prox_(eta r)(w - eta v), with v as in dp_svrg. The next anchor is the mean of the epoch's w, and w itself
    continues. The result is the mean of the last epoch. There are K = 2 m (2^T - 1) steps.

    Defaults: the step sizes sum to about those of dp_svrg; T is as large as m >= 1 allows, up to 5; b and eta are as in
    dp_svrg. Proof: docs/proofs/dp_svrg_pp.md.

    Parameters
    ----------
    epochs : Number of epochs (T), from 1 to 30. By default chosen from the sizes, the privacy and the loss
    inner_steps : Half the number of steps in the first epoch (m), from 1 to 1000000. By default chosen from the same
        facts
    batch : Expected size of a Poisson batch (b), or its exact size if printed. By default chosen from the same facts
    step : Step size (eta), at most 1/L for the smoothness L. By default chosen from the same facts
    form : As in dp_svrg
    step_rule : As in dp_svrg. M is the length of the epoch that begins

    Reference: Wang, Ye and Xu 2017, Algorithm 2; Allen-Zhu and Yuan 2016; docs/spec 2.3 (mechanism S). Deviations:
    the snapshot is noised once, batches are Poisson of any size, the safeguard; the noise is calibrated for all
    2 m (2^T - 1) steps, where the paper's Theorem 4.3 counts 2^T m, about half of them.
    """

    epochs: Annotated[int | None, Whole(30)] = None
    name: Literal["dp_svrg_pp"] = "dp_svrg_pp"

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpSvrgPpRun":
        """Return the run; see `VarianceReduced.resolved`."""
        return DpSvrgPpRun(*self.resolved(problem, privacy))

    def lengths(self, steps: float) -> tuple[int, int]:
        """Return T and m for about this number of steps."""
        doublings = int(math.log2(1 + steps / (2 * (self.inner_steps or 1))))
        epochs = self.epochs or min(_MOST_DEFAULT_EPOCHS, max(1, doublings))
        return epochs, self.inner_steps or min(MOST_STEPS, max(1, math.ceil(steps / self.total(epochs, 1))))

    @staticmethod
    def total(epochs: int, inner_steps: int) -> int:
        """Return 2 m (2^T - 1), the sum of the lengths 2 m, 4 m, ..., 2^T m of the epochs."""
        return (inner_steps << (epochs + 1)) - 2 * inner_steps


@dataclass(frozen=True, slots=True)
class DpSvrgPpRun(VarianceReducedRun):
    """Resolved settings of `DpSvrgPp`."""

    name: Literal["dp_svrg_pp"] = "dp_svrg_pp"

    @property
    def total_steps(self) -> int:
        """K = 2 m (2^T - 1)."""
        return DpSvrgPp.total(self.epochs, self.inner_steps)

    def run(self, oracle: Sampled, problem: Problem) -> Vector:
        """Return the private model."""
        w = anchor = problem.start
        estimates = Estimates(oracle, problem, self)
        for epoch in range(1, self.epochs + 1):
            length, mean = self.inner_steps << epoch, Average()
            eta = estimates.move(anchor, length)
            for points in estimates.walk(w, eta, length):
                mean.add_all(points)
                w = points[-1]
            anchor = mean.value
        return anchor
