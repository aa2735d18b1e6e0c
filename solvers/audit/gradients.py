"""Attackers of transcripts that consist of gradients over all records, random batches or secret slots.

A *tilt* is the logarithm of the density of N(mean, std) over that of N(0, std), at an answer.
"""

import math
from collections import defaultdict

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from accounting.mechanisms import PoissonGaussian, RandomAllocation, SvrgStep
from accounting.plan import Plan
from solvers.audit.neighbors import Row, gradients
from solvers.centred import centres
from solvers.data_access.allocated import AllocatedOracle
from solvers.domains import Free
from solvers.oracles import Sampled
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer

_NEGLIGIBLE = 1e-9  # of a bound: if all other records add less, the size of a batch hardly changes an answer


class GradientAttacker:
    """An oracle that returns the answers of the real one, and scores them against both candidate rows.

    Every other row is `other_rows`, which is known. The attacker therefore knows what the other rows add, except how
    many of them are in a batch. Sampled answers are collected, and scored together when the score is read.
    """

    def __init__(
        self, oracle: Sampled, problem: Problem, plan: Plan, first: Row, second: Row, other_rows: Row | None = None
    ) -> None:
        self._oracle, self._problem, self._plan, self._rows = oracle, problem, plan, (first, second)
        self._other_rows = () if other_rows is None else (other_rows,)
        self._full_score = 0.0
        self._sampled_answers: defaultdict[tuple[str, str], list[tuple[Vector, Vector, Vector]]] = defaultdict(list)

    @property
    def score(self) -> float:
        """Logarithm of the density of all answers with the first row over that with the second."""
        score = self._full_score
        for (query, kind), collected in self._sampled_answers.items():
            answers, points, anchors = (np.vstack(part) for part in zip(*collected, strict=True))
            if kind == "gradient":
                score += self._gradients(query, answers, points)
            else:
                score += self._changes(query, answers, points, anchors, kind == "centred")
        return score

    def horizon(self, query: str) -> int:
        """Return the number of answers."""
        return self._oracle.horizon(query)

    def gradient(self, query: str, w: Vector) -> Vector:
        """Return the answer, which is N(first mean, std) or N(second mean, std)."""
        answer, problem = self._oracle.gradient(query, w), self._problem
        rows = (*self._rows, *self._other_rows)
        first, second, other_gradient = [*gradients(problem, rows, w[None])[:, 0], 0.0 * w][:3]
        means = [(other_gradient * (problem.n - 1) + gradient) / problem.n for gradient in (first, second)]
        std = self._plan.query(query).noise_multiplier * problem.G / problem.n
        self._full_score += _tilt(answer, means[0], std) - _tilt(answer, means[1], std)
        return answer

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Return the answer, and collect it."""
        answer = self._oracle.sampled_gradient(query, w)
        self._sampled_answers[query, "gradient"].append((answer, w, w))
        return answer

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return the answer, and collect it."""
        answer = self._oracle.sampled_change(query, w, anchor)
        self._sampled_answers[query, "change"].append((answer, w, anchor))
        return answer

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return the answer, and collect it."""
        answer = self._oracle.centred_change(query, w, anchor)
        self._sampled_answers[query, "centred"].append((answer, w, anchor))
        return answer

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> Vector | None:
        """Return the points of a walk; None unless the domain is free, so that the points determine the answers."""
        problem, shrink = self._problem, 1 + step * self._problem.mu
        is_free = isinstance(problem.domain, Free) and isinstance(problem.regularizer, NoRegularizer | L2)
        points = self._oracle.walk(query, w, anchor, snapshot, step, count, centred) if is_free else None
        if points is None:
            return None
        starts = np.vstack((w, points[:-1]))
        answers = (starts - shrink * points) / step
        is_change = problem.L * np.linalg.norm(starts - anchor, axis=1) <= problem.G
        change = "centred" if centred else "change"
        for chosen, kind, added in ((is_change, change, snapshot), (~is_change, "gradient", np.zeros_like(snapshot))):
            if chosen.any():
                anchors = np.broadcast_to(anchor, starts[chosen].shape)
                self._sampled_answers[query, kind].append((answers[chosen] - added, starts[chosen], anchors))
        return points

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return the answer. The row is always in the mean at the anchor, and it is in the batch or not."""
        answer = self._oracle.printed_change(query, w, anchor)
        problem = self._problem
        planned = self._plan.query(query)
        mechanism = planned.mechanism
        assert isinstance(mechanism, SvrgStep)
        size, rate = mechanism.batch, mechanism.batch / mechanism.rows
        std, logs = planned.noise_multiplier * 2 * problem.G / size, []
        for row in self._rows:
            anchored = row.gradient(problem, anchor)
            mean = anchored / problem.n
            in_batch = _tilt(answer, mean + (row.gradient(problem, w) - anchored) / size, std)
            not_in_batch = math.log1p(-rate) + _tilt(answer, mean, std) if rate < 1 else -math.inf
            logs.append(float(np.logaddexp(not_in_batch, math.log(rate) + in_batch)))
        self._full_score += logs[0] - logs[1]
        return answer

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """Return the answer without a score: it is the released point, which a statistic attacks."""
        return self._oracle.last_iterate(query, steps, step)

    def _gradients(self, query: str, answers: Vector, points: Vector) -> float:
        """Return the score of sampled gradients."""
        terms = gradients(self._problem, (*self._rows, *self._other_rows), points)
        return self._sampled(query, answers, terms, np.full(len(points), self._problem.G), np.zeros_like(points))

    def _changes(self, query: str, answers: Vector, points: Vector, anchors: Vector, centred: bool) -> float:
        """Return the score of sampled changes at points other than their anchor."""
        problem, moves = self._problem, points - anchors
        distances = np.linalg.norm(moves, axis=1)
        is_centred = np.array([centred and centres(problem, distance) for distance in distances])
        bounds = np.where(is_centred, problem.L * distances / 2, np.minimum(problem.G, problem.L * distances))
        has_moved = bounds > 0
        if not has_moved.any():
            return 0.0
        centers = np.where(is_centred, problem.L / 2, 0.0)[has_moved, None] * moves[has_moved]
        rows = (*self._rows, *self._other_rows)
        at_points, at_anchors = (gradients(problem, rows, w[has_moved]) for w in (points, anchors))
        is_present = np.array([not row.is_null for row in rows])
        terms = is_present[:, None, None] * (at_points - at_anchors - centers)
        terms = terms if self._other_rows else np.concatenate((terms, -centers[None]))
        return self._sampled(query, answers[has_moved], terms, bounds[has_moved], centers)

    def _sampled(self, query: str, answers: Vector, terms: Vector, bounds: Vector, means: Vector) -> float:
        """Return the score of answers of the form mean + (sum over a Poisson batch) / size + noise.

        `terms`, shape (2 or 3, m, size), are what each record adds to an answer if it is in the batch: the first and
        the second candidate, and each other record unless it adds nothing.
        """
        planned, n = self._plan.query(query), self._problem.n
        assert isinstance(planned.mechanism, PoissonGaussian)
        rate = planned.mechanism.rate
        size, candidates, other_term = rate * n, terms[:2], terms[2:].sum(axis=0)
        stds = planned.noise_multiplier * bounds / size
        other_counts = np.zeros(1)
        log_chances = np.zeros(1)
        if (n * np.linalg.norm(other_term, axis=1) >= _NEGLIGIBLE * bounds).any():
            other_counts = np.arange(float(n))
            log_chances = _log_binomial(n - 1, rate, other_counts)
        other_means = means + np.multiply.outer(other_counts, other_term / size)
        without, logs = _tilts(answers, other_means, stds), []
        for term in candidates:
            not_in_batch = math.log1p(-rate) + without if rate < 1 else np.full(without.shape, -math.inf)
            in_batch = math.log(rate) + _tilts(answers, other_means + term / size, stds)
            logs.append(np.logaddexp.reduce(log_chances[:, None] + np.logaddexp(not_in_batch, in_batch)).sum())
        return float(logs[0] - logs[1])


