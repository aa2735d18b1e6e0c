"""An oracle without noise, for tests of what the methods do with answers: same questions and counting, exact means."""

from collections import Counter

import numpy as np

from solvers.data_access import inputs
from solvers.data_access.unfolded import rows_of
from solvers.problem import Problem, Vector


class QuietOracle:
    """Answers of `SampledOracle` with the noise left out; batches are drawn with a fixed seed.

    Fields: asked counts the answers by query; points holds every w that a gradient over all rows was asked at.
    """

    def __init__(self, problem: Problem, X: Vector, y: Vector, rate: float = 1.0) -> None:
        data = inputs.of_arrays(X, y, problem)
        self._problem, self._X, self._y, self._rate = problem, rows_of(data), data.y, rate
        self._rng = np.random.default_rng(3)
        self.queries_asked: Counter[str] = Counter()
        self.points: list[Vector] = []

    def horizon(self, query: str) -> int:
        raise NotImplementedError(query)

    def gradient(self, query: str, w: Vector) -> Vector:
        self.queries_asked[query] += 1
        self.points.append(w)
        return self._slopes(w) @ self._X / self._problem.n

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        self.queries_asked[query] += 1
        return self._batch(self._slopes(w))

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        self.queries_asked[query] += 1
        return self._batch(self._slopes(w) - self._slopes(anchor))

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        return self.sampled_change(query, w, anchor)

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        self.queries_asked[query] += 1
        return self._batch(self._slopes(w) - self._slopes(anchor)) + self._slopes(anchor) @ self._X / self._problem.n

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> None:
        """Return None, because every answer is queried."""

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        raise NotImplementedError(query)

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        raise NotImplementedError(query)

    def _slopes(self, w: Vector) -> Vector:
        return self._problem.loss.slope(self._X @ w, self._y)

    def _batch(self, slopes: Vector) -> Vector:
        rows = self._rng.random(self._problem.n) < self._rate
        total: Vector = slopes[rows] @ self._X[rows]
        return total / (self._rate * self._problem.n)
