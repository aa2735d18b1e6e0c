"""Audits of sampling without replacement and of SVRG as published, and the mistakes that they must catch.

The pair on which all is seen: every row is the same but one, which is zero in the other dataset. All rows then agree
on every answer, and an answer that is off shows that the odd row was drawn. Seeds are fixed; the alarm rate is 1e-9.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon
from accounting.mechanisms import SvrgStep, WithoutReplacement
from accounting.noise import Noise
from accounting.noise.draws import distinct_rows
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import Relation
from solvers.audit.attack import excess
from solvers.audit.bounds import DELTAS, Scores, epsilon_lower_bound
from solvers.audit.neighbors import Row
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.sampled import SampledOracle
from solvers.losses import Squared
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.methods.run import SampledRun
from solvers.problem import Problem
from tests.support.audit import Attack, beyond, seeded_attack, source, violates
from tests.support.seeded import SeededBits

PROMISE = Privacy(4.0, 1e-5)
PROBLEM = Problem(Squared(1.0), n=40, d=2, row_norm=1.0)


def attacked(
    mechanism: WithoutReplacement | SvrgStep, z: float, count: int, *, other_value: float = 1.0, fresh: bool = True
) -> Attack:
    """Return an attack on `count` answers at bound 1, whose score is the exact log-likelihood ratio.

    Every drawn record adds +1; in a printed step each record also adds b/2n. In the first dataset one record adds the
    opposite, in the second one `other_value` times as much; a null record has 0.
    """
    noise, batch, rows = Noise(SeededBits(7)), mechanism.batch, mechanism.rows
    q, printed = batch / rows, isinstance(mechanism, SvrgStep)

    def likelihood(distance: float, value: float) -> float:
        always = q * (1 - value) / 2 if printed else 0.0  # change of the mean over all rows
        in_batch = 1 - value + always
        out = (always * distance - always**2 / 2) / z**2 + (math.log1p(-q) if q < 1 else -math.inf)
        into = (in_batch * distance - in_batch**2 / 2) / z**2 + math.log(q)
        return float(np.logaddexp(out, into))

    def score(own: float) -> float:
        single_batch, scored = distinct_rows(noise, rows, batch), 0.0
        for _ in range(count):
            drawn = distinct_rows(noise, rows, batch) if fresh else single_batch
            parts = np.array([[batch - (1 - own) * (0 in drawn)], [batch / 2 - q * (1 - own) / 2]])
            value = parts if printed else parts[0]
            distance = batch + (batch / 2 if printed else 0.0) - float(mechanism.perturb(value, z, 1.0, noise)[0])
            scored += likelihood(distance, -1.0) - likelihood(distance, other_value)
        return scored

    def attack(runs: int) -> tuple[Scores, Scores]:
        first, second = (np.array([score(own) for _ in range(runs)]) for own in (-1.0, other_value))
        return first, second

    return attack


@pytest.mark.parametrize(
    ("mechanism", "count"),
    [(WithoutReplacement(8, 40), 6), (SvrgStep(40, 40), 3), (SvrgStep(20, 40), 4)],
    ids=["without replacement", "printed, all rows", "printed, half of them"],
)
@pytest.mark.parametrize(("relation", "other_value"), [("replace_one", 1.0), ("zero_out", 0.0)])
def test_the_mechanisms_keep_their_guarantee_and_half_the_noise_does_not(
    mechanism: WithoutReplacement | SvrgStep, count: int, relation: Relation, other_value: float
) -> None:
    plan, runs = calibrate((Query("q", count, mechanism),), PROMISE, relation).plan, 1200
    z = plan.queries[0].noise_multiplier
    assert not violates(attacked(mechanism, z, count, other_value=other_value), runs, beyond(plan))
    assert violates(attacked(mechanism, z / 2, count, other_value=other_value), runs, beyond(plan))


def one_batch(q: float, mu: float, delta: float) -> float:
    """epsilon of one batch asked K times, mu the shift of all its answers together: q H_(1 + (gamma-1)/q)(G_mu)."""
    return 0.0 if delta >= q else math.log1p(q * math.expm1(gauss_epsilon(mu, delta / q)))


def test_new_batches_cost_more_than_one_batch_used_often() -> None:
    """The accounting of a single repeated batch is refuted for batches that are drawn anew."""
    mechanism, z, count, runs = WithoutReplacement(4, 40), 0.5, 8, 1000
    plan = Plan((PlannedQuery("q", count, mechanism, z),))
    afresh = attacked(mechanism, z, count)(runs)
    claimed = {delta: one_batch(mechanism.rate, 2 * math.sqrt(count) / z, delta) for delta in DELTAS}
    assert max(epsilon_lower_bound(*afresh, delta) - claimed[delta] for delta in DELTAS) > 0
    assert excess(*afresh, plan) <= 0
    repeated = attacked(mechanism, z, count, fresh=False)(runs)
    assert all(epsilon_lower_bound(*repeated, delta) <= claimed[delta] for delta in DELTAS)


def test_the_oracle_draws_every_batch_afresh() -> None:
    """Nearly noiseless: over many answers at batch 1 the odd row is drawn about every fortieth time."""
    plan = Plan((PlannedQuery("step", 4000, SvrgStep(1, 40), 1e-4),))
    oracle = SampledOracle(PROBLEM, alike(PROBLEM, odd=True), plan, Noise(SeededBits(2)))
    anchor, w = np.zeros(2), np.array([0.5, 0.0])
    answers = np.array([oracle.printed_change("step", w, anchor)[0] for _ in range(4000)])
    drawn = answers < -0.72  # the mean at the anchor is -39/40, a change is 1/2 for all rows but the odd one
    assert 40 < drawn.sum() < 180
    assert np.count_nonzero(np.diff(np.flatnonzero(drawn)) > 40) > 10


ROWS = (Row(np.array([1.0, 0.0]), 1.0), Row(np.array([1.0, 0.0]), -1.0))
PRINTED: list[SampledRun] = [
    DpSvrgRun(epochs=2, inner_steps=3, batch=8, step=0.05, form="printed"),
    DpSvrgPpRun(epochs=2, inner_steps=1, batch=8, step=0.05, form="printed"),
    DpSvrgRun(epochs=1, inner_steps=4, batch=40, step=0.05, form="printed"),
]


@pytest.mark.parametrize("method", PRINTED, ids=["dp_svrg", "dp_svrg_pp", "all rows"])
def test_the_printed_form_keeps_its_guarantee(method: SampledRun) -> None:
    plan = calibrate(method.queries(PROBLEM), PROMISE).plan
    assert not violates(seeded_attack(method, PROBLEM, plan, *ROWS, 1), 400, beyond(plan))


def alike(problem: Problem, *, odd: bool) -> Data:
    """Rows e_1 with target 1, whose slope at w is w_1 - 1; the first of them zero if odd."""
    X, y = np.zeros((problem.n, problem.d)), np.ones(problem.n)
    X[:, 0] = 1.0
    if odd:
        X[0] = 0.0
    return inputs.of_arrays(X, y, problem)


class Watcher:
    """The printed steps' attacker: the farthest that any answer is from what rows all alike would give."""

    def __init__(self, oracle: SampledOracle) -> None:
        self._oracle, self.farthest = oracle, -math.inf

    def printed_change(self, query: str, w: NDArray[np.float64], anchor: NDArray[np.float64]) -> Any:
        answer = self._oracle.printed_change(query, w, anchor)
        self.farthest = max(self.farthest, float((w[0] - 1.0) - answer[0]))
        return answer


