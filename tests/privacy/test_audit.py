"""Audits of the methods on worst-case neighbors, and mutants that the audits must catch.

The worst case for a full gradient is two rows whose gradients are opposite and as long as allowed, at every point the
solver visits: the clipped residual at y = +1 and y = -1. Runs use a seeded source; the alarm rate is 1e-9.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.calibration import _calibrate, calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.mechanisms.mechanism import Curves
from accounting.noise import Noise, batches
from accounting.noise.lattice import Lattice
from accounting.plan import Plan, PlannedQuery
from solvers.audit import bounds
from solvers.audit.attack import Attacker, Row, excess
from solvers.audit.bounds import epsilon_lower_bound, mu_lower_bound
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.oracle import PrivateOracle
from solvers.data_access.sums import gradient_sum
from solvers.losses import Softmax, Squared
from solvers.methods.oracle.dp_acc_md import DpAccMdRun
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.methods.run import OracleRun
from solvers.potentials import HalfSquaredL2
from solvers.problem import Problem
from tests.support.audit import seeded_scores as scores
from tests.support.inside import hidden, inside
from tests.support.seeded import SeededBits

PROMISE = Privacy(5.0, 1e-5)
PROBLEM = Problem(Squared(1.0), n=40, d=2, row_norm=1.0)
# In many dimensions the noise carries w out of the anchor's neighborhood, where plain sampled gradients are asked,
# while the margin of the audited row stays near 0, so that its two gradients stay opposite: the worst case.
WIDE = Problem(Squared(1.0), n=40, d=300, row_norm=1.0)
RUNS = 420  # half the noise is caught by about three standard deviations of the bound, or more
GD = DpGdRun(steps=3, step=0.01)
ACC = DpAccMdRun(steps=3, step=0.01, potential=HalfSquaredL2())
FAR = DpSvrgRun(epochs=1, inner_steps=6, batch=16, step=0.5)
FARTHER = DpSvrgRun(epochs=1, inner_steps=6, batch=16, step=1.0)  # with half the noise, as far as FAR with all of it
NEAR = DpSvrgRun(epochs=1, inner_steps=6, batch=16, step=0.02)
PP_FAR = DpSvrgPpRun(epochs=2, inner_steps=1, batch=16, step=0.5)
PP_NEAR = DpSvrgPpRun(epochs=2, inner_steps=1, batch=16, step=0.02)


def rows(problem: Problem, length: float = 1.0) -> tuple[Row, Row]:
    """Two records with opposite gradients."""
    x = np.zeros(problem.d)
    x[0] = length
    return Row(x, 1.0), Row(x, -1.0)


def planned(method: OracleRun, problem: Problem) -> Plan:
    return calibrate(method.queries(problem), PROMISE).plan


def violation(method: OracleRun, problem: Problem, runs: int = RUNS, length: float = 1.0) -> float:
    """What an audit finds beyond the promise; positive means caught."""
    plan = planned(method, problem)
    return excess(*scores(method, problem, plan, *rows(problem, length), runs, 1), plan)


@pytest.mark.parametrize("method", [GD, ACC], ids=["dp_gd", "dp_acc_md"])
def test_full_gradients_keep_their_promise_and_no_more(method: OracleRun) -> None:
    """The bound stays under mu*, and comes near it: the audit has power."""
    found = scores(method, PROBLEM, planned(method, PROBLEM), *rows(PROBLEM), 1700, 2)
    bound, promised = mu_lower_bound(*found), gauss_mu(PROMISE.epsilon, PROMISE.delta)
    assert 0.65 * promised < bound <= promised
    assert gauss_epsilon(bound, PROMISE.delta) <= PROMISE.epsilon
    assert excess(*found, planned(method, PROBLEM)) <= 0


def _softmax_audit(runs: int) -> tuple[float, float]:
    """(a lower bound on mu over the promised mu, the excess over the promise) for opposite rows of one class.

    At w = 0 their gradients are 2 sqrt(1 - 1/K) apart. Steps this long and noise for a single record then make two
    other classes all but certain, x for one and -x for the next: |e_a + e_b - 2 e_0| = sqrt(6) of the 2 sqrt(2) that
    are paid for, which only rows that are not opposite come nearer.
    """
    problem, promise = Problem(Softmax(16), n=1, d=1, row_norm=1.0), Privacy(10.0, 1e-5)
    method = DpGdRun(steps=3, step=2.0)
    plan = calibrate(method.queries(problem), promise).plan
    found = scores(method, problem, plan, Row(np.ones(1), 0.0), Row(-np.ones(1), 0.0), runs, 2)
    return mu_lower_bound(*found) / gauss_mu(promise.epsilon, promise.delta), excess(*found, plan)


def test_softmax_keeps_its_promise_and_a_mutant_with_half_the_noise_does_not() -> None:
    share, beyond = _softmax_audit(1200)
    assert 0.5 < share <= 1
    assert beyond <= 0
    with mutated(Lattice, "perturb", half_noise):
        assert _softmax_audit(1200)[1] > 0


@pytest.mark.parametrize(
    ("method", "problem"),
    [(FAR, WIDE), (NEAR, PROBLEM), (PP_NEAR, WIDE)],
    ids=["far", "flat", "pp near"],
)
def test_dp_svrg_keeps_its_promise(method: OracleRun, problem: Problem) -> None:
    """Farther than FAR goes an audit's case of dp_svrg_pp, whose steps are the same."""
    assert violation(method, problem) <= 0


