"""Spread of all numbers together.

Review: Its bound.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.plan import Query
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Row, Statistic, categories_refused, with_share


@dataclass(frozen=True, slots=True)
class Spread(Statistic):
    """Noisy mean squared distance of the numbers from their means."""

    name: Literal["spread"] = "spread"
    audited_rows: ClassVar[tuple[Row, Row]] = ((1.0, 1.0, 1.0), (0.0, 0.0, 1.0))

    def refusal(self, problem: Problem) -> str | None:
        return categories_refused(problem)

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        return moments.queries(problem, 1.0, 1.0, 1.0)[:2]

    def bounds(self, problem: Problem) -> Bounds:
        bounds = moments.bounds(problem)
        return {"means": bounds["means"], "spread": bounds["spread"]}

    def size(self, problem: Problem) -> int:
        return 1 + problem.unit.is_person

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        center = np.clip(oracle.moments.means("means"), -1, 1)
        return with_share(np.array([oracle.moments.spread("spread", center)]), oracle, problem)
