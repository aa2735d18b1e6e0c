"""dp_gd that releases one point: its options, its hidden steps, its refusals and its bound."""

import math
from dataclasses import replace

import numpy as np
import pytest

from accounting import Privacy
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, LastIterate, RandomIterate
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, plan, solve
from solvers.bounds import gradient_error
from solvers.data_access import inputs
from solvers.data_access.last_iterate import HiddenStepsOracle, pulled_back
from solvers.data_access.meter import Meter
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.hidden_steps import contraction, reach, step_bound
from solvers.losses import HuberHinge, Logistic, Sigmoid, Softmax, Squared
from solvers.methods import DpGd
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.problem import Vector
from solvers.regularizers import L1, L2, ElasticNet
from solvers.solve import run
from tests.support.runs import access_to, as_method, run_quote
from tests.support.seeded import SeededBits

PRIVACY = Privacy(1.0, 1e-6)
PROBLEM = Problem(Logistic(), L2(0.05), n=400, d=3, row_norm=2.0)


def _rows(problem: Problem, seed: int = 0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(problem.n, problem.d)), np.sign(rng.normal(size=problem.n))


def _step(problem: Problem, step: float, X: Vector, y: Vector, at: Vector) -> Vector:
    """y -> m before it is rounded: P, then the gradient step."""
    access = access_to(inputs.of_arrays(X, y, problem))
    w = problem.prox(pulled_back(at, reach(problem, step)), step)
    return w - step * access.mean_gradient(range(problem.n), w)


CONTRACTING = [
    Problem(HuberHinge(0.5), regularizer, domain, n=20, d=3, row_norm=1.0)
    for regularizer in (L2(0.3), ElasticNet(0.1, 0.3))
    for domain in (Free(), L2Ball(0.7), L1Ball(0.7), LinfBall(0.4), Simplex())
]
CONTRACTING.append(Problem(Softmax(3), L2(0.3), n=30, d=2, row_norm=1.0))


@pytest.mark.slow
@pytest.mark.parametrize("problem", CONTRACTING, ids=repr)
def test_a_step_contracts_and_one_record_moves_it_within_the_bound(problem: Problem) -> None:
    """The proof builds on ||m - m'|| <= c ||y - x|| + 2 b for any y and x and any two neighbors."""
    step, size = 1 / problem.L, problem.size
    c, bound, rng, tightest = contraction(problem, step), step_bound(problem, step), np.random.default_rng(3), 0.0
    assert DpGdRun(5, step, "last").bounds(problem) == {"last_iterate": (bound, size)}
    for k in range(200):
        X, y = _rows(problem, k)
        if problem.outputs > 1:
            y = rng.integers(0, 3, problem.n).astype(float)
        neighbor = X.copy()
        neighbor[4] = -X[4] * rng.choice([1.0, 50.0])
        point = rng.normal(size=size) * rng.choice([0.1, 1.0, 10.0, 1e6])
        moved_point = point + rng.normal(size=size) * rng.choice([0.0, 1e-3, 1.0, 1e5])
        moved = float(
            np.linalg.norm(_step(problem, step, X, y, point) - _step(problem, step, neighbor, y, moved_point))
        )
        assert moved <= c * float(np.linalg.norm(point - moved_point)) + 2 * bound
        tightest = max(tightest, moved / (2 * bound) if (point == moved_point).all() else 0.0)
    assert tightest > 0.5


def test_rounding_is_a_small_part_of_the_bound() -> None:
    """And the std that pays for it and for the lattice stays within a thousandth of z eta G / n."""
    problem = Problem(Logistic(), L2(1e-3), n=200_000, d=60, row_norm=3.0)
    quote = plan(DpGd(release="last"), problem, PRIVACY)
    assert quote.method == DpGdRun(steps=2000, step=1 / problem.L, release="last")
    (query,) = quote.release.plan.queries
    exact = query.noise_multiplier / problem.L * problem.G / problem.n
    assert exact < quote.noise_stds[0] < exact * 1.002


def test_the_bound_counts_the_rounding_of_margins() -> None:
    """Two runs compute slopes at two points: a slope that is its record's own bits is off the exact map, too."""
    problem = Problem(Logistic(), L2(1e-6), n=10**6, d=5000, row_norm=3.0)
    step = 1 / problem.L
    error = gradient_error(problem, problem.n, reach(problem, step))
    assert error > 0.1 * problem.G / problem.n
    assert step_bound(problem, step) >= step * (problem.G / problem.n + error)


def test_the_contraction_by_hand_and_its_limits() -> None:
    assert contraction(PROBLEM, 1.0) == pytest.approx(1 / 1.05)
    assert contraction(PROBLEM, 1.0) >= 1 / 1.05
    assert contraction(PROBLEM, 1.99) < 1
    for problem, step in ((PROBLEM, 2.0), (PROBLEM, math.nan), (replace(PROBLEM, loss=Sigmoid()), 0.1)):
        with pytest.raises(Unsuitable, match="2/L"):
            contraction(problem, step)


