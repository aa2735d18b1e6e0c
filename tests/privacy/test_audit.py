"""Audits of the methods on worst-case neighbors, and mutants that the audits must catch.

The worst case for a full gradient is two rows whose gradients are opposite and as long as allowed, at every point the
solver visits: the clipped residual at y = +1 and y = -1. Runs use a seeded source; the alarm rate is 1e-9.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.mechanisms.mechanism import Curves
from accounting.noise import Noise, batches
from accounting.noise.lattice import Lattice
from accounting.plan import Plan, PlannedQuery
from solvers.audit.attack import excess
from solvers.audit.bounds import epsilon_lower_bound, mu_lower_bound
from solvers.audit.gradients import GradientAttacker
from solvers.audit.neighbors import Row
from solvers.data_access import inputs, sampled
from solvers.data_access.data import Data, Slots, listed
from solvers.data_access.meter import Meter
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.sums import gradient_sum
from solvers.losses import Softmax, Squared
from solvers.methods.oracle.dp_acc_md import DpAccMdRun
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.methods.run import FullBatchRun, SampledRun
from solvers.potentials import HalfSquaredL2
from solvers.problem import Problem, Vector
from tests.support.audit import Attack, beyond, seeded_attack, violates
from tests.support.audit import seeded_scores as scores
from tests.support.mutants import half_noise, mutated
from tests.support.seeded import SeededBits

PROMISE, WEAK = Privacy(5.0, 1e-5), Privacy(10.0, 1e-5)
PROBLEM = Problem(Squared(1.0), n=40, d=2, row_norm=1.0)
# In many dimensions the noise carries w out of the anchor's neighborhood, where plain sampled gradients are asked,
# while the margin of the audited row stays near 0, so that its two gradients stay opposite: the worst case.
WIDE = Problem(Squared(1.0), n=40, d=300, row_norm=1.0)
SOFTMAX_RUNS = 1200
RUNS = 420  # half the noise is caught by about three standard deviations of the bound, or more
GD = DpGdRun(steps=3, step=0.01)
ACC = DpAccMdRun(steps=3, step=0.01, potential=HalfSquaredL2())
LARGE_STEPS = DpSvrgRun(epochs=1, inner_steps=6, batch=16, step=0.5)
# With half the noise, the same distance as LARGE_STEPS.
DOUBLE_STEPS = DpSvrgRun(epochs=1, inner_steps=6, batch=16, step=1.0)
SMALL_STEPS = DpSvrgRun(epochs=1, inner_steps=6, batch=16, step=0.02)
PP_FAR = DpSvrgPpRun(epochs=2, inner_steps=1, batch=16, step=0.5)
PP_NEAR = DpSvrgPpRun(epochs=2, inner_steps=1, batch=16, step=0.02)


def rows(problem: Problem, length: float = 1.0) -> tuple[Row, Row]:
    """Two records with opposite gradients."""
    x = np.zeros(problem.d)
    x[0] = length
    return Row(x, 1.0), Row(x, -1.0)


def planned(method: FullBatchRun | SampledRun, problem: Problem) -> Plan:
    return calibrate(method.queries(problem), PROMISE).plan


def is_caught(method: FullBatchRun | SampledRun, problem: Problem, runs: int = RUNS, length: float = 1.0) -> bool:
    """Return whether an audit's lower bound exceeds the guarantee."""
    plan = planned(method, problem)
    return violates(seeded_attack(method, problem, plan, *rows(problem, length), 1), runs, beyond(plan))


@pytest.mark.parametrize("method", [GD, ACC], ids=["dp_gd", "dp_acc_md"])
def test_full_gradients_have_a_loss_just_below_their_guarantee(method: FullBatchRun | SampledRun) -> None:
    """The bound is below mu* and near it, so the audit has power."""
    both_scores = scores(method, PROBLEM, planned(method, PROBLEM), *rows(PROBLEM), 1700, 2)
    bound, promised = mu_lower_bound(*both_scores), gauss_mu(PROMISE.epsilon, PROMISE.delta)
    assert 0.65 * promised < bound <= promised
    assert gauss_epsilon(bound, PROMISE.delta) <= PROMISE.epsilon
    assert excess(*both_scores, planned(method, PROBLEM)) <= 0


def _softmax_audit() -> tuple[Plan, Attack]:
    """The plan, and the attack by opposite rows of one class.

    At w = 0 their gradients are 2 sqrt(1 - 1/K) apart. Steps this long and noise for a single record then make two
    other classes all but certain, x for one and -x for the next: |e_a + e_b - 2 e_0| = sqrt(6) of the 2 sqrt(2) that
    are paid for, which only rows that are not opposite come nearer.
    """
    problem, method = Problem(Softmax(16), n=1, d=1, row_norm=1.0), DpGdRun(steps=3, step=2.0)
    plan = calibrate(method.queries(problem), WEAK).plan
    return plan, seeded_attack(method, problem, plan, Row(np.ones(1), 0.0), Row(-np.ones(1), 0.0), 2)


