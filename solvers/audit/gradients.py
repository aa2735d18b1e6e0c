"""The attackers of transcripts that hold gradients, of full batches, random batches or secret slots."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from accounting.mechanisms import PoissonGaussian, RandomAllocation, SvrgStep
from accounting.plan import Plan
from solvers.centred import centres
from solvers.data_access.allocated import AllocatedOracle
from solvers.domains import Free
from solvers.frame import Frame
from solvers.oracles import FullBatch, Sampled
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer


@dataclass(frozen=True, eq=False)
class Row:
    """One record; the null record, if `is_null`, zeros that count nowhere."""

    x: Vector
    y: float
    is_null: bool = False

    def slope(self, problem: Problem, w: Vector) -> Vector:
        """The slope of its loss at w: a number, of shape (), or one for each output."""
        return np.asarray(_slopes(problem, [self], w[None])[..., 0, 0])

    def gradient(self, problem: Problem, w: Vector) -> Vector:
        """The gradient of its loss at w."""
        found: Vector = _gradients(problem, [self], w[None])[0, 0]
        return found

    def framed(self, frame: Frame, row_norm: float) -> "Row":
        """The record in a frame, shortened."""
        if self.is_null:
            return self
        z = np.append((self.x[:-1] - frame.center) * frame.scale, frame.constant)
        return Row(z * (row_norm / max(float(np.linalg.norm(z)), row_norm)), self.y)


def _slopes(problem: Problem, rows: Sequence[Row], points: Vector) -> Vector:
    """That of each row at each of the points, (m, size): of shape (m, rows), of several outputs (K, m, rows).

    One call for all of them: what a call costs is most of an audit's time.
    """
    X, y = np.array([row.x for row in rows]), np.tile([row.y for row in rows], len(points))
    margins = np.moveaxis(points.reshape(len(points), *problem.shape) @ X.T, 0, -2)
    slopes = problem.loss.slope(margins.reshape(*margins.shape[:-2], -1), y).reshape(margins.shape)
    norms = np.abs(slopes) if slopes.ndim == 2 else np.linalg.norm(slopes, axis=0)
    return np.asarray(slopes * (problem.slope_bound / np.maximum(norms, problem.slope_bound)))


def _gradients(problem: Problem, rows: Sequence[Row], points: Vector) -> Vector:
    """The gradients of these slopes, (rows, m, size)."""
    slopes, X = _slopes(problem, rows, points), np.array([row.x for row in rows])
    found = np.einsum("...mr,rd->rm...d", slopes, X)
    return np.asarray(found.reshape(len(rows), len(points), problem.size))


class AnyOracle(FullBatch, Sampled, Protocol):
    """An oracle of full or of sampled gradients; a run requests only answers that its own oracle has."""


class Attacker:
    """An oracle that answers through the real one, and scores its answers against both candidate rows.

    Every other row is `others`, known: what it adds is, too, but for how many of them a batch holds. Sampled answers
    are kept, and scored together when the score is asked for.
    """

    def __init__(
        self, oracle: AnyOracle, problem: Problem, plan: Plan, one: Row, two: Row, others: Row | None = None
    ) -> None:
        self._oracle, self._problem, self._plan, self._rows = oracle, problem, plan, (one, two)
        self._known = () if others is None else (others,)
        self._scored = 0.0
        self._kept: defaultdict[tuple[str, str], list[tuple[Vector, Vector, Vector]]] = defaultdict(list)

    @property
    def score(self) -> float:
        """ln of the law of all answers with one row over that with the other."""
        found = self._scored
        for (query, kind), kept in self._kept.items():
            answers, points, anchors = (np.vstack(part) for part in zip(*kept, strict=True))
            if kind == "gradient":
                found += self._gradients(query, answers, points)
            else:
                found += self._changes(query, answers, points, anchors, kind == "centred")
        return found

    def horizon(self, query: str) -> int:
        """The oracle's."""
        return self._oracle.horizon(query)

    def gradient(self, query: str, w: Vector) -> Vector:
        """The oracle's; every answer is N(mean of one, std) or N(mean of two, std)."""
        answer, problem = self._oracle.gradient(query, w), self._problem
        *own, rest = [*_gradients(problem, (*self._rows, *self._known), w[None])[:, 0], 0.0 * w][:3]
        means = [(rest * (problem.n - 1) + gradient) / problem.n for gradient in own]
        std = self._plan.query(query).noise_multiplier * problem.G / problem.n
        self._scored += _tilt(answer, means[0], std) - _tilt(answer, means[1], std)
        return answer

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """The oracle's."""
        answer = self._oracle.sampled_gradient(query, w)
        self._kept[query, "gradient"].append((answer, w, w))
        return answer

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """The oracle's."""
        answer = self._oracle.sampled_change(query, w, anchor)
        self._kept[query, "change"].append((answer, w, anchor))
        return answer

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """The oracle's."""
        answer = self._oracle.centred_change(query, w, anchor)
        self._kept[query, "centred"].append((answer, w, anchor))
        return answer

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> Vector | None:
        """The oracle's points, where they give the answers back: on a free domain; else None, and each is asked for."""
        problem, shrink = self._problem, 1 + step * self._problem.mu
        free = isinstance(problem.domain, Free) and isinstance(problem.regularizer, NoRegularizer | L2)
        points = self._oracle.walk(query, w, anchor, snapshot, step, count, centred) if free else None
        if points is not None:
            before = np.vstack((w, points[:-1]))
            answers = (before - shrink * points) / step
            near = problem.L * np.linalg.norm(before - anchor, axis=1) <= problem.G
            for some, kind, added in ((near, "centred" if centred else "change", snapshot), (~near, "gradient", 0.0)):
                if some.any():
                    of = before[some]
                    self._kept[query, kind].append((answers[some] - added, of, np.broadcast_to(anchor, of.shape)))
        return points

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """The oracle's. The row is always in the mean at the anchor, and in the batch or not."""
        answer, problem, planned = self._oracle.printed_change(query, w, anchor), self._problem, self._plan.query(query)
        mechanism = planned.mechanism
        if not isinstance(mechanism, SvrgStep):
            raise TypeError("a printed answer of another mechanism")
        size, rate = mechanism.batch, mechanism.batch / mechanism.rows
        std, logs = planned.noise_multiplier * 2 * problem.G / size, []
        for row in self._rows:
            before = row.gradient(problem, anchor)
            out = before / problem.n
            drawn = _tilt(answer, out + (row.gradient(problem, w) - before) / size, std)
            left = math.log1p(-rate) + _tilt(answer, out, std) if rate < 1 else -math.inf
            logs.append(float(np.logaddexp(left, math.log(rate) + drawn)))
        self._scored += logs[0] - logs[1]
        return answer

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """The oracle's, unscored: its law is that of the released point."""
        return self._oracle.last_iterate(query, steps, step)

    def _gradients(self, query: str, answers: Vector, points: Vector) -> float:
        """The score of sampled gradients."""
        terms = _gradients(self._problem, (*self._rows, *self._known), points)
        return self._sampled(query, answers, terms, np.full(len(points), self._problem.G), np.zeros_like(points))

    def _changes(self, query: str, answers: Vector, points: Vector, anchors: Vector, centred: bool) -> float:
        """That of sampled changes, of those that have not stayed at their anchor."""
        problem, moved = self._problem, points - anchors
        distances = np.linalg.norm(moved, axis=1)
        halves = np.array([centred and centres(problem, distance) for distance in distances])
        bounds = np.where(halves, problem.L * distances / 2, np.minimum(problem.G, problem.L * distances))
        some = bounds > 0
        if not some.any():
            return 0.0
        back = np.where(halves, problem.L / 2, 0.0)[some, None] * moved[some]
        rows = (*self._rows, *self._known)
        after, before = (_gradients(problem, rows, at[some]) for at in (points, anchors))
        held = np.array([not row.is_null for row in rows])
        terms = held[:, None, None] * (after - before - back)
        terms = terms if self._known else np.concatenate((terms, -back[None]))
        return self._sampled(query, answers[some], terms, bounds[some], back)

    def _sampled(self, query: str, answers: Vector, terms: Vector, bounds: Vector, means: Vector) -> float:
        """ln of the law of mean + (a sum over a Poisson batch) / size + noise with one over that with the other, summed
        over the answers.

        `terms`, (2 or 3, m, size), are what one, the other and, if they add anything, each of the remaining rows add to
        each answer where they are in the batch.
        """
        planned, n = self._plan.query(query), self._problem.n
        if not isinstance(planned.mechanism, PoissonGaussian):
            raise TypeError("a sampled answer of another mechanism")
        rate = planned.mechanism.rate
        size, own, rest = rate * n, terms[:2], terms[2:].sum(axis=0)
        stds = planned.noise_multiplier * bounds / size
        held, chances = np.zeros(1), np.zeros(1)
        if (n * np.linalg.norm(rest, axis=1) >= 1e-9 * bounds).any():
            held = np.arange(float(n))
            chances = _log_binomial(n - 1, rate, held)
        around = means + np.multiply.outer(held, rest / size)
        out, logs = _tilts(answers, around, stds), []
        for term in own:
            left = math.log1p(-rate) + out if rate < 1 else np.full(out.shape, -math.inf)
            drawn = math.log(rate) + _tilts(answers, around + term / size, stds)
            logs.append(np.logaddexp.reduce(chances[:, None] + np.logaddexp(left, drawn)).sum())
        return float(logs[0] - logs[1])


