"""The attacker of transcripts that hold counts and products, moments among them: every answer is Gaussian."""

from dataclasses import replace

import numpy as np

from accounting.plan import Plan
from solvers import moment_bounds
from solvers.audit.standardised import StandardisedAttacker
from solvers.columns import Columns
from solvers.data_access.counting import CountingOracle
from solvers.data_access.data import Data
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector


class CountingAttacker:
    """An oracle that answers through the real one, and scores each answer by its law on either dataset."""

    def __init__(
        self, oracle: CountingOracle, moments: StandardisedAttacker, problem: Problem, plan: Plan, one: Data, two: Data
    ) -> None:
        if problem.columns is None:
            raise Unsuitable("the columns must be declared")
        self._oracle, self._plan, self._problem, self.moments = oracle, plan, problem, moments
        self._columns: Columns = problem.columns
        stored = [rows_of(replace(data, scale=np.ones(problem.places))) for data in (one, two)]
        self._rows = [rows[data.present(), :-1] for rows, data in zip(stored, (one, two), strict=True)]
        self._targets = [data.y[data.present()] for data in (one, two)]
        self._own = 0.0

    @property
    def score(self) -> float:
        """ln of the law of all answers on one dataset over that on the other."""
        return self._own + self.moments.score

    def histograms(self, query: str, bins: int) -> Vector:
        """The oracle's."""
        answer = self._oracle.histograms(query, bins)
        counts = [np.array([np.bincount(part, minlength=bins) for part in self._parts(x, bins).T]) for x in self._rows]
        bound = moment_bounds.counts(self._columns, self._problem.relation)
        self._counted(query, answer, [count.ravel() for count in counts], bound)
        return answer

    def cells(self, query: str, bins: int) -> Vector:
        """The oracle's."""
        answer, counts = self._oracle.cells(query, bins), []
        for rows in self._rows:
            table = np.zeros([bins if width == 1 else width for width in self._columns.widths])
            numbers, place = iter(self._parts(rows, bins).T), 0
            at = []
            for width in self._columns.widths:
                at.append(next(numbers) if width == 1 else rows[:, place : place + width].argmax(axis=1))
                place += width
            np.add.at(table, tuple(at), 1)
            counts.append(table.ravel())
        self._counted(query, answer, counts, moment_bounds.cells(self._problem.relation))
        return answer

    def products(self, query: str, center: Vector) -> Vector:
        """The oracle's, scored as whole matrices, of which what is off the diagonal was answered once."""
        answer, problem, at = self._oracle.products(query, center), self._problem, self._columns.is_number
        upper = np.triu_indices(int(at.sum()))
        off = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
        means = []
        for rows in self._rows:
            y = (rows - center)[:, at]
            means.append((y.T @ y)[upper] * off / problem.places)
        bound = moment_bounds.products(self._columns, center, problem.relation)
        self._scored(query, answer * self.moments.share, means, bound / problem.n)
        return answer

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """The oracle's; of one output."""
        answer, counts = self._oracle.scores(query, weights, bins, clip), []
        for rows, y in zip(self._rows, self._targets, strict=True):
            margins = rows @ weights[:-1] + weights[-1]
            if self._problem.loss.takes == "number":
                table = np.histogram((margins - y).clip(-clip, clip), bins, (-clip, clip))[0]
            else:
                said = (bins / (1 + np.exp(-margins))).astype(int).clip(0, bins - 1)
                table = np.bincount((y > 0) * bins + said, minlength=2 * bins)
            counts.append(table.astype(float))
        self._counted(query, answer, counts, moment_bounds.cells(self._problem.relation))
        return answer

    def _parts(self, rows: Vector, bins: int) -> Vector:
        low, high = self._columns.low, self._columns.high
        parts: Vector = ((rows[:, self._columns.is_number] - low) / (high - low) * bins).astype(int).clip(0, bins - 1)
        return parts

    def _counted(self, query: str, answer: Vector, counts: list[Vector], bound: float) -> None:
        k = self._problem.unit.slots
        self._scored(query, answer, [count / k for count in counts], bound)

    def _scored(self, query: str, answer: Vector, means: list[Vector], bound: float) -> None:
        """Adds ln of N(mean of one, std) over N(mean of two, std) at the answer."""
        std = self._plan.query(query).noise_multiplier * bound
        one, two = means
        self._own += float((answer - (one + two) / 2) @ (one - two)) / std**2
