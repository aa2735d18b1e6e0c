"""Well-known baselines: objective perturbation, AdaSSP and noisy SGD."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import special

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import ObjectivePerturbation
from solvers import methods, plan, solve
from solvers.data_access import inputs
from solvers.domains import L2Ball, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Absolute, Hinge, Huber, Logistic, Sigmoid, Squared
from solvers.methods import NoisySgd
from solvers.methods.data.ada_ssp import AdaSspRun
from solvers.methods.data.objective_perturbation import ObjectivePerturbationRun
from solvers.problem import Problem
from solvers.regularizers import L1, L2
from tests.support.runs import access_to

PRIVACY = Privacy(1.0, 1e-6)
GLM = Problem(Logistic(), L2(0.01), n=400, d=3, row_norm=1.0)
LEAST_SQUARES = Problem(Squared(), n=400, d=3, row_norm=1.0)


def _data(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, X @ (np.arange(d) - 1.0) / d + 0.05 * rng.normal(size=n), rng.normal(size=d)


class TestObjectivePerturbation:
    @pytest.mark.parametrize(("ratio", "z"), [(0.25, 2.0), (0.05, 5.0), (2.0, 1.0)])
    def test_the_curve_covers_the_exact_divergence_in_one_dimension(self, ratio: float, z: float) -> None:
        """Logistic loss, G = 1, beta = 1/4: the density of theta is known on a grid, for pairs of opposite records."""
        theta, strong = np.linspace(-80, 80, 40_001), 0.25 / ratio
        step, orders = theta[1] - theta[0], (2.0, 4.0, 8.0)
        bound = ObjectivePerturbation(ratio).curves(z).rdp(orders)

        def log_density(records: Sequence[tuple[float, float]]) -> np.ndarray:
            b = -(sum(-y * x * special.expit(-y * x * theta) for x, y in records) + strong * theta)
            slope = strong + sum(x * x * special.expit(x * theta) * special.expit(-x * theta) for x, _ in records)
            log = -(b**2) / (2 * z * z) + np.log(slope)
            return np.asarray(log - special.logsumexp(log + math.log(step)))

        worst = np.zeros(3)
        for first, second in (([(1, 1)], [(1, -1)]), ([(1, 1), (0.5, -1)], [(1, 1), (1, 1)]), ([(1, 1)], [(0.01, 1)])):
            for p, q in ((log_density(first), log_density(second)), (log_density(second), log_density(first))):
                divergences = [special.logsumexp(a * p + (1 - a) * q + math.log(step)) / (a - 1) for a in orders]
                worst = np.maximum(worst, divergences)
        assert (worst <= bound).all()
        # two linear losses of opposite slopes shift b by 2 G everywhere: exactly 2 a / z^2, of the bound's size
        assert 0.3 * bound[0] < 2 * orders[0] / z**2 <= bound[0]

    def test_the_multipliers_match_the_specification(self) -> None:
        """Covertype at lambda = 0.01: s = 9.34 at (1, 1e-6), 1.10 times the plain Gaussian (docs/spec 10)."""
        from accounting.plan import Query

        release = calibrate((Query("m", 1, ObjectivePerturbation(0.25 / 2000)),), PRIVACY)
        assert release.plan.queries[0].noise_multiplier == pytest.approx(9.34, rel=0.01)
        assert release.accountant == "rdp"

    @pytest.mark.slow
    def test_the_solver_ends_within_its_radius_whatever_the_data(self) -> None:
        for seed, scale in ((0, 1.0), (1, 0.0), (2, 1e6)):
            X, _, _ = _data(GLM.n, GLM.d, seed)
            y = np.where(np.arange(GLM.n) % 3 == 0, 1.0, -1.0)
            method = plan(methods.ObjectivePerturbation(), GLM, PRIVACY).method
            assert isinstance(method, ObjectivePerturbationRun)
            access = access_to(inputs.of_arrays(X * scale, y, GLM))
            b = np.array([30.0, -20.0, 10.0])
            w = method.minimize(access, GLM, b, 0.0)
            exact = w
            for _ in range(1_000):  # of a condition below 30
                g = access.mean_gradient(range(GLM.n), exact) + 0.01 * exact + b / GLM.n
                exact = exact - g / (GLM.L + 0.01)
            assert float(np.linalg.norm(w - exact)) <= method.radius

    @pytest.mark.parametrize(
        ("problem", "why"),
        [
            (Problem(Hinge(), L2(0.1), n=60, d=3, row_norm=1.0), "smooth"),
            (Problem(Sigmoid(), L2(0.1), n=60, d=3, row_norm=1.0), "convex"),
            (Problem(Logistic(), L1(0.1), n=60, d=3, row_norm=1.0), "l2"),
            (Problem(Logistic(), L2(0.1), Simplex(), n=60, d=3, row_norm=1.0), "domain"),
        ],
    )
    def test_refusals_name_the_assumption(self, problem: Problem, why: str) -> None:
        with pytest.raises(Unsuitable, match=why):
            plan(methods.ObjectivePerturbation(), problem, PRIVACY)

    def test_fewer_steps_than_the_proof_needs_are_refused(self) -> None:
        with pytest.raises(Unsuitable, match="at least"):
            plan(methods.ObjectivePerturbation(steps=1), GLM, PRIVACY)
        with pytest.raises(Unsuitable, match="radius"):
            plan(methods.ObjectivePerturbation(radius=1e-30), GLM, PRIVACY)

    def test_the_answer_lies_in_the_domain_and_near_the_optimum(self) -> None:
        X, target, _ = _data(60_000, 3)
        problem = Problem(Logistic(), L2(0.05), L2Ball(0.4), n=60_000, d=3, row_norm=1.0)
        release = solve(methods.ObjectivePerturbation(), problem, X, np.sign(target), Privacy(4.0, 1e-6))
        assert float(np.linalg.norm(release.coefficients)) <= 0.4 + 1e-12
        assert float(np.linalg.norm(release.coefficients)) > 0.3


class TestAdaSsp:
    @pytest.mark.slow
    def test_neighbors_move_each_statistic_within_its_bound_and_nearly_reach_it(self) -> None:
        rng, bounds = np.random.default_rng(2), AdaSspRun().bounds(LEAST_SQUARES)
        farthest = dict.fromkeys(bounds, 0.0)
        for trial in range(60):
            X, y, _ = _data(400, 3, trial)
            X[0], y[0] = rng.normal(size=3), 50.0  # beyond C: cut
            neighbor, neighbor_y = X.copy(), y.copy()
            neighbor[0], neighbor_y[0] = (rng.normal(size=3), -50.0) if trial % 2 else (X[0], -50.0)
            X[0], neighbor[0] = 9 * X[0], 9 * neighbor[0]  # too long: scaled to norm 1
            statistics = []
            for rows, targets in ((X, y), (neighbor, neighbor_y)):
                access = access_to(inputs.of_arrays(rows, targets, LEAST_SQUARES))
                second, mixed = access.moments(LEAST_SQUARES.loss.slope_bound)
                upper = np.triu_indices(3)
                weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
                statistics.append((np.linalg.eigvalsh(second)[:1], second[upper] * weight, mixed))
            for name, statistic, neighbor_statistic in zip(bounds, *statistics, strict=True):
                farthest[name] = max(farthest[name], float(np.linalg.norm(statistic - neighbor_statistic)))
        for name, (bound, _) in bounds.items():
            assert farthest[name] <= 2 * bound
        assert farthest["second_moments"] > 0.9 * 2 * bounds["second_moments"][0]
        assert farthest["target_moments"] > 0.9 * 2 * bounds["target_moments"][0]

    def test_with_much_data_it_is_least_squares(self) -> None:
        X, y, _ = _data(100_000, 3)
        problem = Problem(Squared(), n=100_000, d=3, row_norm=1.0)
        exact = np.linalg.lstsq(X, y, rcond=None)[0]
        for rounds, queries in ((1, 3), (None, 4)):
            release = solve(methods.AdaSsp(rounds), problem, X, y, Privacy(4.0, 1e-6))
            assert float(np.linalg.norm(release.coefficients - exact)) < 0.02
            assert release.accountant == "exact_gaussian"
            assert len(release.transcript.queries) == queries

    @pytest.mark.slow
    def test_neighbors_move_a_round_within_its_bound_and_nearly_reach_it(self) -> None:
        """The previous round may have led anywhere, so residuals have either sign and may far exceed their limit."""
        rng, (bound, width) = np.random.default_rng(3), AdaSspRun(2).bounds(LEAST_SQUARES)["residual_moments"]
        farthest = 0.0
        for trial in range(60):
            X, y, _ = _data(400, 3, trial)
            X[0], y[0] = rng.normal(size=3), 1.0
            neighbor, neighbor_y = X.copy(), y.copy()
            neighbor[0], neighbor_y[0] = (rng.normal(size=3) if trial % 3 else -X[0]), -1.0
            X[0], neighbor[0] = 9 * X[0], 9 * neighbor[0]  # too long: scaled to norm 1
            w = 10.0 ** rng.uniform(-3, 4) * rng.normal(size=3)
            moved = [
                access_to(inputs.of_arrays(rows, targets, LEAST_SQUARES)).mean_gradient(range(400), w)
                for rows, targets in ((X, y), (neighbor, neighbor_y))
            ]
            assert width == 3
            farthest = max(farthest, float(np.linalg.norm(moved[0] - moved[1])))
        assert 0.9 * 2 * bound < farthest <= 2 * bound

    def test_one_round_keeps_its_shares_and_is_the_default_of_older_documents(self) -> None:
        """Three answers with the shares of mu^2 that receipts of earlier versions hold."""
        read = TypeAdapter(AdaSspRun).validate_json('{"name": "ada_ssp"}')
        assert read == AdaSspRun(1) == methods.AdaSsp(rounds=1).resolve(LEAST_SQUARES, PRIVACY)
        assert [q.weight for q in read.queries(LEAST_SQUARES)] == [0.1, 0.45, 0.45]
        assert set(read.bounds(LEAST_SQUARES)) == {q.name for q in read.queries(LEAST_SQUARES)}

    @pytest.mark.slow
    def test_more_rounds_undo_the_bias_of_the_ridge_and_of_noisy_second_moments(self) -> None:
        """Skewed columns: the one-round solution is biased in the short ones; the fixed point of the rounds is not."""
        generator = np.random.default_rng(4)
        X = generator.uniform(-1, 1, size=(20_000, 4)) * np.array([1.0, 0.5, 0.2, 0.1]) / 2
        y = np.clip(X @ np.array([0.5, -1.0, 1.5, -2.0]) + 0.05 * generator.normal(size=20_000), -1, 1)
        problem, exact = Problem(Squared(), n=20_000, d=4, row_norm=1.0), np.linalg.lstsq(X, y, rcond=None)[0]

        def excess(rounds: int) -> float:
            runs = [solve(methods.AdaSsp(rounds), problem, X, y, Privacy(2.0, 1e-6)).coefficients for _ in range(15)]
            return float(np.median([np.mean((X @ (w - exact)) ** 2) for w in runs]))

        assert excess(5) < 0.5 * excess(1)

    def test_with_little_data_it_stays_bounded(self) -> None:
        """The ridge takes over: no draw divides by nearly zero."""
        X, y, _ = _data(50, 3)
        problem = Problem(Squared(), n=50, d=3, row_norm=1.0)
        models = [solve(methods.AdaSsp(), problem, X, y, Privacy(0.1, 1e-6)).coefficients for _ in range(30)]
        assert max(float(np.linalg.norm(w)) for w in models) < 10

    @pytest.mark.parametrize(
        ("problem", "privacy", "why"),
        [
            (Problem(Huber(), n=60, d=3, row_norm=1.0), PRIVACY, "least squares"),
            (Problem(Squared(), L1(0.1), n=60, d=3, row_norm=1.0), PRIVACY, "none or l2"),
            (Problem(Squared(), L2(0.1), L2Ball(1.0), n=60, d=3, row_norm=1.0), PRIVACY, "free"),
            (Problem(Squared(), n=60, d=2000, row_norm=1.0), PRIVACY, "1024"),
            (LEAST_SQUARES, Privacy(1.0, 0.0), "delta > 0"),
        ],
    )
    def test_refusals_name_the_assumption(self, problem: Problem, privacy: Privacy, why: str) -> None:
        with pytest.raises(Unsuitable, match=why):
            plan(methods.AdaSsp(), problem, privacy)


class TestNoisySgd:
    @pytest.mark.slow
    @pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=["smooth", "hinge"])
    def test_it_learns_without_tuning(self, loss: Logistic | Hinge) -> None:
        X, target, _ = _data(500, 3)
        y = np.sign(target)
        problem = Problem(loss, L2(1e-3), n=500, d=3, row_norm=1.0)
        w = solve(NoisySgd(), problem, X, y, Privacy(2.0, 1e-6)).coefficients
        assert float(np.mean(np.sign(X @ w) == y)) > 0.8

    def test_its_defaults_are_functions_of_public_facts(self) -> None:
        method = NoisySgd().resolve(Problem(Absolute(), n=10_000, d=3, row_norm=1.0), PRIVACY)
        assert (method.steps, method.batch) == (10_000, 100)
        assert method.step is not None
        with pytest.raises(Unsuitable, match="batch"):
            NoisySgd(batch=401).resolve(GLM, PRIVACY)
        with pytest.raises(Unsuitable, match="1/L"):
            NoisySgd(step=100.0).resolve(GLM, PRIVACY)
