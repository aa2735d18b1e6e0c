"""Attackers on a worst-case neighboring pair: of a run's whole transcript, and of its release alone.

Two datasets differ in one row; every other row is zero and has no gradient. The attacker of transcripts sees every
private answer (more than any release), knows both candidate rows, and scores a run by the exact log-likelihood ratio of
the answers. The attacker of releases scores a run by a given number of the released model.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from accounting.calibration import certify
from accounting.mechanisms import PoissonGaussian, RandomAllocation, SvrgStep
from accounting.mechanisms.exponential import weights
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.audit.bounds import DELTAS, Scores, epsilon_lower_bound
from solvers.audit.standardised import StandardisedAttacker
from solvers.data_access import frames, inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.data import Data
from solvers.data_access.oracle import PrivateOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.methods import Run
from solvers.methods.data.inverse_sensitivity import InverseSensitivityRun
from solvers.preparation import Preparation
from solvers.problem import Problem, Vector
from solvers.solve import AS_DECLARED, oracle_of, parted

Statistic = Callable[[Vector], float]


@dataclass(frozen=True, eq=False)
class Row:
    """One record."""

    x: Vector
    y: float

    def slope(self, problem: Problem, w: Vector) -> Vector:
        """The slope of its loss at w: a number, of shape (), or one for each output."""
        margin = (w.reshape(problem.shape) @ self.x)[..., None]
        slope = np.asarray(problem.loss.slope(margin, np.array([self.y]))[..., 0])
        return slope * (problem.slope_bound / max(float(np.linalg.norm(slope)), problem.slope_bound))

    def gradient(self, problem: Problem, w: Vector) -> Vector:
        """The gradient of its loss at w."""
        return np.multiply.outer(self.slope(problem, w), self.x).ravel()

    def framed(self, frame: Frame, row_norm: float) -> "Row":
        """The record in a frame, shortened."""
        z = np.append((self.x[:-1] - frame.center) * frame.scale, frame.constant)
        return Row(z * (row_norm / max(float(np.linalg.norm(z)), row_norm)), self.y)


class Attacker:
    """An oracle that answers through the real one, and scores each answer against both candidate rows."""

    def __init__(self, oracle: PrivateOracle, problem: Problem, plan: Plan, one: Row, two: Row) -> None:
        self._oracle, self._problem, self._plan, self._rows = oracle, problem, plan, (one, two)
        self.score = 0.0

    def horizon(self, query: str) -> int:
        """The oracle's."""
        return self._oracle.horizon(query)

    def gradient(self, query: str, w: Vector) -> Vector:
        """The oracle's; every answer is N(mean of one, std) or N(mean of two, std)."""
        answer = self._oracle.gradient(query, w)
        means = [row.gradient(self._problem, w) / self._problem.n for row in self._rows]
        self._add(answer, means, self._plan.query(query).noise_multiplier * self._problem.G / self._problem.n, 1.0)
        return answer

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """The oracle's."""
        answer = self._oracle.sampled_gradient(query, w)
        self._sampled(query, answer, [row.gradient(self._problem, w) for row in self._rows], self._problem.G)
        return answer

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """The oracle's."""
        answer, problem = self._oracle.sampled_change(query, w, anchor), self._problem
        bound = min(problem.G, problem.L * float(np.linalg.norm(w - anchor)))
        if bound > 0:
            changes = [row.gradient(problem, w) - row.gradient(problem, anchor) for row in self._rows]
            self._sampled(query, answer, changes, bound)
        return answer

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
        self.score += logs[0] - logs[1]
        return answer

    def walk(self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int) -> None:
        """None: every answer is asked for by itself, and scored."""

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """The oracle's, unscored: its law is that of the released point."""
        return self._oracle.last_iterate(query, steps, step)

    def _sampled(self, query: str, answer: Vector, sums: Sequence[Vector], bound: float) -> None:
        planned = self._plan.query(query)
        if not isinstance(planned.mechanism, PoissonGaussian):
            raise TypeError("a sampled answer of another mechanism")
        rate = planned.mechanism.rate
        size = rate * self._problem.n
        self._add(answer, [s / size for s in sums], planned.noise_multiplier * bound / size, rate)

    def _add(self, answer: Vector, means: Sequence[Vector], std: float, rate: float) -> None:
        """ln of (1-q) N(0) + q N(mean of one) over the same for two; q = 1 for a full gradient."""
        logs = []
        for mean in means:
            tilt = _tilt(answer, mean, std)
            logs.append(tilt if rate == 1 else float(np.logaddexp(math.log1p(-rate), math.log(rate) + tilt)))
        self.score += logs[0] - logs[1]