def test_the_audit_of_dp_svrg_reaches_the_worst_case() -> None:
    """Most answers of FAR are plain sampled gradients with the row's two gradients nearly opposite."""
    asked: list[str] = []

    class Watching(Attacker):
        def sampled_gradient(self, query: str, w: np.ndarray) -> np.ndarray:
            slopes = [row.slope(WIDE, w) for row in rows(WIDE)]
            asked.append("worst" if slopes[0] < -0.7 and slopes[1] > 0.7 else "mild")
            return super().sampled_gradient(query, w)

    data = inputs.of_arrays(np.zeros((40, 300)), np.zeros(40), WIDE)
    for seed in range(50):
        plan = planned(FAR, WIDE)
        oracle = PrivateOracle(WIDE, data, plan, Noise(SeededBits(seed)))
        FAR.run(Watching(oracle, WIDE, plan, *rows(WIDE)), WIDE)
    assert len(asked) >= 4 * 50
    assert asked.count("worst") > 0.8 * len(asked)


@contextmanager
def mutated(owner: Any, name: str, mutant: Callable[..., Any]) -> Iterator[None]:
    """The product with one of its functions replaced."""
    original = owner.__dict__[name]
    _calibrate.cache_clear()
    setattr(owner, name, mutant)
    try:
        yield
    finally:
        setattr(owner, name, original)
        _calibrate.cache_clear()


def half_noise(lattice: Lattice, value: Any, noise: Noise) -> Any:
    steps = np.rint(value / lattice.spacing) + np.rint(
        noise.rounded_gaussian(len(value), lattice.std / lattice.spacing) / 2
    )
    return steps * lattice.spacing


@pytest.mark.parametrize(
    ("method", "problem", "runs"), [(GD, PROBLEM, RUNS), (FARTHER, WIDE, 700)], ids=["dp_gd", "dp_svrg"]
)
def test_mutant_half_the_noise_is_caught(method: OracleRun, problem: Problem, runs: int) -> None:
    """In the one line that adds it; half of what each method plans is seen in tests/privacy/test_audit_cases.py."""
    with mutated(Lattice, "perturb", half_noise):
        assert violation(method, problem, runs) > 0


def test_mutant_factor_two_forgotten_is_caught() -> None:
    """std over the bound taken for std over the sensitivity: the noise is calibrated as if mu = 1/z."""
    with (
        mutated(Gaussian, "curves", lambda _self, z, *_: Curves.gaussian(1.0 / z)),
        mutated(Gaussian, "multiplier", lambda _self, m, *_: m**-0.5),
    ):
        assert violation(GD, PROBLEM) > 0


def test_mutant_clipping_off_is_caught() -> None:
    """A row three times too long moves the answers three times as far, unless it is scaled down."""

    clipped = inputs.of_arrays

    def unclipped(X: Any, y: Any, problem: Problem, *_: Any) -> Data:
        return replace(clipped(X, y, problem), scale=np.ones(problem.n))

    assert violation(GD, PROBLEM, length=3.0) <= 0
    with mutated(inputs, "of_arrays", unclipped):
        assert violation(GD, PROBLEM, length=3.0) > 0


def test_mutant_one_query_too_many_is_refused_and_caught() -> None:
    """The oracle refuses it; and where it would not, answers beyond the plan fail the plan's audit."""
    plan = planned(GD, PROBLEM)
    with pytest.raises(OutOfPlan):
        scores(DpGdRun(steps=4, step=0.01), PROBLEM, plan, *rows(PROBLEM), 1, 1)
    generous = Plan(tuple(PlannedQuery(q.name, 9, q.mechanism, q.noise_multiplier) for q in plan.queries))
    found = scores(DpGdRun(steps=9, step=0.01), PROBLEM, generous, *rows(PROBLEM), RUNS, 1)
    assert excess(*found, plan) > 0


