"""DP-SVRG: variance-reduced noisy proximal gradients, with safeguard (Wang, Ye and Xu 2017, Algorithm 1)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.average import Average
from solvers.oracle_protocol import Oracle
from solvers.problem import Problem, Vector

_SNAPSHOT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class DpSvrg:
    """min_w F(w) + r(w) by epochs of sampled changes against a noisy snapshot of the full gradient.

    Parameters
    ----------
    epochs : T
    inner_steps : m, per epoch
    batch : b, expected size of a Poisson batch
    step : eta

    Reference: Wang, Ye and Xu 2017, Algorithm 1; built as mechanism S of PRIVACY-SPEC 2.3 (the printed form is not private
    at its own settings): the snapshot is noised once, batches are Poisson, the noise scales with the change's bound, and
    far from the anchor plain sampled gradients are asked.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    epochs: int | None = None
    inner_steps: int | None = None
    batch: int | None = None
    step: float | None = None
    name: Literal["dp_svrg"] = "dp_svrg"

    def __post_init__(self) -> None:
        for field, value in (("epochs", self.epochs), ("inner_steps", self.inner_steps)):
            if value is not None and not 1 <= value <= 1_000_000:
                raise Unsuitable(f"dp_svrg: {field} must lie in [1, 1000000]")
        if self.batch is not None and self.batch < 1:
            raise Unsuitable("dp_svrg: batch must be 1 or more")
        if self.step is not None and not 0 < self.step <= 1e12:
            raise Unsuitable("dp_svrg: step must be positive")

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpSvrg":  # noqa: ARG002
        """Every open field filled from public facts."""
        if self.batch is not None and self.batch > problem.n:
            raise Unsuitable("dp_svrg: batch must not exceed n")
        return replace(
            self,
            epochs=self.epochs if self.epochs is not None else 5,
            inner_steps=self.inner_steps if self.inner_steps is not None else 25,
            batch=self.batch if self.batch is not None else min(problem.n, max(1000, round(0.02 * problem.n))),
            step=self.step if self.step is not None else 0.5 / problem.L,
        )

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """T snapshots over all rows, T m changes over Poisson batches of rate b / n."""
        epochs, inner_steps, batch, _ = self._filled()
        return (
            Query("snapshot", epochs, Gaussian(), _SNAPSHOT_SHARE),
            Query("change", epochs * inner_steps, PoissonGaussian(batch / problem.n), 1 - _SNAPSHOT_SHARE),
        )

    def gradient_evaluations(self, problem: Problem) -> float:
        """T (n + 2 m b), in expectation and at most."""
        epochs, inner_steps, batch, _ = self._filled()
        return float(epochs) * (problem.n + 2.0 * inner_steps * batch)

    def run(self, oracle: Oracle, problem: Problem) -> Vector:
        """The private model."""
        epochs, inner_steps, _, step = self._filled()
        w = problem.start
        for _ in range(epochs):
            anchor, mean = w, Average()
            snapshot = oracle.gradient("snapshot", anchor)
            for _ in range(inner_steps):
                near = problem.L * float(np.linalg.norm(w - anchor)) <= problem.G
                if near:
                    v = oracle.sampled_change("change", w, anchor) + snapshot
                else:
                    v = oracle.sampled_gradient("change", w)
                w = problem.prox(w - step * v, step)
                mean.add(w)
            w = mean.value
        return w

    def _filled(self) -> tuple[int, int, int, float]:
        if self.epochs is None or self.inner_steps is None or self.batch is None or self.step is None:
            raise Unsuitable("dp_svrg: resolve the method first")
        return self.epochs, self.inner_steps, self.batch, self.step
