"""One noisy gradient step.

Review: Its bound.
"""

from dataclasses import dataclass
from typing import Literal

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import gradient_bound
from solvers.methods.run import Bounds, FullBatchRun, Strict
from solvers.oracles import FullBatch
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True)
class OneStep(Strict):
    """w = prox(-step (grad F(0) + noise)).

    Parameters
    ----------
    step : eta; 1/L by default
    """

    step: float | None = None
    name: Literal["one_step"] = "one_step"

    def resolve(self, problem: Problem, privacy: Privacy) -> "OneStepRun":
        return OneStepRun(self.step or 1 / problem.L)


@dataclass(frozen=True, slots=True)
class OneStepRun(FullBatchRun):
    step: float
    name: Literal["one_step"] = "one_step"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        return (Query("gradient", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        return {"gradient": (gradient_bound(problem), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        return float(problem.n)

    def run(self, oracle: FullBatch, problem: Problem) -> Vector:
        return problem.prox(-self.step * oracle.gradient("gradient", problem.start), self.step)