def test_queries_and_defaults() -> None:
    assert DpGd().resolve(PROBLEM, PRIVACY).release == "average"
    last = DpGd(release="last").resolve(PROBLEM, PRIVACY)
    assert last.step <= 1 / PROBLEM.L
    (query,) = last.queries(PROBLEM)
    assert (query.name, query.count) == ("last_iterate", 1)
    assert query.mechanism == LastIterate(last.steps, contraction(PROBLEM, last.step))
    assert last.gradient_evaluations(PROBLEM) == last.steps * PROBLEM.n
    (query,) = DpGdRun(steps=9, step=0.1, release="random").queries(PROBLEM)
    assert (query.count, query.mechanism, query.answers) == (1, RandomIterate(9), 8)
    (query,) = DpGdRun(steps=9, step=0.1, release="average").queries(PROBLEM)
    assert (query.count, query.mechanism) == (9, Gaussian())
    for method in (last, DpGd(release="random").resolve(PROBLEM, PRIVACY)):
        assert as_method(method).resolve(PROBLEM, PRIVACY) == method


@pytest.mark.parametrize(
    ("method", "problem", "why"),
    [
        (DpGd(release="last"), replace(PROBLEM, regularizer=L1(0.1)), "strongly convex"),
        (DpGd(release="last"), replace(PROBLEM, regularizer=L2(0.0)), "strongly convex"),
        (DpGd(release="last"), replace(PROBLEM, loss=Sigmoid()), "convex"),
        (DpGd(release="last", step=1.01), PROBLEM, "1/L"),
        (DpGd(release="last"), replace(PROBLEM, regularizer=L2(1e-150), domain=Free()), "too weak"),
    ],
)
def test_refusals_name_the_assumption(method: DpGd, problem: Problem, why: str) -> None:
    with pytest.raises(Unsuitable, match=why):
        plan(method, problem, PRIVACY)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(Unsuitable, match="2 steps"):
        DpGd(steps=1, release="random")


def test_a_plan_made_for_other_steps_is_refused() -> None:
    """More steps, or a step that contracts less, would cost more than the plan says."""
    quote = plan(DpGd(release="last"), PROBLEM, PRIVACY)
    assert isinstance(quote.method, DpGdRun)
    data = inputs.of_arrays(*_rows(PROBLEM), PROBLEM)
    for changed in (
        replace(quote.method, steps=quote.method.steps + 1),
        replace(quote.method, step=quote.method.step / 2),
        replace(quote.method, release="average"),
    ):
        with pytest.raises(OutOfPlan):
            run(changed, PROBLEM, data, quote.release, Noise(SeededBits(1)))


@pytest.mark.parametrize("step", [0.0, -1e-9, -1.0, math.nan, -math.inf])
def test_a_step_that_is_not_positive_is_refused(step: float) -> None:
    """A step backwards does not contract, and its bound could be negative."""
    with pytest.raises(Unsuitable, match="positive step"):
        contraction(PROBLEM, step)


def test_only_the_last_iterate_is_an_answer() -> None:
    """Signs of life come at every step, and all of them but the last say that nothing was answered yet."""
    quote, heard = plan(DpGd(steps=7, step=0.5, release="last"), PROBLEM, PRIVACY), list[int]()
    w, transcript, _ = run_quote(quote, inputs.of_arrays(*_rows(PROBLEM), PROBLEM), 1, on_answer=heard.append)
    assert heard == [0] * 7 + [1]
    assert transcript == quote.release.plan
    assert np.isfinite(w).all()


@pytest.mark.slow
@pytest.mark.parametrize("release", ["last", "random"])
def test_learns_where_there_is_enough_data(release: str) -> None:
    """The last iterate is near the minimizer. A random one is at least downhill on average."""
    problem = Problem(Logistic(), L2(0.05), n=15_000, d=2, row_norm=1.0)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(problem.n, 2)) / 3
    y = np.sign(X @ [1.0, -2.0] + 0.1 * rng.normal(size=problem.n))
    best = solve(DpGd(steps=200, step=4.0), problem, X, y, Privacy(90.0, 1e-2)).coefficients
    method = DpGd(steps=60, step=1 / problem.L, release=release)  # type: ignore[arg-type]
    releases = [solve(method, problem, X, y, PRIVACY) for _ in range(25)]  # of which one in twelve is an early one
    gaps = [float(np.linalg.norm(each.coefficients - best)) for each in releases]
    assert float(np.median(gaps)) < 0.25 * float(np.linalg.norm(best))
    kind = "GaussianDpEvent" if release == "last" else "RandomIterateDpEvent"
    assert {each.event["type"] for each in releases} == {kind}


