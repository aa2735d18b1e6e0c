"""The attacker of transcripts that consist of moments, counts and products, which are all Gaussian answers."""

from dataclasses import replace

import numpy as np

from accounting.plan import Plan
from solvers import count_bounds
from solvers.audit.standardised import StandardisedAttacker
from solvers.columns import Columns
from solvers.data_access.counting import CountingOracle
from solvers.data_access.data import Data
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.groups import Groups
from solvers.problem import Problem, Vector


class CountingAttacker:
    """An oracle that returns the answers of the real one, and scores each by its density on either dataset."""

    def __init__(
        self, oracle: CountingOracle, moments: StandardisedAttacker, problem: Problem, plan: Plan, one: Data, two: Data
    ) -> None:
        if problem.columns is None:
            raise Unsuitable("columns: the attack on counts needs declared columns, so set Problem.columns")
        self._oracle, self._plan, self._problem, self.moments = oracle, plan, problem, moments
        self._columns: Columns = problem.columns
        stored = [rows_of(replace(data, scale=np.ones(problem.slots))) for data in (one, two)]
        self._rows = [rows[data.present(), :-1] for rows, data in zip(stored, (one, two), strict=True)]
        self._targets = [data.y[data.present()] for data in (one, two)]
        self._own = 0.0

    @property
    def score(self) -> float:
        """Logarithm of the density of all answers on the first dataset over that on the second."""
        return self._own + self.moments.score

    def histograms(self, query: str, bins: int) -> Vector:
        """Return the answer, and score it."""
        answer = self._oracle.histograms(query, bins)
        counts = [np.array([np.bincount(part, minlength=bins) for part in self._parts(x, bins).T]) for x in self._rows]
        bound = count_bounds.counts(self._columns, self._problem.relation)
        self._counted(query, answer, [count.ravel() for count in counts], bound)
        return answer

    def cells(self, query: str, bins: int) -> Vector:
        """Return the answer, and score it."""
        answer, counts = self._oracle.cells(query, bins), []
        for rows in self._rows:
            table = np.zeros([bins if width == 1 else width for width in self._columns.widths])
            numbers, start = iter(self._parts(rows, bins).T), 0
            cells = []
            for width in self._columns.widths:
                cells.append(next(numbers) if width == 1 else rows[:, start : start + width].argmax(axis=1))
                start += width
            np.add.at(table, tuple(cells), 1)
            counts.append(table.ravel())
        self._counted(query, answer, counts, count_bounds.cells(self._problem.relation))
        return answer

    def group_counts(self, query: str, groups: Groups, bins: int) -> Vector:
        """Return the answer, and score it."""
        answer, counts = self._oracle.group_counts(query, groups, bins), []
        sizes = groups.parts(self._columns, bins) if bins else ()
        for rows in self._rows:
            inside, parts = self._grouped(rows, groups), self._coded(rows, self._parts(rows, max(bins, 1)))
            blocks = [
                inside.T @ np.eye(size)[part.astype(int)] for part, size in zip(parts[groups.by :], sizes, strict=False)
            ]
            counts.append(np.concatenate([block.ravel() for block in blocks or [inside.sum(axis=0)]]))
        self._counted(query, answer, counts, count_bounds.group_parts(len(sizes) or 1, self._problem.relation))
        return answer

    def group_moments(self, query: str, groups: Groups) -> Vector:
        """Return the answer, and score it."""
        answer, sums = self._oracle.group_moments(query, groups), []
        layout = groups.layout(self._columns)
        p = layout.widths.count(1)
        for rows in self._rows:
            numbers = rows[:, self._columns.is_number][:, :p]
            u = (2 * numbers - layout.low - layout.high) / (layout.high - layout.low)
            sums.append((np.hstack((u, u**2)).T @ self._grouped(rows, groups)).ravel())
        self._counted(query, answer, sums, count_bounds.group_moments(p, self._problem.relation))
        return answer

    def products(self, query: str, center: Vector) -> Vector:
        """Return the upper triangle, and score it; each off-diagonal entry counts for two entries of the matrix."""
        answer, problem, is_number = self._oracle.products(query, center), self._problem, self._columns.is_number
        upper = np.triu_indices(int(is_number.sum()))
        weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
        means = []
        for rows in self._rows:
            centered = (rows - center)[:, is_number]
            means.append((centered.T @ centered)[upper] * weights / problem.slots)
        bound = count_bounds.products(self._columns, center, problem.relation)
        self._scored(query, answer * self.moments.share, means, bound / problem.n)
        return answer

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """Return the counts for a model with one output, and score them."""
        answer, counts = self._oracle.scores(query, weights, bins, clip), []
        for rows, y in zip(self._rows, self._targets, strict=True):
            margins = rows @ weights[:-1] + weights[-1]
            if self._problem.loss.takes == "number":
                table = np.histogram((margins - y).clip(-clip, clip), bins, (-clip, clip))[0]
            else:
                predicted_bins = (bins / (1 + np.exp(-margins))).astype(int).clip(0, bins - 1)
                table = np.bincount((y > 0) * bins + predicted_bins, minlength=2 * bins)
            counts.append(table.astype(float))
        self._counted(query, answer, counts, count_bounds.cells(self._problem.relation))
        return answer

    def _grouped(self, rows: Vector, groups: Groups) -> Vector:
        """Return whether each row is in each group: (rows, groups) of 0 and 1."""
        features = self._coded(rows, rows[:, self._columns.is_number])
        widths = self._columns.widths[: groups.by]
        group = np.ravel_multi_index([f.astype(int) for f in features[: groups.by]], widths) if widths else 0
        inside: Vector = np.zeros((len(rows), groups.count(self._columns)))
        inside[np.arange(len(rows)), group] = 1.0
        for condition in groups.where:
            code = features[condition.feature]
            is_inside = np.any([(low <= code) & (code <= high) for low, high in condition.ranges], axis=0)
            inside[is_inside == condition.is_negated] = 0.0
        return inside

    def _coded(self, rows: Vector, numbers: Vector) -> list[Vector]:
        """Return the code of each feature, with these columns for its numbers."""
        number, columns = iter(numbers.T), self._columns
        starts = zip(columns.starts.tolist(), columns.widths, strict=True)
        return [next(number) if width == 1 else rows[:, at : at + width].argmax(axis=1) for at, width in starts]

    def _parts(self, rows: Vector, bins: int) -> Vector:
        low, high = self._columns.low, self._columns.high
        parts: Vector = ((rows[:, self._columns.is_number] - low) / (high - low) * bins).astype(int).clip(0, bins - 1)
        return parts

    def _counted(self, query: str, answer: Vector, counts: list[Vector], bound: float) -> None:
        k = self._problem.unit.slots
        self._scored(query, answer, [count / k for count in counts], bound)

    def _scored(self, query: str, answer: Vector, means: list[Vector], bound: float) -> None:
        """Add the logarithm of the density N(first mean, std) over N(second mean, std) at the answer."""
        std = self._plan.query(query).noise_multiplier * bound
        first, second = means
        self._own += float((answer - (first + second) / 2) @ (first - second)) / std**2
