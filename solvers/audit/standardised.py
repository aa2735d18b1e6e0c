"""The attacker of transcripts that consist of moments and limited gradients, which are all Gaussian answers."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accounting.plan import Plan, PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers import moment_bounds
from solvers.columns import Columns
from solvers.data_access.data import Data
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Loss
from solvers.problem import Problem, Vector


class StandardisedAttacker:
    """An oracle that returns the answers of the real one, and scores each by its density on either dataset."""

    def __init__(self, oracle: StandardisedOracle, problem: Problem, plan: Plan, one: Data, two: Data) -> None:
        if problem.columns is None:
            raise Unsuitable("columns: the attack on moments needs declared columns, so set Problem.columns")
        self._oracle, self._plan, self._n, self._unit = oracle, plan, problem.n, problem.unit
        unscaled = [replace(data, scale=np.ones(problem.slots)) for data in (one, two)]
        self._rows = [rows_of(stored)[data.present()] for stored, data in zip(unscaled, (one, two), strict=True)]
        self._targets = [data.y[data.present()] for data in (one, two)]
        self._slots, self._loss = problem.slots, problem.loss
        self._columns: Columns = problem.columns
        self._relation = problem.relation
        self.score = 0.0

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise."""
        return self._oracle.planned(query)

    @property
    def share(self) -> float:
        """Noisy share of slots that contain a row; in the attacked datasets, all do."""
        return self._oracle.share

    def means(self, query: str) -> Vector:
        """Return the answer, and score it."""
        answer, bound = self._oracle.means(query), moment_bounds.means(self._columns, self._relation, self._unit)
        self._scored(query, answer * self.share, [x[:, :-1].sum(axis=0) / self._slots for x in self._rows], bound)
        return answer

    def spread(self, query: str, center: Vector) -> float:
        """Return the answer, and score it."""
        answer = self._oracle.spread(query, center)
        largest = float(moment_bounds.farthest(self._columns, center).sum())
        squares = [(self._numbers(x, center) ** 2).sum() for x in self._rows]
        self._scored_number(query, answer, squares, largest / sensitivity_factor(self._relation))
        return answer

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """Return the answer, and score it."""
        answer, means = self._oracle.variances(query, center, radius), []
        longest = float(np.linalg.norm(moment_bounds.farthest(self._columns, center)))
        cut = longest > np.sqrt(sensitivity_factor(self._relation)) * radius**2
        for rows in self._rows:
            squares = self._numbers(rows, center) ** 2
            short = radius**2 / np.maximum(squares.sum(axis=1), radius**2) if cut else np.ones(len(rows))
            means.append((squares * short[:, None]).sum(axis=0) / self._slots)
        bound = moment_bounds.variances(self._columns, center, radius, self._relation)
        self._scored(query, answer * self.share, means, bound)
        return answer

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        """Return the answer, and score it."""
        answer, means = self._oracle.gradient(query, w, frame, limit), []
        for rows, y in zip(self._rows, self._targets, strict=True):
            z = in_frame(rows, frame)
            t = limited(self._loss, z @ w.reshape(-1, z.shape[1]).T, y, limit / np.linalg.norm(z, axis=1))
            means.append((t.T @ z).ravel() / self._slots)
        self._scored(query, answer, means, limit)
        return answer

    def target_mean(self, query: str) -> float:
        """Return the answer, and score it."""
        answer = self._oracle.target_mean(query)
        self._scored_number(query, answer, [y.clip(-1, 1).sum() for y in self._targets], 1.0)
        return answer

    def target_spread(self, query: str, center: float) -> float:
        """Return the answer, and score it."""
        answer = self._oracle.target_spread(query, center)
        distances = [np.abs(y.clip(-1, 1) - center).sum() for y in self._targets]
        self._scored_number(query, answer, distances, (1 + abs(center)) / sensitivity_factor(self._relation))
        return answer

    def residual(self, query: str, w: Vector, frame: Frame, most: float) -> float:
        """Return the answer, and score it."""
        answer, residuals = self._oracle.residual(query, w, frame, most), []
        for rows, y in zip(self._rows, self._targets, strict=True):
            residuals.append(np.minimum(np.abs(in_frame(rows, frame) @ w - y), most).sum())
        self._scored_number(query, answer, residuals, most / sensitivity_factor(self._relation))
        return answer

    @property
    def _at(self) -> NDArray[np.bool_]:
        return self._columns.is_number

    def _numbers(self, rows: Vector, center: Vector) -> Vector:
        numbers: Vector = (rows[:, :-1] - center)[:, self._at]
        return numbers

    def _scored(self, query: str, answer: Vector, means: list[Vector], bound: float) -> None:
        """Add the logarithm of the density N(first mean, std) over N(second mean, std) at the answer."""
        std = self._plan.query(query).noise_multiplier * bound / self._n
        first, second = means
        self.score += float((answer - (first + second) / 2) @ (first - second)) / std**2

    def _scored_number(self, query: str, answer: float, sums: list[float], bound: float) -> None:
        """Score one number, a mean over the slots that contain a row."""
        means = [np.array([total / self._slots]) for total in sums]
        self._scored(query, np.array([answer * self.share]), means, bound)


def in_frame(rows: Vector, frame: Frame) -> Vector:
    """Return z(x) of each row."""
    return np.column_stack(((rows[:, :-1] - frame.center) * frame.scale, np.full(len(rows), frame.constant)))


def limited(loss: Loss, margins: Vector, y: Vector, allowed: Vector) -> Vector:
    """Return t of each row, shape (rows, K), with norms up to `allowed`; see docs/proofs/adaptive_gd.md."""
    if loss.takes == "number":
        cut: Vector = (margins[:, 0] - y).clip(-allowed, allowed)
        return cut[:, None]
    if loss.outputs == 1:
        s = 1 / (1 + np.exp(y * margins[:, 0]))
        slopes, longest = (-y * s)[:, None], np.maximum(s, 1 - s)
    else:
        p = np.exp(margins - margins.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        slopes, longest = p - np.eye(loss.outputs)[y.astype(int)], np.sqrt((p**2).sum(axis=1) + 1 - 2 * p.min(axis=1))
    return np.asarray(slopes * np.minimum(1, allowed / longest)[:, None])