def test_a_random_iterate_by_hand() -> None:
    """Plain steps, as many as the oracle says: w <- prox(w - eta (w - 1)) twice, from 0."""

    class Two:
        def horizon(self, query: str) -> int:
            assert query == "gradient"
            return 2

        def gradient(self, query: str, w: Vector) -> Vector:  # noqa: ARG002
            return w - 1

    problem = Problem(Squared(), L2(1.0), n=10, d=1, row_norm=1.0)
    answer = DpGdRun(steps=9, step=0.5, release="random").run(Two(), problem)  # type: ignore[arg-type]
    first = 0.5 / 1.5
    assert answer[0] == pytest.approx((first - 0.5 * (first - 1)) / 1.5)


@pytest.mark.slow
def test_the_forecast_by_hand_and_in_the_mean() -> None:
    """c^T ln 2 + (c tau)^2 (L + mu d) / (2 (1 - c)); and no run's mean excess is above it."""
    problem = Problem(Logistic(), L2(0.1), n=2000, d=3, row_norm=1.0)
    privacy, method = Privacy(0.3, 1e-6), DpGd(steps=30, step=2.0, release="last")
    quote = plan(method, problem, privacy)
    c, tau = 1 / 1.2, quote.noise_stds[0]
    bound = c**30 * math.log(2) + (c * tau) ** 2 * (0.25 + 0.3) / (2 * (1 - c))
    assert quote.risk_bound.excess_risk == pytest.approx(bound)
    X, y = np.tile([0.6, 0.8, 0.0], (problem.n, 1)), np.ones(problem.n)
    s = 0.0
    for _ in range(2000):  # the minimizer lies along the row: s with s * mu = 1 / (1 + e^s)
        s -= 0.5 * (0.1 * s - 1 / (1 + math.exp(s)))

    def value(w: Vector) -> float:
        return math.log1p(math.exp(-float(X[0] @ w))) + 0.05 * float(w @ w)

    minimum = math.log1p(math.exp(-s)) + 0.05 * s * s
    excess = np.mean([value(solve(method, problem, X, y, privacy).coefficients) - minimum for _ in range(60)])
    assert 0 < excess < bound
    for variant in (replace(problem, domain=L2Ball(1.0)), replace(problem, regularizer=ElasticNet(0.1, 0.1))):
        assert plan(method, variant, privacy).risk_bound.excess_risk is None
    assert plan(DpGd(release="random"), problem, privacy).risk_bound.excess_risk is None


@pytest.mark.parametrize("release", ["last", "random"])
@pytest.mark.parametrize("domain", [Free(), L2Ball(1e-3), L1Ball(2.0), LinfBall(2.0), Simplex()], ids=lambda c: c.name)
def test_no_data_makes_a_run_fail_or_leave_its_domain(domain: Domain, release: str) -> None:
    for regularizer in (L2(1e-6), L2(30.0), ElasticNet(0.1, 0.3)):
        problem = Problem(Squared(), regularizer, domain, n=40, d=3, row_norm=1.5)
        quote = plan(DpGd(release=release), problem, Privacy(0.5, 1e-5))  # type: ignore[arg-type]
        for value in (0.0, np.nan, 1e300, -np.inf):
            X, y = _rows(problem)
            X[::3], y[::2] = value, value
            w, transcript, _ = run_quote(quote, inputs.of_arrays(X, y, problem), 2)
            assert np.isfinite(w).all()
            assert float(np.linalg.norm(w - domain.project(w))) <= 1e-12
            assert transcript == quote.release.plan


def test_losses_of_several_outputs() -> None:
    problem = CONTRACTING[-1]
    X, _ = _rows(problem)
    release = solve(DpGd(release="last"), problem, X, np.arange(problem.n) % 3.0, PRIVACY)
    assert release.coefficients.shape == (6,)
    assert release.event["type"] == "GaussianDpEvent"


def test_hidden_steps_stay_within_their_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the next step covers the rounding there only."""
    step, distant = 0.5, np.full(3, 1e12)
    queries = (PlannedQuery("last", 1, LastIterate(2, contraction(PROBLEM, step)), 1.0),)
    oracle = HiddenStepsOracle(PROBLEM, inputs.of_arrays(*_rows(PROBLEM), PROBLEM), Plan(queries), Noise(SeededBits(1)))
    monkeypatch.setattr(Meter, "perturb", lambda *_: distant)
    assert np.linalg.norm(oracle.last_iterate("last", 2, step)) <= reach(PROBLEM, step)


def test_a_point_outside_the_ball_is_pulled_back_and_one_inside_stays() -> None:
    """The rounding of a step is bounded for points in the ball only."""
    assert np.linalg.norm(pulled_back(np.array([3e9, -4e9]), 2.0)) == pytest.approx(2.0)
    assert np.array_equal(pulled_back(np.array([0.3, -0.4]), 2.0), [0.3, -0.4])
