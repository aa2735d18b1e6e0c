"""The attacker of transcripts that consist of moments, weighted scores and curvatures: all Gaussian answers."""

import math

import numpy as np
from numpy.typing import NDArray

from accounting.plan import Plan, PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers.audit.standardised import StandardisedAttacker
from solvers.data_access.data import Data, Work
from solvers.data_access.weighted import WeightedOracle, packing
from solvers.data_access.weighted_sums import Curvatures, Distances, LongRows, Scores, SquaredScores
from solvers.full_frame import FullFrame
from solvers.problem import Problem, Vector
from solvers.weighting import AnyWeights


class WeightedAttacker:
    """An oracle that returns the answers of the real one, and scores each by its density on either dataset.

    Expected answers are the exact sums over both datasets, and stds follow from the plan and from the stated bounds.
    """

    def __init__(
        self,
        oracle: WeightedOracle,
        moments: StandardisedAttacker,
        problem: Problem,
        plan: Plan,
        data: tuple[Data, Data],
    ) -> None:
        self._oracle, self.moments, self._problem, self._plan, self._data = oracle, moments, problem, plan, data
        self._own = 0.0

    @property
    def score(self) -> float:
        """Logarithm of the density of all answers on the first dataset over that on the second."""
        return self._own + self.moments.score

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise."""
        return self._oracle.planned(query)

    def second_moments(self, query: str, frame: FullFrame, limit: float) -> NDArray[np.float64]:
        """Return the answer, and score it."""
        answer = self._oracle.second_moments(query, frame, limit)
        self._scored_matrix(query, answer, LongRows(frame, limit), limit)
        return answer

    def residual(self, query: str, w: Vector, frame: FullFrame, limit: float) -> float:
        """Return the answer, and score it."""
        answer = self._oracle.residual(query, w, frame, limit)
        moved = limit / sensitivity_factor(self._problem.relation)
        self._scored(query, np.array([answer]), self._means(Distances(frame, w, limit)), moved)
        return answer

    def gradient(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Vector:
        """Return the answer, and score it."""
        answer = self._oracle.gradient(query, w, frame, weights)
        self._scored(query, answer, self._means(Scores(frame, w, weights)), weights.gradient_bound)
        return answer

    def curvature(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> NDArray[np.float64]:
        """Return the answer, and score it."""
        answer = self._oracle.curvature(query, w, frame, weights)
        self._scored_matrix(query, answer, Curvatures(frame, w, weights), weights.curvature_bound)
        return answer

    def squared_scores(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> NDArray[np.float64]:
        """Return the answer, and score it."""
        answer, k = self._oracle.squared_scores(query, w, frame, weights), self._problem.unit.slots
        work = SquaredScores(Scores(frame, w, weights))
        self._scored_matrix(query, answer, work, weights.gradient_bound**2, k)
        return answer

    def _means(self, work: Work, factor: int = 1) -> list[Vector]:
        """Return the exact mean over either dataset, matrices as they are answered."""
        totals = [np.atleast_1d(data.total(work)) * factor / self._problem.slots for data in self._data]
        return [_packed(total) for total in totals]

    def _scored_matrix(self, query: str, answer: Vector, work: Work, trace: float, factor: int = 1) -> None:
        moved = trace / math.sqrt(sensitivity_factor(self._problem.relation))
        self._scored(query, _packed(answer), self._means(work, factor), moved)

    def _scored(self, query: str, answer: Vector, means: list[Vector], bound: float) -> None:
        """Add the logarithm of the density N(first mean, std) over N(second mean, std) at the answer."""
        std = self._plan.query(query).noise_multiplier * bound / self._problem.n
        first, second = means
        self._own += float((answer - (first + second) / 2) @ (first - second)) / std**2


def _packed(value: Vector) -> Vector:
    """Return a vector, or the upper triangle of a matrix by rows, off the diagonal times sqrt(2)."""
    if value.ndim == 1:
        return value
    upper, factors = packing(len(value))
    return np.asarray(value[upper] * factors)