class SlotAttacker:
    """The same of slots: all answers of a use count together, the row is in one slot, any of them, or in none."""

    def __init__(self, oracle: AllocatedOracle, problem: Problem, plan: Plan, one: Row, two: Row) -> None:
        self._oracle, self._problem, self._plan, self._rows = oracle, problem, plan, (one, two)
        self.score = 0.0
        self._tilts: list[list[float]] = []

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """The oracle's."""
        answer, problem, planned = self._oracle.allocated_gradient(query, w), self._problem, self._plan.query(query)
        mechanism = planned.mechanism
        if not isinstance(mechanism, RandomAllocation):
            raise TypeError("an allocated answer of another mechanism")
        size = mechanism.normalizer(problem.n)
        std = planned.noise_multiplier * problem.G / size
        means = [row.gradient(problem, w) / size for row in self._rows]
        self._tilts.append([_tilt(answer, mean, std) for mean in means])
        if len(self._tilts) == mechanism.slots:
            slots, self._tilts = np.array(self._tilts), []
            in_some = math.log(mechanism.rate / mechanism.slots) + np.logaddexp.reduce(slots, axis=0)
            none = math.log1p(-mechanism.rate) if mechanism.rate < 1 else -math.inf
            one, two = np.logaddexp(none, in_some)
            self.score += float(one - two)
        return answer


def _tilt(answer: Vector, mean: Vector, std: float) -> float:
    """ln of N(mean, std) over N(0, std) at the answer."""
    return float(answer @ mean - mean @ mean / 2) / std**2


def neighbor(problem: Problem, row: Row, position: int = 0) -> Data:
    """Zeros, but for one row."""
    X, y = np.zeros((problem.n, problem.d)), np.zeros(problem.n)
    X[position], y[position] = row.x, row.y
    return inputs.of_arrays(X, y, problem)


def scores(
    method: Run,
    problem: Problem,
    plan: Plan,
    rows: tuple[Row, Row],
    runs: int,
    noise: Callable[[int], Noise],
    statistic: Statistic | None = None,
    position: int = 0,
    preparation: Preparation = AS_DECLARED,
) -> tuple[Scores, Scores]:
    """Scores of `runs` runs with the first row, and of as many with the second.

    Parameters
    ----------
    noise : the randomness for either dataset, 0 and 1
    statistic : of the released model; None attacks the transcript, which an oracle's method has
    position : of the replaced row
    preparation : how rows are prepared; the problem is that before it, the method is resolved for that after it
    """
    found = [np.empty(runs), np.empty(runs)]
    for which, row in enumerate(rows):
        data, source = neighbor(problem, row, position), noise(which)
        for j in range(runs):
            found[which][j] = _score(method, problem, plan, data, rows, source, statistic, position, preparation)
    return found[0], found[1]


def _score(
    method: Run,
    problem: Problem,
    plan: Plan,
    data: Data,
    rows: tuple[Row, Row],
    noise: Noise,
    statistic: Statistic | None,
    position: int,
    preparation: Preparation = AS_DECLARED,
) -> float:
    before, plan = parted(plan, set(preparation.bounds(problem)))
    if before.queries:
        pair = [neighbor(problem, row, position) for row in rows]
        moments = StandardisedAttacker(StandardisedOracle(problem, data, before, noise), problem, before, *pair)
        frame = preparation.frame(moments, problem)
        if frame is None:
            raise TypeError("a preparation that asks makes a frame of the answers")
        prepared = frames.framed(data, frame, preparation.prepared(problem).row_norm)
        met = prepared.problem
        framed = rows[0].framed(frame, met.row_norm), rows[1].framed(frame, met.row_norm)
        rest = _score(method, met, plan, prepared, framed, noise, statistic, position)
        return rest + (moments.score if statistic is None else 0.0)
    if method.door == "data":
        if statistic is None:
            raise ValueError("a method that sees the data has no transcript to attack: name a statistic")
        return statistic(method.run(DataAccess(problem, data, plan, noise), problem))
    if method.door == "standardised":
        pair = [neighbor(problem, row, position) for row in rows]
        scoring = StandardisedAttacker(StandardisedOracle(problem, data, plan, noise), problem, plan, *pair)
        model = method.run(scoring, problem)
        return scoring.score if statistic is None else statistic(model)
    if method.door == "allocated":
        slots = SlotAttacker(AllocatedOracle(problem, data, plan, noise), problem, plan, *rows)
        model = method.run(slots, problem)
        return slots.score if statistic is None else statistic(model)
    attacker = Attacker(oracle_of(method, data, plan, noise), problem, plan, *rows)
    released = method.run(attacker, problem)
    return attacker.score if statistic is None else statistic(released)


def excess(one: Scores, two: Scores, plan: Plan) -> float:
    """By how much the lower bound on epsilon exceeds what is certified, at the worst delta; not positive if honest."""
    return max(epsilon_lower_bound(one, two, delta) - certify(plan, delta)[0] for delta in DELTAS)


def halved(plan: Plan) -> Plan:
    """The plan with half its noise, which breaks its promise."""
    return Plan(tuple(replace(q, noise_multiplier=q.noise_multiplier / 2) for q in plan.queries))


class _Choosing(DataAccess):
    """An access that keeps the law of a choice instead of making it."""

    __slots__ = ("law",)

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        planned = self.planned(query)
        shares = [Fraction(share) for share in weights(value, planned.noise_multiplier, bound)]
        whole = sum(shares)
        self.law = [share / whole for share in shares]
        return np.zeros(1)


def law(method: InverseSensitivityRun, problem: Problem, plan: Plan, y: Vector) -> list[Fraction]:
    """The probability of each point of the grid, by the weights of a run on rows of ones."""
    data = inputs.of_arrays(np.ones((problem.n, problem.d)), y, problem)
    access = _Choosing(problem, data, plan, Noise())
    method.run(access, problem)
    return access.law