def watched(problem: Problem, method: DpSvrgRun, plan: Plan) -> Attack:
    """Return an attack on the data with the odd row and on the data without it."""
    sides = [(alike(problem, odd=odd), source(10, odd)) for odd in (True, False)]

    def score(data: Data, noise: Noise) -> float:
        watcher = Watcher(SampledOracle(problem, data, plan, noise))
        method.run(watcher, problem)  # type: ignore[arg-type]
        return watcher.farthest

    def attack(runs: int) -> tuple[Scores, Scores]:
        first, second = (np.array([score(*side) for _ in range(runs)]) for side in sides)
        return first, second

    return attack


def test_the_papers_noise_is_refuted_at_batch_one() -> None:
    """Equation (3) with c = 1 promises (1, 1e-3): sigma = G sqrt(T m ln(1/delta)) / (n epsilon).

    As at the paper's own sizes, T m / n = 0.375, so that a row is drawn at all with probability 0.31, and eta =
    1/(12 L). This service takes over ten times that noise for the promise. Other tests attack the printed form at it.
    """
    n, steps, promise = 128, 48, Privacy(1.0, 1e-3)
    problem = Problem(Squared(1.0), n=n, d=1, row_norm=1.0)
    method = DpSvrgRun(epochs=1, inner_steps=steps, batch=1, step=1 / 12, form="printed")
    sigma = problem.G * math.sqrt(steps * math.log(1 / promise.delta)) / (n * promise.epsilon)
    printed = Plan((PlannedQuery("step", steps, SvrgStep(1, n), sigma / (2 * problem.G)),))
    both_scores = watched(problem, method, printed)(500)  # with probability .95 another 500 runs would refute it too
    assert epsilon_lower_bound(*both_scores, promise.delta) > promise.epsilon
    assert excess(*both_scores, printed) <= 0  # our accountants' epsilon for that noise is not refuted
    honest = calibrate(method.queries(problem), promise).plan
    assert honest.queries[0].noise_multiplier > 10 * printed.queries[0].noise_multiplier