def test_softmax_keeps_its_guarantee_and_a_mutant_with_half_the_noise_does_not() -> None:
    plan, attack = _softmax_audit()
    both_scores = attack(SOFTMAX_RUNS)
    assert 0.5 < mu_lower_bound(*both_scores) / gauss_mu(WEAK.epsilon, WEAK.delta) <= 1
    assert excess(*both_scores, plan) <= 0
    with mutated(Lattice, "perturb", half_noise):
        plan, attack = _softmax_audit()
        assert violates(attack, SOFTMAX_RUNS, beyond(plan))


@pytest.mark.parametrize(
    ("method", "problem"),
    [(LARGE_STEPS, WIDE), (SMALL_STEPS, PROBLEM), (PP_NEAR, WIDE)],
    ids=["far", "flat", "pp near"],
)
def test_dp_svrg_keeps_its_guarantee(method: FullBatchRun | SampledRun, problem: Problem) -> None:
    """The audit's case of dp_svrg_pp has the same steps as LARGE_STEPS and covers a larger distance."""
    assert not is_caught(method, problem)


def test_the_audit_of_dp_svrg_reaches_the_worst_case() -> None:
    """Most answers of LARGE_STEPS are sampled gradients with the row's two gradients nearly opposite."""
    kinds: list[str] = []

    class Watching(GradientAttacker):
        def sampled_gradient(self, query: str, w: np.ndarray) -> np.ndarray:
            slopes = [row.slope(WIDE, w) for row in rows(WIDE)]
            kinds.append("worst" if slopes[0] < -0.7 and slopes[1] > 0.7 else "mild")
            return super().sampled_gradient(query, w)

    data = inputs.of_arrays(np.zeros((40, 300)), np.zeros(40), WIDE)
    for seed in range(50):
        plan = planned(LARGE_STEPS, WIDE)
        oracle = SampledOracle(WIDE, data, plan, Noise(SeededBits(seed)))
        LARGE_STEPS.run(Watching(oracle, WIDE, plan, *rows(WIDE)), WIDE)
    assert len(kinds) >= 4 * 50
    assert kinds.count("worst") > 0.8 * len(kinds)


@pytest.mark.parametrize(
    ("method", "problem", "runs"), [(GD, PROBLEM, RUNS), (DOUBLE_STEPS, WIDE, 700)], ids=["dp_gd", "dp_svrg"]
)
def test_mutant_half_the_noise_is_caught(method: FullBatchRun | SampledRun, problem: Problem, runs: int) -> None:
    """In the one line that adds it; half of what each method plans is seen in tests/privacy/test_audit_cases.py."""
    with mutated(Lattice, "perturb", half_noise):
        assert is_caught(method, problem, runs)


def test_mutant_factor_two_forgotten_is_caught() -> None:
    """std over the bound taken for std over the sensitivity: the noise is calibrated as if mu = 1/z."""
    with (
        mutated(Gaussian, "curves", lambda _self, z, *_: Curves.gaussian(1.0 / z)),
        mutated(Gaussian, "multiplier", lambda _self, m, *_: m**-0.5),
    ):
        assert is_caught(GD, PROBLEM)


def test_mutant_clipping_off_is_caught() -> None:
    """A row three times too long moves the answers three times as far, unless it is scaled down."""

    clipped = inputs.of_arrays

    def unclipped(X: Any, y: Any, problem: Problem, *_: Any) -> Data:
        return replace(clipped(X, y, problem), scale=np.ones(problem.n))

    assert not is_caught(GD, PROBLEM, length=3.0)
    with mutated(inputs, "of_arrays", unclipped):
        assert is_caught(GD, PROBLEM, length=3.0)


def test_mutant_one_query_too_many_is_refused_and_caught() -> None:
    """The oracle refuses it; and where it would not, answers beyond the plan fail the plan's audit."""
    plan = planned(GD, PROBLEM)
    with pytest.raises(OutOfPlan):
        scores(DpGdRun(steps=4, step=0.01), PROBLEM, plan, *rows(PROBLEM), 1, 1)
    generous = Plan(tuple(PlannedQuery(q.name, 9, q.mechanism, q.noise_multiplier) for q in plan.queries))
    attack = seeded_attack(DpGdRun(steps=9, step=0.01), PROBLEM, generous, *rows(PROBLEM), 1)
    assert violates(attack, RUNS, beyond(plan))