class SlotAttacker:
    """The same of slots: all answers of a use count together, the row is in one slot, any of them, or in none."""

    def __init__(self, oracle: AllocatedOracle, problem: Problem, plan: Plan, one: Row, two: Row) -> None:
        self._oracle, self._problem, self._plan, self._rows = oracle, problem, plan, (one, two)
        self.score = 0.0
        self._kept: list[tuple[Vector, Vector]] = []

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """The oracle's."""
        answer, problem, planned = self._oracle.allocated_gradient(query, w), self._problem, self._plan.query(query)
        mechanism = planned.mechanism
        if not isinstance(mechanism, RandomAllocation):
            raise TypeError("an allocated answer of another mechanism")
        self._kept.append((answer, w))
        if len(self._kept) == mechanism.slots:
            answers, points = (np.array(part) for part in zip(*self._kept, strict=True))
            self._kept = []
            size = mechanism.normalizer(problem.n)
            stds = np.full(len(points), planned.noise_multiplier * problem.G / size)
            slots = _tilts(answers, _gradients(problem, self._rows, points) / size, stds)
            in_some = math.log(mechanism.rate / mechanism.slots) + np.logaddexp.reduce(slots, axis=1)
            none = math.log1p(-mechanism.rate) if mechanism.rate < 1 else -math.inf
            one, two = np.logaddexp(none, in_some)
            self.score += float(one - two)
        return answer


def _log_binomial(n: int, rate: float, k: Vector) -> Vector:
    """ln P(Bin(n, rate) = k)."""
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(ways + xlogy(k, rate) + xlog1py(n - k, -rate))


def _tilts(answers: Vector, means: Vector, stds: Vector) -> Vector:
    """`_tilt` of m answers, (m, size), for each of the means, (.., m, size)."""
    return np.asarray(np.einsum("...md,...md->...m", answers - means / 2, means) / stds**2)


def _tilt(answer: Vector, mean: Vector, std: float) -> float:
    """ln of N(mean, std) over N(0, std) at the answer."""
    return float(answer @ mean - mean @ mean / 2) / std**2
