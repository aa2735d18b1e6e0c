"""Problems from their parts, and the methods that take them. Every refusal names the reason and an alternative."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Privacy
from solvers import plan, solve
from solvers.bounds import gradient_bound, gradient_error, sampled_bound
from solvers.data_access import inputs
from solvers.data_access.sampled import SampledOracle
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Absolute, Hinge, Huber, HuberHinge, Logistic, Loss, Power, Quantile, Sigmoid, Squared
from solvers.methods import DpGd, DpSvrg, OutputPerturbation
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.problem import Problem
from solvers.regularizers import L1, L2, ElasticNet, NoRegularizer, Regularizer
from solvers.selection import Auto
from tests.support.members import every
from tests.support.quiet_oracle import QuietOracle
from tests.support.seeded import SeededBits

Floats = NDArray[np.float64]

PRIVACY = Privacy(1.0, 1e-6)
SMOOTH: list[Loss] = [Logistic(), HuberHinge(), Squared(), Huber(), Quantile(0.3, 0.2), Power(2.0)]
ROUGH: list[Loss] = [Hinge(), Absolute(), Quantile(), Power()]
DOMAINS: list[Domain] = every(Domain, L2Ball(0.5), L1Ball(0.5), LinfBall(0.5), Simplex(0.5))
REGULARIZERS: list[Regularizer] = every(Regularizer, L2(0.1), L1(0.1), ElasticNet(0.1, 0.2))


def _problem(loss: Loss, regularizer: Regularizer | None = None, domain: Domain | None = None) -> Problem:
    return Problem(loss, regularizer or NoRegularizer(), domain or Free(), n=400, d=3, row_norm=1.5)


def _data(problem: Problem) -> tuple[Floats, Floats]:
    bits = np.random.default_rng(11)
    X = bits.standard_normal((problem.n, problem.d))
    y = X @ np.array([1.0, -0.5, 0.2]) / 3
    return X, (np.sign(y) if problem.loss.takes == "class" else np.clip(y, -1, 1))


@pytest.mark.parametrize("loss", [*SMOOTH, *ROUGH, Sigmoid()], ids=repr)
def test_G_bounds_every_records_gradient_and_L_how_it_moves(loss: Loss) -> None:
    problem, bits = _problem(loss), np.random.default_rng(2)
    assert problem.is_smooth is (loss not in ROUGH)
    assert problem.is_convex is (loss != Sigmoid())
    x = bits.standard_normal((20_000, 3))
    x *= 1.5 / np.linalg.norm(x, axis=1, keepdims=True)
    y = loss.targets(bits.uniform(-1, 1, 20_000))
    w = bits.standard_normal((20_000, 3)) * bits.choice([0.1, 1.0, 10.0], (20_000, 1))
    u = w + bits.standard_normal((20_000, 3)) * bits.choice([1e-4, 0.1, 1.0], (20_000, 1))
    at_w, at_u = (loss.slope((x * v).sum(axis=1), y)[:, None] * x for v in (w, u))
    assert np.linalg.norm(at_w, axis=1).max() <= problem.G * (1 + 1e-12)
    moved, apart = np.linalg.norm(at_w - at_u, axis=1), np.linalg.norm(w - u, axis=1)
    if problem.is_smooth:
        assert (moved <= problem.L * apart * (1 + 1e-9)).all()
    else:
        assert math.isinf(problem.L)


def test_mu_is_that_of_r() -> None:
    assert [_problem(Logistic(), r).mu for r in (NoRegularizer(), *REGULARIZERS[:3])] == [0.0, 0.1, 0.0, 0.2]


def test_a_domain_of_one_point_is_refused() -> None:
    with pytest.raises(Unsuitable, match="single point"):
        Problem(Logistic(), domain=Simplex(), n=10, d=1, row_norm=1.0)


class TestRefusals:
    @pytest.mark.parametrize("loss", ROUGH, ids=repr)
    @pytest.mark.parametrize("method", [DpGd(), DpGd(steps=3, step=1e-3), DpSvrg()], ids=repr)
    def test_a_loss_that_is_not_smooth(self, loss: Loss, method: DpGd | DpSvrg) -> None:
        with pytest.raises(Unsuitable) as refused:
            plan(method, _problem(loss), PRIVACY)
        text = str(refused.value)
        assert text.startswith(f"{method.name} needs a smooth loss, and {loss.name}")
        assert ("Use huber_hinge" if loss.takes == "class" else "Use huber, ") in text

    @pytest.mark.parametrize("method", [DpSvrg(), OutputPerturbation()], ids=repr)
    def test_a_loss_that_is_not_convex(self, method: DpSvrg | OutputPerturbation) -> None:
        with pytest.raises(Unsuitable, match=rf"{method.name} needs a convex loss; sigmoid is not\. Use dp_gd"):
            plan(method, _problem(Sigmoid()), PRIVACY)

    @pytest.mark.parametrize("method", [DpGd(), DpSvrg()], ids=repr)
    def test_nothing_else(self, method: DpGd | DpSvrg) -> None:
        """Every regularizer and domain is tried in tests/property/test_solver_contracts.py."""
        for loss in SMOOTH:
            assert plan(method, _problem(loss), PRIVACY).release.epsilon <= 1.0

    def test_auto_takes_descent_without_convexity_and_states_it(self) -> None:
        quote = plan(Auto(), _problem(Sigmoid()), PRIVACY)
        assert quote.method.name == "dp_gd"
        assert "not convex" in quote.reason


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*SMOOTH, Sigmoid()], ids=repr)
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_every_smooth_loss_trains_on_every_domain(loss: Loss, domain: Domain) -> None:
    for regularizer in REGULARIZERS:
        problem = _problem(loss, regularizer, domain)
        w = solve(Auto(), problem, *_data(problem), Privacy(50.0, 1e-3)).coefficients
        np.testing.assert_allclose(domain.project(w), w, atol=1e-9)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)
def test_without_convexity_descent_is_plain_and_pays_for_every_step(regularizer: Regularizer, domain: Domain) -> None:
    problem = _problem(Sigmoid(), regularizer, domain)
    X, y = _data(problem)
    X *= problem.row_norm / np.maximum(np.linalg.norm(X, axis=1), problem.row_norm)[:, None]
    oracle, step = QuietOracle(problem, X, y), 1 / problem.L
    w = DpGdRun(steps=40, step=step).run(oracle, problem)
    points = [*oracle.points, w]  # the answer is the last point, each question the point before
    heights = [float(problem.loss.value(X @ v, y).mean()) + regularizer.value(v) for v in points]
    for (u, v), (height, next_height) in zip(pairwise(points), pairwise(heights), strict=True):
        np.testing.assert_array_equal(v, problem.prox(u - step * oracle.gradient("gradient", u), step))
        assert next_height <= height - float((v - u) @ (v - u)) / (2 * step) + 1e-12


def test_its_defaults_spend_the_same_time_in_plain_steps() -> None:
    problem = _problem(Sigmoid(), domain=L2Ball(1.0))
    method = DpGd().resolve(problem, PRIVACY)
    assert method.steps is not None
    assert method.step is not None
    assert method.step * problem.L <= 1
    again = DpGd(steps=4 * method.steps).resolve(problem, PRIVACY)
    assert again.step == pytest.approx(method.step / 4)
    resolved = DpGd(step=method.step).resolve(problem, PRIVACY)
    assert resolved.steps in (method.steps, method.steps + 1)


@pytest.mark.parametrize("method", [DpGd(), DpSvrg()], ids=repr)
def test_a_negligible_strength_changes_nothing(method: DpGd | DpSvrg) -> None:
    none = method.resolve(_problem(Logistic()), PRIVACY)
    for strength in (5e-324, 1e-300, 1e-20):
        assert method.resolve(_problem(Logistic(), L2(strength)), PRIVACY) == none


class TestOracleWithoutSmoothness:
    """Sums for losses of one margin, in which a record changes no bit of the other records' slopes."""

    @pytest.mark.parametrize("loss", [*SMOOTH, *ROUGH, Sigmoid()], ids=repr)
    def test_every_loss_pays_next_to_nothing_at_every_reach(self, loss: Loss) -> None:
        problem = _problem(loss)
        for reach in (0.0, 1e-300, 1.0, 1e100):
            share = problem.G / problem.n
            assert share < gradient_bound(problem, reach) <= share * (1 + 1e-9)
            assert problem.G / 10 < sampled_bound(problem, 10.0, problem.G, reach) <= problem.G / 10 * (1 + 1e-9)

    @pytest.mark.parametrize("loss", [*SMOOTH, *ROUGH, Sigmoid()], ids=repr)
    def test_the_distance_from_the_exact_gradient_grows_with_the_reach_of_smooth_losses_alone(self, loss: Loss) -> None:
        problem = _problem(loss)
        error, distant_error = gradient_error(problem, problem.n, 1.0), gradient_error(problem, problem.n, 1e100)
        assert 2 * problem.G <= distant_error <= 2.1 * problem.G
        assert error < 1e-9 if problem.is_smooth else error == distant_error

    def test_an_answer_is_finite(self) -> None:
        problem = _problem(Hinge())
        planned = Plan((PlannedQuery("gradient", 2, Gaussian(), 1.0),))
        oracle = SampledOracle(problem, inputs.of_arrays(*_data(problem), problem), planned, Noise(SeededBits(7)))
        for w in (np.zeros(3), np.full(3, 1e10)):
            assert np.isfinite(oracle.gradient("gradient", w)).all()