class SlotAttacker:
    """An attacker of secret slots, which scores all answers of a use together: the row is in one slot, or in none."""

    def __init__(self, oracle: AllocatedOracle, problem: Problem, plan: Plan, first: Row, second: Row) -> None:
        self._oracle, self._problem, self._plan, self._rows = oracle, problem, plan, (first, second)
        self.score = 0.0
        self._answers: list[tuple[Vector, Vector]] = []

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """Return the answer, and score a use with its last answer."""
        answer = self._oracle.allocated_gradient(query, w)
        problem = self._problem
        planned = self._plan.query(query)
        mechanism = planned.mechanism
        assert isinstance(mechanism, RandomAllocation)
        self._answers.append((answer, w))
        if len(self._answers) == mechanism.slots:
            answers, points = (np.array(part) for part in zip(*self._answers, strict=True))
            self._answers = []
            size = mechanism.normalizer(problem.n)
            stds = np.full(len(points), planned.noise_multiplier * problem.G / size)
            slots = _tilts(answers, gradients(problem, self._rows, points) / size, stds)
            in_a_slot = math.log(mechanism.rate / mechanism.slots) + np.logaddexp.reduce(slots, axis=1)
            in_no_slot = math.log1p(-mechanism.rate) if mechanism.rate < 1 else -math.inf
            first, second = np.logaddexp(in_no_slot, in_a_slot)
            self.score += float(first - second)
        return answer


def _log_binomial(n: int, rate: float, k: Vector) -> Vector:
    """Return ln P(Bin(n, rate) = k)."""
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(ways + xlogy(k, rate) + xlog1py(n - k, -rate))


def _tilts(answers: Vector, means: Vector, stds: Vector) -> Vector:
    """Return the tilts of m answers, (m, size), for each of the means, (..., m, size)."""
    return np.asarray(np.einsum("...md,...md->...m", answers - means / 2, means) / stds**2)


def _tilt(answer: Vector, mean: Vector, std: float) -> float:
    """Return the tilt of one answer."""
    return float(answer @ mean - mean @ mean / 2) / std**2
