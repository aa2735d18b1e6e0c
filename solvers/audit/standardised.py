"""The attacker of transcripts that hold moments and gradients of limited slopes: every answer is Gaussian."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accounting.plan import Plan, PlannedQuery
from accounting.privacy import apart
from solvers import moment_bounds
from solvers.columns import Columns
from solvers.data_access.data import Data
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem, Vector


class StandardisedAttacker:
    """An oracle that answers through the real one, and scores each answer by its law on either dataset (logistic)."""

    def __init__(self, oracle: StandardisedOracle, problem: Problem, plan: Plan, one: Data, two: Data) -> None:
        if problem.columns is None:
            raise Unsuitable("the columns must be declared")
        self._oracle, self._plan, self._pair, self._n, self._unit = oracle, plan, (one, two), problem.n, problem.unit
        stored = [rows_of(replace(data, scale=np.ones(problem.places))) for data in self._pair]
        self._held = [data.present() for data in self._pair]
        self._rows = [rows[held] for rows, held in zip(stored, self._held, strict=True)]
        self._places = problem.places
        self._columns: Columns = problem.columns
        self._relation = problem.relation
        self.score = 0.0

    def planned(self, query: str) -> PlannedQuery:
        """The oracle's."""
        return self._oracle.planned(query)

    @property
    def share(self) -> float:
        """The oracle's; here every place holds a row."""
        return self._oracle.share

    def means(self, query: str) -> Vector:
        """The oracle's."""
        answer, bound = self._oracle.means(query), moment_bounds.means(self._columns, self._relation, self._unit)
        self._scored(query, answer * self.share, [x[:, :-1].sum(axis=0) / self._places for x in self._rows], bound)
        return answer

    def spread(self, query: str, center: Vector) -> float:
        """The oracle's."""
        answer, most = self._oracle.spread(query, center), float(moment_bounds.farthest(self._columns, center).sum())
        means = [np.array([(self._numbers(x, center) ** 2).sum() / self._places]) for x in self._rows]
        self._scored(query, np.array([answer * self.share]), means, most / apart(self._relation))
        return answer

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """The oracle's."""
        answer, means = self._oracle.variances(query, center, radius), []
        longest = float(np.linalg.norm(moment_bounds.farthest(self._columns, center)))
        cut = longest > np.sqrt(apart(self._relation)) * radius**2
        for rows in self._rows:
            squares = self._numbers(rows, center) ** 2
            short = radius**2 / np.maximum(squares.sum(axis=1), radius**2) if cut else np.ones(len(rows))
            means.append((squares * short[:, None]).sum(axis=0) / self._places)
        bound = moment_bounds.variances(self._columns, center, radius, self._relation)
        self._scored(query, answer * self.share, means, bound)
        return answer

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        """The oracle's."""
        answer, means = self._oracle.gradient(query, w, frame, limit), []
        for data, rows, held in zip(self._pair, self._rows, self._held, strict=True):
            y, centred = data.y[held], (rows[:, :-1] - frame.center) * frame.scale
            z = np.column_stack((centred, np.full(len(rows), frame.constant)))
            allowed, s = limit / np.linalg.norm(z, axis=1), 1 / (1 + np.exp(y * (z @ w)))
            means.append((-y * s * np.minimum(1, allowed / np.maximum(s, 1 - s))) @ z / self._places)
        self._scored(query, answer, means, limit)
        return answer

    def target_mean(self, query: str) -> float:
        """The oracle's: not scored, classes have none."""
        return self._oracle.target_mean(query)

    def target_spread(self, query: str, center: float) -> float:
        """The oracle's: not scored."""
        return self._oracle.target_spread(query, center)

    def residual(self, query: str, w: Vector, frame: Frame, most: float) -> float:
        """The oracle's: not scored."""
        return self._oracle.residual(query, w, frame, most)

    @property
    def _at(self) -> NDArray[np.bool_]:
        return self._columns.is_number

    def _numbers(self, rows: Vector, center: Vector) -> Vector:
        numbers: Vector = (rows[:, :-1] - center)[:, self._at]
        return numbers

    def _scored(self, query: str, answer: Vector, means: list[Vector], bound: float) -> None:
        """Adds ln of N(mean of one, std) over N(mean of two, std) at the answer."""
        std = self._plan.query(query).noise_multiplier * bound / self._n
        one, two = means
        self.score += float((answer - (one + two) / 2) @ (one - two)) / std**2
