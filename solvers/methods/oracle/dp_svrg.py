"""DP-SVRG: variance-reduced noisy proximal gradients, with safeguard (Wang, Ye and Xu 2017, Algorithm 1).

Review: The plan counts all snapshots and changes.
"""

import math
from dataclasses import dataclass
from typing import Literal

from accounting.privacy import Privacy
from solvers.methods.average import Average
from solvers.methods.oracle.variance_reduced import Estimates, VarianceReduced, VarianceReducedRun
from solvers.oracles import Sampled
from solvers.problem import Problem, Vector

_EPOCHS = 5


@dataclass(frozen=True, slots=True)
class DpSvrg(VarianceReduced):
    """Variance-reduced noisy gradient descent: epochs of sampled changes against a noisy snapshot of the full gradient.

    min_w F(w) + r(w): in each of T epochs, g = grad F(anchor) + noise once, then m times w <- prox_(eta r)(w - eta v).
    While L ||w - anchor|| <= G, v is g plus a noisy sampled mean of grad f_i(w) - grad f_i(anchor). Farther away, v is
    a noisy sampled gradient. The noise of a change scales with min(G, L ||w - anchor||). The next anchor is the last w.
    The result is the mean of the second half of all w, so F must be convex, and smooth for the changes to be small.

    Defaults: T = 5; K = T m steps whose sizes sum to 0.4 of `defaults.descent_time`, at most 5000;
    b = 1.5 n mu* / sqrt(K); eta at most 1 / (L (1 + 11/b)). Proof: docs/proofs/dp_svrg.md.

    Parameters
    ----------
    epochs : Number of epochs (T), from 1 to 1000000. By default 5
    inner_steps : Number of steps in an epoch (m), from 1 to 1000000. By default chosen from the sizes, the privacy and
        the loss
    batch : Expected size of a Poisson batch (b), or its exact size if printed. By default chosen from the same facts
    step : Step size (eta), at most 1/L for the smoothness L. By default chosen from the same facts
    form : "safeguarded", "centred" (the default for losses with one margin if 3 d z^2 > b, z being the changes' noise
        multiplier for many answers) or "printed". Centred changes subtract the effect of curvature L/2 and add it back
        for the whole batch, which halves the noise near the anchor. Printed follows the paper, with the exact
        grad F(anchor) and b distinct rows in each step, at the noise that makes it private
    step_rule : "fixed", or "barzilai_borwein" for eta = ||w_s - w_(s-1)||^2 / (M <w_s - w_(s-1), g_s - g_(s-1)>) from
        the second epoch on. M is the epoch's number of steps, and eta is kept within [eta / 4, 1 / (L (1 + 11/b))].
        This helps if the curvature along the path is far below L, or the noise is small

    Reference: Wang, Ye and Xu 2017, Algorithm 1, built as mechanism S of docs/spec 2.3 (as published it is not
    private at its own settings). Deviations: the snapshot is noised once, batches are Poisson, the safeguard, the last
    iterate as anchor (Johnson and Zhang 2013, option I), and step sizes from released snapshots alone.
    """

    name: Literal["dp_svrg"] = "dp_svrg"

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpSvrgRun":
        """Return the run; see `VarianceReduced.resolved`."""
        return DpSvrgRun(*self.resolved(problem, privacy))

    def lengths(self, steps: float) -> tuple[int, int]:
        """Return T and m for about this number of steps."""
        epochs = self.epochs or _EPOCHS
        return epochs, self.inner_steps or max(1, math.ceil(steps / epochs))

    @staticmethod
    def total(epochs: int, inner_steps: int) -> int:
        """Return T m."""
        return epochs * inner_steps


@dataclass(frozen=True, slots=True)
class DpSvrgRun(VarianceReducedRun):
    """Resolved settings of `DpSvrg`."""

    name: Literal["dp_svrg"] = "dp_svrg"

    @property
    def total_steps(self) -> int:
        """K = T m."""
        return DpSvrg.total(self.epochs, self.inner_steps)

    def run(self, oracle: Sampled, problem: Problem) -> Vector:
        """Return the private model."""
        w = problem.start
        mean = Average()
        estimates = Estimates(oracle, problem, self)
        for epoch in range(self.epochs):
            eta, count = estimates.move(w, self.inner_steps), epoch * self.inner_steps
            for points in estimates.walk(w, eta, self.inner_steps):
                mean.add_all(points[max(0, self.total_steps // 2 - count) :])
                w, count = points[-1], count + len(points)
        return mean.value