def _printed_acc_md(method: DpAccMdRun, oracle: Any, problem: Problem) -> Any:
    """Algorithm 3 as printed: noise in the z-step alone, and y, which is released, from the exact gradient."""
    exact: PrivateOracle = oracle._oracle
    steps, step = method.steps, method.step
    y = z = problem.start
    for k in range(steps):
        tau = 2 / (k + 2)
        x = tau * z + (1 - tau) * y
        noisy = oracle.gradient("gradient", x)
        y = problem.prox(x - step * gradient_sum(inside(exact, "data"), slice(0, problem.n), x) / problem.n, step)
        z = problem.prox(z - (k + 2) * step / 2 * noisy, (k + 2) * step / 2)
    return y


def _released(method: DpAccMdRun, runs: int) -> float:
    """What an attacker finds who sees the released model alone, along the audited row: the excess over the promise."""
    plan, found = planned(method, PROBLEM), []
    for which, row in enumerate(rows(PROBLEM)):
        X, y = np.zeros((PROBLEM.n, PROBLEM.d)), np.zeros(PROBLEM.n)
        X[0], y[0] = row.x, row.y
        noise, data = Noise(SeededBits(10 + which)), inputs.of_arrays(X, y, PROBLEM)
        oracles = (PrivateOracle(PROBLEM, data, plan, noise) for _ in range(runs))
        found.append(np.array([method.run(Attacker(o, PROBLEM, plan, *rows(PROBLEM)), PROBLEM)[0] for o in oracles]))
    return excess(found[0], found[1], plan)


@pytest.mark.parametrize("steps", [1, 2])
def test_mutant_the_printed_step_without_noise_is_caught(steps: int) -> None:
    """T = 1: y_1 is a function of the data without any noise. At T = 2 some noise reaches it through x, too little."""
    method = DpAccMdRun(steps=steps, step=0.4, potential=HalfSquaredL2())
    assert _released(method, RUNS) <= 0
    with mutated(DpAccMdRun, "run", _printed_acc_md):
        assert _released(method, RUNS) > 0


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
        assert violation(FAR, WIDE) > 0


def test_mutant_division_by_the_batch_is_caught() -> None:
    """The printed mini-batch form divides by the random number of records: a record alone is then the whole answer."""
    original = inside(PrivateOracle, "batch")

    def over_own_size(self: PrivateOracle, query: PlannedQuery) -> Any:
        batch, _ = original(self, query)
        return batch, float(max(len(batch), 1))

    assert _farthest() == pytest.approx(1 / 8, rel=1e-3)
    with mutated(PrivateOracle, hidden(PrivateOracle, "batch"), over_own_size):
        assert _farthest() > 1.5 / 8


def _farthest() -> float:
    """How far one record moves a nearly noiseless sampled answer, at most over batches, in units of G."""
    plan = Plan((PlannedQuery("change", 200, PoissonGaussian(0.2), 1e-6),))
    X, y = np.zeros((40, 2)), np.zeros(40)
    X[0], y[0] = [1.0, 0.0], 1.0
    oracle = PrivateOracle(PROBLEM, inputs.of_arrays(X, y, PROBLEM), plan, Noise(SeededBits(4)))
    return max(float(np.linalg.norm(oracle.sampled_gradient("change", np.zeros(2)))) for _ in range(200))


def test_lower_bounds_are_sound_on_known_gaussians() -> None:
    """On N(0,1) against N(mu,1) themselves: never above mu, and near it."""
    rng = np.random.default_rng(0)
    for mu in (0.5, 1.0, 2.0):
        one, two = rng.normal(mu, 1, 20_000), rng.normal(0, 1, 20_000)
        assert 0.75 * mu < mu_lower_bound(one, two) <= mu
    assert epsilon_lower_bound(one, one, 1e-5) < 0.1


def test_lower_bounds_accuse_an_honest_mechanism_no_oftener_than_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a chance of 1/5 instead of 1e-9: N(0,1) against N(1,1) 400 times, 60 runs on either side."""
    monkeypatch.setattr(bounds, "ALARM", 0.2)
    rng, delta = np.random.default_rng(5), 0.3
    drawn = [(rng.normal(1, 1, 60), rng.normal(0, 1, 60)) for _ in range(400)]
    assert sum(mu_lower_bound(*scores) > 1 for scores in drawn) <= 0.2 * 400
    assert sum(epsilon_lower_bound(*scores, delta) > gauss_epsilon(1.0, delta) for scores in drawn) <= 0.2 * 400
