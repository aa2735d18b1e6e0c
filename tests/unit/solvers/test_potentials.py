"""Potentials: strong convexity in their norm, optimal steps, bounds, and refusals with a reason."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from solvers import Problem, plan, solve
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Logistic
from solvers.methods import DpAccMd
from solvers.methods.oracle.dp_acc_md import DpAccMdRun
from solvers.methods.run import Start
from solvers.potentials import POTENTIALS, HalfSquaredL2, HalfSquaredLp, NegativeEntropy, Potential
from solvers.regularizers import L1, L2, ElasticNet, NoRegularizer, Regularizer
from tests.support.quiet_oracle import QuietOracle
from tests.support.runs import as_method

Vector = NDArray[np.float64]
PRIVACY = Privacy(1.0, 1e-6)
DIMENSIONS = (2, 3, 40, 1000)
L1_KIND: tuple[tuple[Potential, Domain], ...] = ((HalfSquaredLp(), L1Ball(3.0)), (NegativeEntropy(), Simplex(3.0)))


def problem(domain: Domain, d: int, regularizer: Regularizer | None = None) -> Problem:
    return Problem(Logistic(), regularizer or NoRegularizer(), domain, n=500, d=d, row_norm=1.0)


def exponent(d: int) -> float:
    return max(2.0, 1 + math.log(d))


def norm(potential: Potential, x: Vector) -> float:
    """The norm that w is strongly convex in."""
    if isinstance(potential, HalfSquaredLp):
        q = exponent(len(x))
        return float((np.abs(x) ** (q / (q - 1))).sum() ** (1 - 1 / q))
    return float(np.abs(x).sum())


def value(potential: Potential, x: Vector) -> float:
    """w."""
    if isinstance(potential, HalfSquaredLp):
        return norm(potential, x) ** 2 * (exponent(len(x)) - 1) / 2
    return 3.0 * float((x * np.log(np.where(x > 0, x, 1.0))).sum())


def slope(potential: Potential, x: Vector) -> Vector:
    """grad w, from its formula."""
    if isinstance(potential, HalfSquaredLp):
        q = exponent(len(x))
        p = q / (q - 1)
        length = norm(potential, x)
        if length == 0:
            return np.zeros_like(x)
        return (q - 1) * np.sign(x) * np.abs(x) ** (p - 1) * length ** (2 - p)
    return 3.0 * (np.log(x) + 1)


def bregman(potential: Potential, u: Vector, x: Vector) -> float:
    return value(potential, u) - value(potential, x) - float(slope(potential, x) @ (u - x))


def points(domain: Domain, d: int, many: int) -> list[Vector]:
    """Return points of C: inner, sparse and at its edge. On the simplex all coordinates are above 0."""
    rng = np.random.default_rng(d)
    vectors = []
    for k in range(many):
        weights = rng.dirichlet(np.full(d, (1.0, 0.1, 10.0)[k % 3])) + 1e-12
        weights /= weights.sum()
        inner = rng.choice([-1.0, 1.0], d) * weights * rng.choice([0.1, 1.0])
        vectors.append(3.0 * (inner if isinstance(domain, L1Ball) else weights))
    return vectors


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize(("potential", "domain"), L1_KIND, ids=["lp", "entropy"])
class TestTheory:
    def test_its_slope_is_its_gradient(self, potential: Potential, domain: Domain, d: int) -> None:
        (x,) = points(domain, d, 1)
        for i in range(min(d, 5)):
            h = 1e-6 * abs(x[i])
            step = h * np.eye(d)[i]
            quotient = (value(potential, x + step) - value(potential, x - step)) / (2 * h)
            assert quotient == pytest.approx(slope(potential, x)[i], rel=1e-4, abs=1e-5)

    def test_strong_convexity(self, potential: Potential, domain: Domain, d: int) -> None:
        """B_w(u, x) >= ||u - x||^2 / 2, and l_p nearly attains the bound."""
        inside = points(domain, d, 24)
        close_pairs = [(x + 0.01 * (u - x), x) for u in inside[:6] for x in inside[:6]]
        for u, x in [(u, x) for u in inside for x in inside] + close_pairs:
            assert bregman(potential, u, x) >= norm(potential, u - x) ** 2 / 2 * (1 - 1e-6) - 1e-9

    def test_the_bound_on_the_distance_from_the_start(self, potential: Potential, domain: Domain, d: int) -> None:
        task = problem(domain, d)
        bound = potential.bregman(task, 1e9)
        start = task.start if isinstance(domain, Simplex) else np.zeros(d)
        vertex = np.full(d, 1e-300)
        vertex[0] = 3.0
        distances = [bregman(potential, u, start) for u in [*points(domain, d, 24), vertex]]
        assert max(distances) <= bound * (1 + 1e-9)
        assert distances[-1] == pytest.approx(bound)  # met at a vertex

    def test_noise_norm(self, potential: Potential, domain: Domain, d: int) -> None:
        """The mean of the squared dual norm is below the bound, and above half of it."""
        b = np.random.default_rng(1).standard_normal((4000, d))
        q = exponent(d) if isinstance(potential, HalfSquaredLp) else np.inf
        mean = float(np.mean(np.linalg.norm(b, q, axis=1) ** 2))
        bound = potential.noise_norm(problem(domain, d))
        assert mean <= bound * 1.03  # 4000 draws
        assert mean >= bound / 2.5

    @pytest.mark.parametrize("regularizer", [NoRegularizer(), L1(0.02), ElasticNet(0.02, 0.0)], ids=lambda r: r.name)
    def test_mirror_steps_are_optimal(
        self, potential: Potential, domain: Domain, d: int, regularizer: Regularizer
    ) -> None:
        """For all v in C: <grad w(u) - grad w(z) + a g, v - u> + a r(v) - a r(u) >= 0."""
        task, rng = problem(domain, d, regularizer), np.random.default_rng(d)
        candidates = points(domain, d, 12) + [3.0 * s * np.eye(d)[i] for i in (0, d - 1) for s in (1.0, -1.0)]
        candidates = [v for v in candidates if isinstance(domain, L1Ball) or v.min() >= 0]
        for z in [task.start, *points(domain, d, 3)]:
            for step in (1e-3, 0.3, 30.0, 3e4):
                g = rng.standard_normal(d)
                u = potential.mirror(task, z, g, step)
                assert np.abs(u).sum() <= 3.0 * (1 + 1e-12)
                positive = np.maximum(u, 1e-280) if isinstance(domain, Simplex) else u
                dual = slope(potential, positive) - slope(potential, z) + step * g
                scale = float(np.abs(dual).max()) + step
                for v in candidates:
                    gain = float(dual @ (v - u)) + step * (regularizer.value(v) - regularizer.value(u))
                    assert gain >= -1e-8 * scale

    def test_without_noise_it_minimizes_a_linear_function(self, potential: Potential, domain: Domain, d: int) -> None:
        task = problem(domain, d)
        g = np.linspace(-1.0, 0.5, d)
        u = potential.mirror(task, task.start, g, 1e6)
        assert g @ u == pytest.approx(-3.0, rel=1e-3)


class TestFloats:
    @pytest.mark.parametrize("step", [1e-300, 1e-9, 1.0, 1e9, 1e90])
    @pytest.mark.parametrize("radius", [1e-6, 1.0, 1e6])
    def test_every_step_is_finite_and_in_the_domain(self, step: float, radius: float) -> None:
        g = np.random.default_rng(4).standard_normal(200) * np.logspace(-200, 3, 200)
        for potential, domain in ((HalfSquaredLp(), L1Ball(radius)), (NegativeEntropy(), Simplex(radius))):
            task = problem(domain, 200)
            u = task.start
            for _ in range(3):
                u = potential.mirror(task, u, g, step)
                assert np.isfinite(u).all()
                assert np.abs(u).sum() <= radius * (1 + 1e-12)

    def test_zero_stays_where_nothing_pulls(self) -> None:
        task = problem(L1Ball(1.0), 9)
        assert not HalfSquaredLp().mirror(task, np.zeros(9), np.zeros(9), 1.0).any()
        assert not HalfSquaredLp().mirror(problem(L1Ball(1.0), 9, L1(2.0)), np.zeros(9), np.ones(9), 1.0).any()

    def test_a_coordinate_that_vanished_comes_back(self) -> None:
        task = problem(Simplex(1.0), 3)
        vanished = NegativeEntropy().mirror(task, task.start, np.array([0.0, 0.0, 1.0]), 1e5)
        restored = NegativeEntropy().mirror(task, vanished, np.array([1.0, 1.0, 0.0]), 1e5)
        assert restored[2] == pytest.approx(1.0)


class TestWhatIsCovered:
    @pytest.mark.parametrize("domain", [Free(), L2Ball(1.0), LinfBall(1.0), Simplex()], ids=lambda c: c.name)
    def test_lp_needs_an_l1_ball(self, domain: Domain) -> None:
        with pytest.raises(Unsuitable, match="l1 ball"):
            DpAccMd(potential=HalfSquaredLp()).resolve(problem(domain, 5), PRIVACY)

    @pytest.mark.parametrize("domain", [Free(), L2Ball(1.0), LinfBall(1.0), L1Ball(1.0)], ids=lambda c: c.name)
    def test_entropy_needs_a_simplex(self, domain: Domain) -> None:
        with pytest.raises(Unsuitable, match="simplex"):
            DpAccMd(potential=NegativeEntropy()).resolve(problem(domain, 5), PRIVACY)

    @pytest.mark.parametrize(("potential", "domain"), L1_KIND, ids=["lp", "entropy"])
    @pytest.mark.parametrize("regularizer", [L2(0.1), ElasticNet(0.1, 0.1)], ids=lambda r: r.name)
    def test_no_quadratic_regularizer(self, potential: Potential, domain: Domain, regularizer: Regularizer) -> None:
        task = problem(domain, 5000, regularizer)
        with pytest.raises(Unsuitable, match="quadratic"):
            DpAccMd(potential=potential).resolve(task, PRIVACY)
        assert DpAccMd().resolve(task, PRIVACY).potential == HalfSquaredL2()

    def test_the_default_has_the_least_proven_bound(self) -> None:
        for d, domain, expected in (
            (5000, L1Ball(1.0), "half_squared_lp"),
            (5000, Simplex(), "negative_entropy"),
            (5000, L2Ball(1.0), "half_squared_l2"),
            (5000, Free(), "half_squared_l2"),
            (3, L1Ball(1.0), "half_squared_l2"),
            (3, Simplex(), "half_squared_l2"),
        ):
            task = problem(domain, d)
            resolved = DpAccMd().resolve(task, PRIVACY)
            assert resolved.potential is not None
            assert resolved.potential.name == expected
            covering = [p for p in POTENTIALS if p.refusal(task) is None]
            reach = min(domain.diameter(d) / 2, 1e9)
            root = [p.bregman(task, reach) * p.noise_norm(task) for p in covering]
            assert resolved.potential == covering[int(np.argmin(root))]

    @pytest.mark.parametrize("domain", [L1Ball(1.0), Simplex()], ids=lambda c: c.name)
    def test_the_forecast_is_smaller_than_the_euclidean_one(self, domain: Domain) -> None:
        task = replace(problem(domain, 5000), n=20_000)
        risks = [plan(DpAccMd(potential=p), task, PRIVACY).risk_bound.excess_risk for p in (None, HalfSquaredL2())]
        assert risks[0] is not None
        assert risks[1] is not None
        assert risks[0] < risks[1] / 2


@pytest.mark.parametrize(("potential", "domain"), L1_KIND, ids=["lp", "entropy"])
class TestMethod:
    def rows(self, d: int) -> tuple[Vector, Vector]:
        """Targets made by two coordinates."""
        rng = np.random.default_rng(8)
        X = rng.choice([-1.0, 1.0], (500, d)) / math.sqrt(d)
        return X, np.where(X[:, 0] + 0.5 * X[:, 1] + 0.2 / math.sqrt(d) * rng.standard_normal(500) > 0, 1.0, -1.0)

    def risk(self, task: Problem, w: Vector) -> float:
        X, y = self.rows(task.d)
        return float(np.mean(task.loss.value(X @ w, y)))

    @pytest.mark.slow
    def test_without_noise_it_keeps_its_bound(self, potential: Potential, domain: Domain) -> None:
        task = problem(domain, 30)
        X, y = self.rows(30)
        w = task.start
        for _ in range(600):  # at 300 it stands still
            w = task.prox(w - 1.0 * QuietOracle(task, X, y).gradient("g", w), 1.0)
        for steps in (5, 50, 500):
            method = DpAccMdRun(steps=steps, step=1 / (2 * task.L), potential=potential)
            answer = method.run(QuietOracle(task, X, y), task)
            assert self.risk(task, answer) - self.risk(task, w) <= method.excess_risk(task, 0.0, Start(6.0, 1.0))
        assert self.risk(task, answer) - self.risk(task, w) <= 1e-3

    @pytest.mark.slow
    def test_with_noise_it_keeps_its_bound_and_the_domain(self, potential: Potential, domain: Domain) -> None:
        task, privacy = problem(domain, 60), Privacy(20.0, 1e-6)
        X, y = self.rows(60)
        quote = plan(DpAccMd(potential=potential), task, privacy)
        models = [solve(as_method(quote.method), task, X, y, privacy).coefficients for _ in range(6)]
        w = task.start
        for _ in range(600):  # at 300 it stands still
            w = task.prox(w - 1.0 * QuietOracle(task, X, y).gradient("g", w), 1.0)
        excess = float(np.mean([self.risk(task, model) for model in models])) - self.risk(task, w)
        assert quote.risk_bound.excess_risk is not None
        assert 0 <= excess <= quote.risk_bound.excess_risk
        for model in models:
            np.testing.assert_allclose(domain.project(model), model, atol=1e-12)

    def test_it_requests_the_planned_answers(self, potential: Potential, domain: Domain) -> None:
        task = problem(domain, 60)
        quote = plan(DpAccMd(potential=potential), task, PRIVACY)
        oracle = QuietOracle(task, *self.rows(60))
        assert isinstance(quote.method, DpAccMdRun)
        quote.method.run(oracle, task)
        assert oracle.queries_asked == {q.name: q.count for q in quote.release.plan.queries}
        method: Any = as_method(quote.method)
        euclidean = plan(replace(method, potential=HalfSquaredL2()), task, PRIVACY)
        assert euclidean.release == quote.release  # the privacy is the same whatever the potential
