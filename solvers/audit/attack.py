"""Attackers on a worst-case neighboring pair: of a run's whole transcript, and of its release alone.

Two datasets differ in one row, or in one person, whose rows are all alike; under zero_out it is null in the second.
Every other row is zero and has no gradient.
The attacker of transcripts sees every private answer (more than any release), knows both candidate rows, and scores a
run by the exact log-likelihood ratio of the answers. The attacker of releases scores a run by a given number of the
released model.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from accounting.calibration import certify
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.audit.bounds import ALARM, DELTAS, Scores, epsilon_lower_bound
from solvers.audit.counting import CountingAttacker
from solvers.audit.gradients import AnyOracle, Attacker, Row, SlotAttacker
from solvers.audit.standardised import StandardisedAttacker
from solvers.data_access import frames, inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.data import Data
from solvers.data_access.oracles import DataOracles, split
from solvers.data_access.standardised import StandardisedOracle
from solvers.methods import Run
from solvers.moment_bounds import MOMENTS
from solvers.preparation import Preparation
from solvers.problem import Problem, Vector
from solvers.solve import AS_DECLARED

TestStatistic = Callable[[Vector], float]


def neighbor(problem: Problem, row: Row, position: int = 0, others: Row | None = None) -> Data:
    """Rows all alike, zeros if none is named, but for one, or for all k of one person."""
    X, y, k = np.zeros((problem.places, problem.d)), np.zeros(problem.places), problem.unit.slots
    if others is not None:
        X[:], y[:] = others.x, others.y
    mine = slice(k * position, k * position + k)
    X[mine], y[mine] = row.x, row.y
    found = inputs.of_arrays(X, y, problem, np.ones(problem.places, np.bool_) if problem.unit.is_person else None)
    return without(found, mine) if row.is_null else found


def without(data: Data, mine: slice | int) -> Data:
    """The data whose record there is null."""
    scale = data.scale.copy()
    scale[mine] = 0.0
    return replace(data, scale=scale)


class Attackers:
    """The oracles of a run, of which it opens one: an attacker that asks the real oracle and scores its answers."""

    def __init__(
        self, data: Data, plan: Plan, noise: Noise, rows: tuple[Row, Row], pair: Sequence[Data], others: Row | None
    ) -> None:
        self._oracles, self._plan = DataOracles(data, plan, noise), plan
        self._rows, self._pair, self._others = rows, pair, others
        self._attacker: Attacker | SlotAttacker | StandardisedAttacker | CountingAttacker | None = None

    @property
    def problem(self) -> Problem:
        """The problem that the data were prepared for."""
        return self._oracles.problem

    @property
    def score(self) -> float:
        """ln of the law of all answers with one row over that with the other."""
        if self._attacker is None:
            raise ValueError("a method that sees the data has no transcript to attack: name a statistic")
        return self._attacker.score

    def full_batch(self, hides_steps: bool) -> Attacker:
        """Open the oracle of full gradients."""
        oracle = cast(AnyOracle, self._oracles.full_batch(hides_steps))
        self._attacker = Attacker(oracle, self.problem, self._plan, *self._rows, self._others)
        return self._attacker

    def sampled(self, walks: bool) -> Attacker:
        """Open the oracle of sampled gradients."""
        oracle = cast(AnyOracle, self._oracles.sampled(walks))
        self._attacker = Attacker(oracle, self.problem, self._plan, *self._rows, self._others)
        return self._attacker

    def allocated(self) -> SlotAttacker:
        """Open the oracle of secret slots."""
        self._attacker = SlotAttacker(self._oracles.allocated(), self.problem, self._plan, *self._rows)
        return self._attacker

    def standardised(self) -> StandardisedAttacker:
        """Open the oracle of moments and limited gradients."""
        self._attacker = StandardisedAttacker(self._oracles.standardised(), self.problem, self._plan, *self._pair)
        return self._attacker

    def counting(self) -> CountingAttacker:
        """Open the oracle of counts and products."""
        moments_plan, plan = split(self._plan, MOMENTS)
        oracle = self._oracles.counting()
        moments = StandardisedAttacker(oracle.moments, self.problem, moments_plan, *self._pair)
        self._attacker = CountingAttacker(oracle, moments, self.problem, plan, *self._pair)
        return self._attacker

    def access(self, tabulates: bool) -> DataAccess:
        """Open the data access, which has no transcript to attack."""
        return self._oracles.access(tabulates)


def scores(
    method: Run,
    problem: Problem,
    plan: Plan,
    rows: tuple[Row, Row],
    runs: int,
    noise: Callable[[int], Noise],
    statistic: TestStatistic | None = None,
    position: int = 0,
    preparation: Preparation = AS_DECLARED,
    others: Row | None = None,
) -> tuple[Scores, Scores]:
    """Scores of `runs` runs with the first row, and of as many with the second.

    Parameters
    ----------
    noise : the randomness for either dataset, 0 and 1
    statistic : of the released model; None attacks the transcript, which an oracle's method has
    position : of the replaced row
    preparation : how rows are prepared; the problem is that before it, the method is resolved for that after it
    others : every other row, of rows as they are declared; zeros if None
    """
    found, pair = [np.empty(runs), np.empty(runs)], [neighbor(problem, row, position) for row in rows]
    for which, row in enumerate(rows):
        data, source = neighbor(problem, row, position, others), noise(which)
        for j in range(runs):
            found[which][j] = _score(method, problem, plan, data, rows, pair, source, statistic, preparation, others)
    return found[0], found[1]


def _score(
    method: Run,
    problem: Problem,
    plan: Plan,
    data: Data,
    rows: tuple[Row, Row],
    pair: Sequence[Data],
    noise: Noise,
    statistic: TestStatistic | None,
    preparation: Preparation = AS_DECLARED,
    others: Row | None = None,
) -> float:
    moments_plan, method_plan = split(plan, set(preparation.bounds(problem)))
    met = preparation.prepared(problem)
    if met is not problem:
        oracle = StandardisedOracle(problem, data, moments_plan, noise)
        moments = StandardisedAttacker(oracle, problem, moments_plan, *pair)
        frame = preparation.frame(moments, problem)
        if frame is None:  # the method makes its own frame, of moments that are public to it
            data, pair = data.seen_by(met), [each.seen_by(met) for each in pair]
            return _score(method, met, method_plan, data, rows, pair, noise, statistic)
        prepared = frames.framed(data, frame, met.row_norm)
        framed = rows[0].framed(frame, met.row_norm), rows[1].framed(frame, met.row_norm)
        score = _score(method, prepared.problem, method_plan, prepared, framed, pair, noise, statistic)
        return score + (moments.score if statistic is None else 0.0)
    attackers = Attackers(data, plan, noise, rows, pair, others)
    released = method.answer(attackers)
    return attackers.score if statistic is None else statistic(released)


def excess(one: Scores, two: Scores, plan: Plan, alarm: float = ALARM) -> float:
    """By how much the lower bound on epsilon exceeds what is certified, at the worst delta; not positive if honest."""
    return max(epsilon_lower_bound(one, two, delta, alarm) - certify(plan, delta)[0] for delta in DELTAS)


def halved(plan: Plan) -> Plan:
    """The plan with half its noise, which breaks its promise."""
    return replace(plan, queries=tuple(replace(q, noise_multiplier=q.noise_multiplier / 2) for q in plan.queries))
