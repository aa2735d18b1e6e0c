"""Attacks on a worst-case neighboring pair: on a run's whole transcript, or on its release alone.

Two datasets differ in one row, or in one person, whose rows are all alike. Under zero_out, this row is null in the
second dataset. An attacker of transcripts sees every private answer, which is more than any release. It knows both
candidate rows, and scores a run by the exact log-likelihood ratio of the answers. An attacker of releases scores a run
by a given statistic of the released model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np

from accounting.calibration import certify
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.audit.bounds import ALARM, DELTAS, Scores, epsilon_lower_bound
from solvers.audit.gaussian import GaussianAttacker
from solvers.audit.gradients import GradientAttacker, SlotAttacker
from solvers.audit.neighbors import Neighbors, Row, neighbor
from solvers.data_access import frames
from solvers.data_access.access import DataAccess
from solvers.data_access.counting import CountingOracle
from solvers.data_access.data import Data
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.oracles import DataOracles
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.weighted import WeightedOracle
from solvers.data_access.with_moments import split
from solvers.methods import Run
from solvers.oracles import Sampled, Standardised
from solvers.preparation import Preparation
from solvers.problem import Problem, Vector
from solvers.solve import AS_DECLARED

TestStatistic = Callable[[Vector], float]
_Opened = TypeVar("_Opened", bound=AbstractOracle)


class ScoringOracles:
    """The oracles of a run, of which it opens one: an attacker that calls the real oracle and scores its answers.

    Parameters
    ----------
    data : the dataset of the run, as the method gets it
    neighbors : the two datasets, as the attacker knows them
    index : which of the two is the dataset of the run
    """

    def __init__(self, data: Data, neighbors: Neighbors, index: int, plan: Plan, noise: Noise) -> None:
        self._oracles, self._plan, self._neighbors = DataOracles(data, plan, noise), plan, neighbors
        self._neighbor_oracles, self._index = DataOracles(neighbors.data[1 - index], plan, noise), index
        self._attacker: GradientAttacker | SlotAttacker | GaussianAttacker | None = None

    @property
    def problem(self) -> Problem:
        """Problem that the data were prepared for."""
        return self._oracles.problem

    @property
    def score(self) -> float:
        """Logarithm of the density of all answers on the first dataset over that on the second."""
        if self._attacker is None:
            raise ValueError("a method that sees the data has no transcript to attack. Set a statistic of its release")
        return self._attacker.score

    def full_batch(self, hides_steps: bool) -> GradientAttacker:
        """Open the oracle of full gradients."""
        return self._gradients(cast(Sampled, self._oracles.full_batch(hides_steps)))

    def sampled(self, walks: bool) -> GradientAttacker:
        """Open the oracle of sampled gradients."""
        return self._gradients(self._oracles.sampled(walks))

    def allocated(self) -> SlotAttacker:
        """Open the oracle of secret slots."""
        self._attacker = SlotAttacker(self._oracles.allocated(), self.problem, self._plan, *self._neighbors.rows)
        return self._attacker

    def standardised(self) -> StandardisedOracle:
        """Open the oracle of moments and limited gradients."""
        return self._gaussian(DataOracles.standardised)

    def counting(self) -> CountingOracle:
        """Open the oracle of counts and products."""
        return self._gaussian(DataOracles.counting)

    def weighted(self) -> WeightedOracle:
        """Open the oracle of weighted scores and curvatures."""
        return self._gaussian(DataOracles.weighted)

    def access(self, tabulates: bool) -> DataAccess:
        """Open the data access, which has no transcript to attack."""
        return self._oracles.access(tabulates)

    def _gradients(self, oracle: Sampled) -> GradientAttacker:
        neighbors = self._neighbors
        self._attacker = GradientAttacker(oracle, self.problem, self._plan, *neighbors.rows, neighbors.other_rows)
        return self._attacker

    def _gaussian(self, opened: Callable[[DataOracles], _Opened]) -> _Opened:
        """Return the attacker of an oracle, in the type of that oracle."""
        self._attacker = GaussianAttacker(self._index, opened(self._oracles), opened(self._neighbor_oracles))
        return cast(_Opened, self._attacker)


@dataclass(frozen=True, eq=False)
class Attack:
    """An attack on runs of a method, with either of two candidate rows.

    Parameters
    ----------
    method : resolved for prepared rows
    problem : that of rows before preparation
    rows : the two candidates
    statistic : of the released model; None attacks the transcript, which only methods with an oracle have
    position : of the candidate rows
    preparation : how rows are prepared
    other_rows : every other row, as declared; zeros if None
    """

    method: Run
    problem: Problem
    rows: tuple[Row, Row]
    statistic: TestStatistic | None = None
    position: int = 0
    preparation: Preparation = AS_DECLARED
    other_rows: Row | None = None

    @cached_property
    def neighbors(self) -> Neighbors:
        """The two datasets."""
        first, second = (neighbor(self.problem, row, self.position, self.other_rows) for row in self.rows)
        return Neighbors(self.rows, (first, second), self.other_rows)

    def scores(self, plan: Plan, runs: int, noise: Callable[[int], Noise]) -> tuple[Scores, Scores]:
        """Return the scores of `runs` runs with the first row, and of as many with the second.

        Parameters
        ----------
        plan : of the runs; another plan than the calibrated one makes a mutant
        noise : the randomness of the runs on dataset 0 and 1
        """
        return self._scores_on(0, plan, runs, noise(0)), self._scores_on(1, plan, runs, noise(1))

    def score(self, index: int, plan: Plan, noise: Noise) -> float:
        """Return the score of one run on dataset 0 or 1."""
        data, neighbors, problem = self.neighbors.data[index], self.neighbors, self.problem
        prepared = self.preparation.prepared(problem)
        if prepared is problem:
            return self._score_prepared(data, neighbors, index, plan, noise)
        moments_plan, method_plan = split(plan, set(self.preparation.bounds(problem)))
        opened = (StandardisedOracle(problem, each, moments_plan, noise) for each in (data, neighbors.data[1 - index]))
        moments = GaussianAttacker(index, *opened)
        frame = self.preparation.frame(cast(Standardised, moments), problem)
        if frame is None:  # the method makes its own frame, of moments that are public to it
            return self._score_prepared(data.seen_by(prepared), neighbors.seen_by(prepared), index, method_plan, noise)
        framed = frames.framed(data, frame, prepared.row_norm)
        first, second = (row.framed(frame, prepared.row_norm) for row in self.rows)
        score = self._score_prepared(framed, Neighbors((first, second), neighbors.data), index, method_plan, noise)
        return score + (moments.score if self.statistic is None else 0.0)

    def _scores_on(self, index: int, plan: Plan, runs: int, noise: Noise) -> Scores:
        return np.array([self.score(index, plan, noise) for _ in range(runs)], dtype=np.float64)

    def _score_prepared(self, data: Data, neighbors: Neighbors, index: int, plan: Plan, noise: Noise) -> float:
        """Return the score of a run on prepared rows."""
        oracles = ScoringOracles(data, neighbors, index, plan, noise)
        released = self.method.answer(oracles)
        return oracles.score if self.statistic is None else self.statistic(released)


def excess(first: Scores, second: Scores, plan: Plan, alarm: float = ALARM) -> float:
    """Return the lower bound on epsilon less the certified epsilon, at the worst delta; positive for a violation."""
    return max(epsilon_lower_bound(first, second, delta, alarm) - certify(plan, delta)[0] for delta in DELTAS)


def halved(plan: Plan) -> Plan:
    """Return the plan with half its noise, which violates its guarantee."""
    return replace(plan, queries=tuple(replace(q, noise_multiplier=q.noise_multiplier / 2) for q in plan.queries))
