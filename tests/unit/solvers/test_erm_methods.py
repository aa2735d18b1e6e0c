"""Methods of the ERM family, which reach the optimum with exact answers and request the planned answers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.noise import Noise
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.data_access.oracles import DataOracles
from solvers.domains import Domain, Free, L2Ball
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Squared
from solvers.methods import DpAccMd, DpGd, DpSvrg, DpSvrgPp, Method
from solvers.methods.oracle.dp_acc_md import DpAccMdRun
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.methods.run import FullBatchRun, SampledRun, Start
from solvers.potentials import HalfSquaredL2
from solvers.problem import Vector
from solvers.regularizers import L2, NoRegularizer
from tests.support.quiet_oracle import QuietOracle
from tests.support.runs import as_method
from tests.support.seeded import SeededBits

N, D = 300, 4
PRIVACY = Privacy(1.0, 1e-6)
LONG: tuple[FullBatchRun | SampledRun, ...] = (
    DpGdRun(steps=3000, step=0.99),
    DpAccMdRun(steps=2000, step=1.0, potential=HalfSquaredL2()),
    DpSvrgRun(epochs=40, inner_steps=40, batch=60, step=0.5),
    DpSvrgPpRun(epochs=9, inner_steps=4, batch=60, step=0.5),
)
DEFAULTS = (DpGd(), DpAccMd(), DpSvrg(), DpSvrgPp())
RATES = {"dp_svrg": 0.2, "dp_svrg_pp": 0.2}


def names(method: Method | FullBatchRun | SampledRun) -> str:
    return method.name


def rows() -> tuple[Vector, Vector]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D))
    X[:, 0] = 1.0
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ [0.3, 2.0, -1.0, 0.5] + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)


def problem(domain: Domain | None = None, strength: float = 0.02) -> Problem:
    return Problem(Logistic(), L2(strength) if strength else NoRegularizer(), domain or Free(), n=N, d=D, row_norm=1.0)


def objective(task: Problem, w: Vector) -> float:
    X, y = rows()
    return float(np.mean(task.loss.value(X @ w, y))) + task.regularizer.value(w)


def optimum(task: Problem) -> float:
    """Return the least value by scipy, with the ball as a constraint."""
    X, y = rows()
    exact, strength = QuietOracle(task, X, y), task.regularizer.strong_convexity
    radius = task.domain.radius if isinstance(task.domain, L2Ball) else 1e3
    solution = minimize(
        lambda w: objective(task, w),
        np.zeros(D),
        jac=lambda w: exact.gradient("g", w) + strength * w,
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w}],
        options={"ftol": 1e-12},
    )
    assert solution.success
    return float(solution.fun)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [problem(), problem(L2Ball(1.0), 0.0), problem(L2Ball(0.5))], ids=["l2", "ball", "both"]
)
@pytest.mark.parametrize("method", LONG, ids=names)
def test_with_exact_answers_it_reaches_the_optimum(method: FullBatchRun | SampledRun, task: Problem) -> None:
    X, y = rows()
    answer = method.run(QuietOracle(task, X, y, RATES.get(method.name, 1.0)), task)
    assert objective(task, answer) - optimum(task) < 2e-5
    np.testing.assert_allclose(task.domain.project(answer), answer, rtol=1e-12, atol=0)  # a mean of points of C


@pytest.mark.slow
@pytest.mark.parametrize("method", LONG, ids=names)
def test_hardly_private_it_reaches_the_optimum_through_the_real_oracle(method: FullBatchRun | SampledRun) -> None:
    """epsilon = 100 on these 300 rows would be noise; an oracle with a plan of tiny multipliers is all but exact."""
    X, y = rows()
    task = problem()
    short = replace(method, steps=300) if isinstance(method, DpGdRun | DpAccMdRun) else method
    release = calibrate(short.queries(task), PRIVACY).plan
    quiet = replace(release, queries=tuple(replace(q, noise_multiplier=1e-4) for q in release.queries))
    oracles = DataOracles(inputs.of_arrays(X, y, task), quiet, Noise(SeededBits(1)))
    answer = short.answer(oracles)
    assert objective(task, answer) - optimum(task) < 1e-3
    assert quiet.covers(oracles.transcript())


@pytest.mark.parametrize("method", DEFAULTS, ids=names)
@pytest.mark.parametrize("task", [problem(), problem(L2Ball(2.0)), Problem(Squared(), n=50, d=9, row_norm=3.0)])
def test_it_requests_exactly_the_planned_answers(method: Method, task: Problem) -> None:
    quote = plan(method, task, PRIVACY)
    assert None not in [getattr(quote.method, field) for field in quote.method.__dataclass_fields__]
    oracle = QuietOracle(task, np.zeros((task.n, task.d)), np.zeros(task.n))
    assert isinstance(quote.method, FullBatchRun | SampledRun)
    quote.method.run(oracle, task)
    assert oracle.queries_asked == {q.name: q.count for q in quote.release.plan.queries}
    assert as_method(quote.method).resolve(task, PRIVACY) == quote.method


class TestDpSvrgPp:
    def test_epochs_double_and_all_their_steps_are_counted(self) -> None:
        method = DpSvrgPpRun(epochs=4, inner_steps=3, batch=10, step=0.1)
        snapshot, change = method.queries(problem())
        assert (snapshot.count, change.count) == (4, 2 * 3 * (2**4 - 1)) == (4, 6 + 12 + 24 + 48)
        assert method.gradient_evaluations(problem()) == 4 * N + 2 * 90 * 10

    def test_the_last_point_is_carried_over_and_the_mean_is_the_anchor(self) -> None:
        """Two epochs of 2 and 4 plain gradient steps: with batches of everything, v is the gradient itself."""
        X, y = rows()
        task, eta = problem(), 0.5
        method = DpSvrgPpRun(epochs=2, inner_steps=1, batch=N, step=eta)
        oracle = QuietOracle(task, X, y)
        answer = method.run(oracle, task)
        exact, points = QuietOracle(task, X, y), [task.start]
        for _ in range(6):
            points.append(task.prox(points[-1] - eta * exact.gradient("g", points[-1]), eta))
        assert np.allclose(oracle.points[0], task.start)
        assert np.allclose(oracle.points[1], np.mean(points[1:3], axis=0))
        assert np.allclose(answer, np.mean(points[3:], axis=0))

    def test_few_steps_mean_few_doublings(self) -> None:
        task = replace(problem(), n=20)
        resolved = DpSvrgPp().resolve(task, Privacy(0.01, 1e-6))
        assert (resolved.epochs, resolved.inner_steps) == (1, 1)
        assert DpSvrgPp().resolve(replace(problem(strength=0.0), n=10**6), Privacy(1.0, 1e-6)).epochs == 5

    def test_fields_that_are_set_stay(self) -> None:
        method = DpSvrgPp(epochs=3, inner_steps=7, batch=50, step=0.2, form="safeguarded")
        assert as_method(method.resolve(problem(), PRIVACY)) == method


class TestDpAccMd:
    def test_the_steps_are_the_papers_with_one_gradient_for_both(self) -> None:
        """Algorithm 3 as printed, alpha = (k + 2) / (4 L), r = 1 / (2 alpha L), but for the y-step's 2 L."""
        X, y = rows()
        task = problem(L2Ball(0.7), 0.0)
        L, exact = task.L, QuietOracle(task, X, y)
        a = b = task.start
        for k in range(20):
            alpha = (k + 2) / (4 * L)
            r = 1 / (2 * alpha * L)
            x = r * b + (1 - r) * a
            g = exact.gradient("g", x)
            a, b = task.domain.project(x - g / (2 * L)), task.domain.project(b - alpha * g)
        answer = DpAccMdRun(steps=20, step=1 / (2 * L), potential=HalfSquaredL2()).run(QuietOracle(task, X, y), task)
        assert np.allclose(answer, a, atol=1e-12)

    def test_accelerates(self) -> None:
        """With exact answers the error is under 8 L B / (T + 1)^2, which plain steps do not reach on this task."""
        X, y = rows()
        task = problem(L2Ball(20.0), 0.0)
        best, steps = optimum(task), 60
        answer = DpAccMdRun(steps=steps, step=1 / (2 * task.L), potential=HalfSquaredL2()).run(
            QuietOracle(task, X, y), task
        )
        reached = objective(task, answer) - best
        method = DpAccMdRun(steps=steps, step=1 / (2 * task.L), potential=HalfSquaredL2())
        assert reached <= method.excess_risk(task, 0.0, Start(20.0, 1.0))
        w, exact = task.start, QuietOracle(task, X, y)
        for _ in range(steps):
            w = task.prox(w - exact.gradient("g", w) / (2 * task.L), 1 / (2 * task.L))
        assert reached < (objective(task, w) - best) / 3

    def test_the_defaults_minimize_the_bound(self) -> None:
        """Among all T, at the longest step, d small beside n: within 2 % of the least bound; T <= 500."""
        task = Problem(Logistic(), NoRegularizer(), n=20_000, d=50, row_norm=2.0)
        privacy = Privacy(1.0, 1e-6)
        distance = 5 * 50**0.5 / 2

        def bound(method: DpAccMd) -> float:
            quote = plan(method, task, privacy)
            assert isinstance(quote.method, DpAccMdRun)
            return quote.method.excess_risk(task, quote.noise_stds[0], Start(distance, 1.0))

        longest = 1 / (2 * task.L)
        smallest = min(bound(DpAccMd(steps=steps, step=longest)) for steps in range(1, 300))
        assert bound(DpAccMd()) <= 1.02 * smallest
        assert DpAccMd().resolve(replace(task, n=10**9), privacy).steps == 500

    def test_a_step_beyond_half_of_one_over_L(self) -> None:
        with pytest.raises(Unsuitable, match="2L"):
            DpAccMd(step=0.51 / problem().L).resolve(problem(), PRIVACY)
        assert DpAccMd(step=0.5 / problem().L).resolve(problem(), PRIVACY).step == 0.5 / problem().L
