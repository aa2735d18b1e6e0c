"""DP-GD: noisy proximal gradient descent (Wang, Ye and Xu 2017, Algorithm 4)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from accounting.accountants.gaussian import gauss_mu
from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.average import Average
from solvers.oracle_protocol import Oracle
from solvers.problem import Problem, Vector

MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class DpGd:
    """w <- prox_{eta r}(w - eta (grad F(w) + noise)), T times; the mean of the last half of the points.

    Every answer is a Gaussian mechanism on the mean gradient: mu^2 = sum of T (2 / z)^2 (PRIVACY-SPEC T1). Any function of
    the answers may be returned.

    Parameters
    ----------
    steps : T; from public facts if None
    step : eta, in (0, 2 / L); 1 / L if None

    Reference: Wang, Ye and Xu 2017, Algorithm 4 and Theorem 6.1. Deviations: proximal; the mean of the last half instead
    of a random iterate; noise by exact accounting instead of an unspecified constant.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    steps: int | None = None
    step: float | None = None
    name: Literal["dp_gd"] = "dp_gd"

    def __post_init__(self) -> None:
        if self.steps is not None and not 1 <= self.steps <= MOST_STEPS:
            raise Unsuitable(f"dp_gd: steps must lie in [1, {MOST_STEPS}]")
        if self.step is not None and not 0 < self.step <= 1e12:
            raise Unsuitable("dp_gd: step must be positive")

    def resolve(self, problem: Problem, privacy: Privacy) -> "DpGd":
        """Every open field filled from public facts."""
        step = self.step if self.step is not None else 1 / problem.L
        noise = 2 * problem.G / problem.n / gauss_mu(privacy.epsilon, privacy.delta)
        balance = 3 * problem.L / problem.row_norm / (noise * math.sqrt(problem.d))
        steps = self.steps if self.steps is not None else min(1000, max(10, math.ceil(balance)))
        return replace(self, steps=steps, step=step)

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """T full gradients."""
        return (Query("gradient", self._steps(), Gaussian()),)

    def gradient_evaluations(self, problem: Problem) -> float:
        """T n."""
        return float(self._steps()) * problem.n

    def run(self, oracle: Oracle, problem: Problem) -> Vector:
        """The private model."""
        w, eta, T = problem.start, self.step or 1 / problem.L, self._steps()
        mean = Average()
        for t in range(T):
            w = problem.prox(w - eta * oracle.gradient("gradient", w), eta)
            if 2 * (t + 1) > T:
                mean.add(w)
        return mean.value

    def _steps(self) -> int:
        if self.steps is None:
            raise Unsuitable("dp_gd: resolve the method first")
        return self.steps