def _printed_acc_md(method: DpAccMdRun, oracle: Any, problem: Problem) -> Any:
    """Algorithm 3 as printed: noise in the z-step alone, and y, which is released, from the exact gradient."""
    steps, step = method.steps, method.step
    exact, answer = [], Meter.answer

    def heard(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        exact.append(value)
        return answer(meter, planned, value, bound)

    y = z = problem.start
    for k in range(steps):
        tau = 2 / (k + 2)
        x = tau * z + (1 - tau) * y
        with patch.object(Meter, "answer", heard):
            noisy = oracle.gradient("gradient", x)
        y = problem.prox(x - step * exact[-1], step)
        z = problem.prox(z - (k + 2) * step / 2 * noisy, (k + 2) * step / 2)
    return y


def _is_caught_by_its_release(method: DpAccMdRun) -> bool:
    """Return whether an attacker who sees only the released model, along the audited row, exceeds the guarantee."""
    plan = planned(method, PROBLEM)
    attack = seeded_attack(method, PROBLEM, plan, *rows(PROBLEM), 5, statistic=lambda w: float(w[0]))
    return violates(attack, RUNS, beyond(plan))


@pytest.mark.parametrize("steps", [1, 2])
def test_mutant_the_printed_step_without_noise_is_caught(steps: int) -> None:
    """T = 1: y_1 is a function of the data without any noise. At T = 2 some noise reaches it through x, too little."""
    method = DpAccMdRun(steps=steps, step=0.4, potential=HalfSquaredL2())
    assert not _is_caught_by_its_release(method)
    with mutated(DpAccMdRun, "run", _printed_acc_md):
        assert _is_caught_by_its_release(method)


def test_mutant_half_the_steps_counted_is_caught() -> None:
    """The paper's Theorem 4.3 counts 2^T m of 2 m (2^T - 1) steps: the oracle refuses the rest."""
    one_epoch = DpSvrgPpRun(epochs=1, inner_steps=2, batch=16, step=0.5)
    with pytest.raises(OutOfPlan):
        scores(PP_FAR, WIDE, planned(one_epoch, WIDE), *rows(WIDE), 1, 1)


def test_mutant_batch_that_is_not_fresh_is_caught() -> None:
    """The same records in every batch: sampling no longer hides anybody."""

    def stale(_noise: Noise, n: int, rate: float) -> Any:
        return np.arange(round(n * rate))

    with mutated(batches, "poisson_rows", stale):
        assert is_caught(LARGE_STEPS, WIDE, 700)


def test_mutant_division_by_the_batch_is_caught() -> None:
    """The printed mini-batch form divides by the random number of records: a record alone is then the whole answer."""

    def over_own_size(data: Data, batch: Slots, w: Vector) -> Vector:
        return gradient_sum(data, batch, w) * 8 / max(len(listed(batch)), 1)

    assert _farthest() == pytest.approx(1 / 8, rel=1e-3)
    with mutated(sampled, "gradient_sum", over_own_size):
        assert _farthest() > 1.5 / 8


def _farthest() -> float:
    """Return the largest change of a nearly noiseless sampled answer by one record, in units of G."""
    plan = Plan((PlannedQuery("change", 200, PoissonGaussian(0.2), 1e-6),))
    X, y = np.zeros((40, 2)), np.zeros(40)
    X[0], y[0] = [1.0, 0.0], 1.0
    oracle = SampledOracle(PROBLEM, inputs.of_arrays(X, y, PROBLEM), plan, Noise(SeededBits(4)))
    return max(float(np.linalg.norm(oracle.sampled_gradient("change", np.zeros(2)))) for _ in range(200))


def test_lower_bounds_are_sound_on_known_gaussians() -> None:
    """On N(0,1) against N(mu,1) themselves the bound is never above mu, and near it."""
    rng = np.random.default_rng(0)
    for mu in (0.5, 1.0, 2.0):
        shifted, centered = rng.normal(mu, 1, 20_000), rng.normal(0, 1, 20_000)
        assert 0.75 * mu < mu_lower_bound(shifted, centered) <= mu
    assert epsilon_lower_bound(shifted, shifted, 1e-5) < 0.1


def test_lower_bounds_accuse_an_honest_mechanism_at_most_as_often_as_stated() -> None:
    """With a chance of 1/5 instead of 1e-9: N(0,1) against N(1,1) 400 times, 60 runs on either side."""
    rng, delta, alarm = np.random.default_rng(5), 0.3, 0.2
    drawn = [(rng.normal(1, 1, 60), rng.normal(0, 1, 60)) for _ in range(400)]
    assert sum(mu_lower_bound(*scores, alarm) > 1 for scores in drawn) <= alarm * 400
    assert (
        sum(epsilon_lower_bound(*scores, delta, alarm) > gauss_epsilon(1.0, delta) for scores in drawn) <= alarm * 400
    )


def test_lower_bounds_do_not_accuse_a_mechanism_with_the_same_errors_at_every_threshold() -> None:
    """The mechanism is (0, d)-DP with equal expected errors at every threshold; the smallest count is below that."""
    rng, alarm, n = np.random.default_rng(1), 0.2, 30
    d = 2 * (alarm / 2) ** (1 / (2 * n)) - 1 - 1e-4  # no error at a given threshold has a chance of alarm / 2

    def scores(shift: float) -> Any:
        return np.where(rng.random(n) < d, shift, 0.0) + rng.random(n)

    assert sum(epsilon_lower_bound(scores(2.0), scores(-2.0), d, alarm) > 0 for _ in range(400)) <= alarm * 400
