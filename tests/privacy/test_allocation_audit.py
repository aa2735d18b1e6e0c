"""Audits of random allocation: the exact likelihood ratio of all answers of a use, and mutants that it must catch.

Independent form: all other rows are zero and the two candidates opposite, the worst case. Ordered form: all other rows
are like one candidate, so that the other one stands out from what it replaces by twice the bound: the worst case there.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import RandomAllocation
from accounting.mechanisms.random_allocation import Form
from accounting.noise import Noise, batches
from accounting.noise.batches import poisson_rows
from accounting.noise.lattice import Lattice
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation
from solvers.audit.bounds import Scores
from solvers.data_access import allocated, inputs
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.data import Data, Slots, listed
from solvers.data_access.sums import gradient_sum
from solvers.losses import Squared
from solvers.methods import NoisyMirrorDescent
from solvers.methods.allocated.noisy_mirror_descent import NoisyMirrorDescentRun
from solvers.problem import Problem, Vector
from tests.support.audit import beyond, source, violates
from tests.support.mutants import half_noise, mutated
from tests.support.seeded import SeededBits

PROBLEM = Problem(Squared(1.0), n=40, d=2, row_norm=1.0)
PROMISE = Privacy(7.0, 1e-5)
RUNS = 850  # half the noise is caught by about three standard deviations of the bound


def method(form: Form) -> NoisyMirrorDescentRun:
    return NoisyMirrorDescent(passes=1, batch=2, step=1e-4, form=form).resolve(PROBLEM, PROMISE)


class Attacker:
    """Answers through the real oracle and scores each use: ln of (1-q) + q/T sum of ratios, one candidate's less the
    other's, each ratio that of the slot's answer with the candidate in it to the answer without."""

    def __init__(
        self, oracle: AllocatedOracle, planned: PlannedQuery, candidates: tuple[float, float], background: float
    ):
        self._oracle, self._planned, self._candidates, self._background = oracle, planned, candidates, background
        self._tilts: list[list[float]] = [[], []]
        self.score = 0.0

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        answer = self._oracle.allocated_gradient(query, w)
        mechanism, z = self._planned.mechanism, self._planned.noise_multiplier
        assert isinstance(mechanism, RandomAllocation)
        size = mechanism.normalizer(PROBLEM.n)
        base = float(PROBLEM.loss.slope(w[:1], np.array([self._background]))[0]) if self._background else 0.0
        for tilts, y in zip(self._tilts, self._candidates, strict=True):
            shift = (float(PROBLEM.loss.slope(w[:1], np.array([y]))[0]) - base) / size
            tilts.append(((float(answer[0]) - base) * shift - shift * shift / 2) / (z * PROBLEM.G / size) ** 2)
        if len(self._tilts[0]) == mechanism.slots:
            logs = [np.logaddexp.reduce(t) + math.log(mechanism.rate / mechanism.slots) for t in self._tilts]
            stay = math.log1p(-mechanism.rate)
            self.score += float(np.logaddexp(stay, logs[0]) - np.logaddexp(stay, logs[1]))
            self._tilts = [[], []]
        return answer


def is_caught(solver: NoisyMirrorDescentRun, relation: Relation = "replace_one") -> bool:
    """Return whether the audit's lower bound exceeds the guarantee of the plan. A target of 0 makes the row null."""
    problem = replace(PROBLEM, relation=relation)
    plan = calibrate(solver.queries(problem), PROMISE, relation).plan
    candidates = (1.0, -1.0) if relation == "replace_one" else (1.0, 0.0)
    background = -1.0 if solver.form == "ordered" else 0.0
    sides = []
    for which, truth in enumerate(candidates):
        X, y = np.zeros((PROBLEM.n, PROBLEM.d)), np.full(PROBLEM.n, background)
        X[:, 0] = abs(background)
        X[0], y[0] = [1.0, 0.0], truth
        sides.append((inputs.of_arrays(X, y, problem), source(1, which)))

    def score(data: Data, noise: Noise) -> float:
        oracle = AllocatedOracle(problem, data, plan, noise)
        attacker = Attacker(oracle, plan.queries[0], candidates, background)
        solver.run(attacker, problem)
        return attacker.score

    def attack(runs: int) -> tuple[Scores, Scores]:
        first, second = (np.array([score(*side) for _ in range(runs)]) for side in sides)
        return first, second

    return violates(attack, RUNS, beyond(plan))


@pytest.mark.parametrize("form", ["independent", "ordered"])
def test_the_guarantee_is_kept(form: Form) -> None:
    """The audit's own cases cover two passes."""
    assert not is_caught(method(form))


def test_the_guarantee_of_ordered_slots_is_kept_for_a_null_row_and_half_the_noise_is_caught() -> None:
    assert not is_caught(method("ordered"), "zero_out")
    with mutated(Lattice, "perturb", half_noise):
        assert is_caught(method("ordered"), "zero_out")


def test_mutant_half_the_noise_is_caught() -> None:
    """The independent form is an audit's case."""
    with mutated(Lattice, "perturb", half_noise):
        assert is_caught(method("ordered"))


def test_mutant_a_record_in_two_slots_is_caught() -> None:
    """Each slot drawn from all rows by itself, as if rows could be used again: the record comes several times."""

    def again(noise: Noise, n: int, rate: float, count: int) -> Any:
        batches = [poisson_rows(noise, n, min(1.0, 3 * rate / count)) for _ in range(count)]
        return np.concatenate(batches), np.concatenate([[0], np.cumsum([len(b) for b in batches])])

    with mutated(batches, "slots", again):
        assert is_caught(method("independent"))
        assert most_slots() > 1
    assert most_slots() == 1


def most_slots() -> float:
    """Return the largest number of slots of one use that a record is in, over many uses."""
    shares = slot_sums()
    return float(np.rint(shares * 2).reshape(-1, 10).sum(axis=1).max())


def slot_sums() -> NDArray[np.float64]:
    """Nearly noiseless answers of 60 uses when one record alone has a gradient, of size 1."""
    mechanism = RandomAllocation(0.5, 10)
    plan = Plan((PlannedQuery("half_pass", 60, mechanism, 1e-6),))
    X, y = np.zeros((40, 2)), np.zeros(40)
    X[0], y[0] = [1.0, 0.0], -1.0
    oracle = AllocatedOracle(PROBLEM, inputs.of_arrays(X, y, PROBLEM), plan, Noise(SeededBits(4)))
    return np.array([oracle.allocated_gradient("half_pass", np.zeros(2))[0] for _ in range(600)])


def test_mutant_division_by_the_slot_s_own_size_is_caught() -> None:
    """The printed mini-batch form: a record alone in its slot would be the whole answer, twice b's share here."""

    def over_own_size(data: Data, slot: Slots, w: Vector) -> Vector:
        return gradient_sum(data, slot, w) * 2 / max(len(listed(slot)), 1)

    assert slot_sums().max() == pytest.approx(1 / 2, rel=1e-3)
    with mutated(allocated, "gradient_sum", over_own_size):
        assert slot_sums().max() > 0.9


def test_mutant_with_public_slots_is_caught() -> None:
    """The noise is calibrated for secret slots, but the record is always in the first slot."""
    first = lambda _noise, n, _rate, count: (np.arange(n // 2), np.r_[0, n // 2, np.full(count - 1, n // 2)])  # noqa: E731
    with mutated(batches, "slots", first):
        assert is_caught(method("independent"))
