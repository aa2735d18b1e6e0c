"""Descent on a piece, and output perturbation: sensitivity compared with its bound, and the whole method."""

import math
from dataclasses import replace

import numpy as np
import pytest

from accounting import Privacy, Unit
from accounting.mechanisms import Laplace
from solvers import plan, solve
from solvers.data_access import inputs
from solvers.domains import L1Ball, L2Ball, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Hinge, HuberHinge, Logistic
from solvers.methods import ObjectivePerturbation, OutputPerturbation
from solvers.methods.data.descent import Piece
from solvers.methods.data.objective_perturbation import ObjectivePerturbationRun
from solvers.preparation import Declared
from solvers.problem import Problem
from solvers.regularizers import L2
from tests.support.runs import access_to, as_method

PROBLEM = Problem(Logistic(), L2(0.05), n=60, d=3, row_norm=1.0)


def _minimized(problem: Problem, X: np.ndarray, y: np.ndarray, pull: float, steps: int) -> np.ndarray:
    access = access_to(inputs.of_arrays(X, y, problem))
    center = np.full(problem.d, 0.3)
    piece = Piece(problem, range(10, 50), pull)
    return piece.minimize(access, problem.domain.project(center), problem.domain.project(center), steps)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [L2Ball(0.6), Simplex()], ids=["ball", "simplex"])
@pytest.mark.parametrize("pull", [0.0, 0.2])
@pytest.mark.parametrize("steps", [1, 7, 400])
def test_replacing_one_record_moves_the_iterate_within_the_bound(domain: L2Ball, pull: float, steps: int) -> None:
    rng = np.random.default_rng(steps)
    problem = Problem(HuberHinge(0.5), L2(0.05), domain, n=60, d=3, row_norm=1.0)
    bound, farthest = Piece(problem, range(10, 50), pull).sensitivity(1.0), 0.0
    for _ in range(6):
        X, y = rng.normal(size=(60, 3)), np.sign(rng.normal(size=60))
        neighbor, neighbor_y = X.copy(), y.copy()
        neighbor[30], neighbor_y[30] = -X[30], y[30]
        iterate, neighbor_iterate = (
            _minimized(problem, a, b, pull, steps) for a, b in ((X, y), (neighbor, neighbor_y))
        )
        farthest = max(farthest, float(np.linalg.norm(iterate - neighbor_iterate)))
    assert 0 < farthest <= bound


def test_the_bound_is_nearly_reached_by_opposite_records_in_one_dimension() -> None:
    """The hinge is linear at all records, so W is the mean of y x / mu, and a swap of signs moves it by the bound."""
    problem = Problem(HuberHinge(0.1), L2(2.0), n=40, d=1, row_norm=1.0)
    X, y = np.ones((40, 1)), np.tile([1.0, -1.0], 20)
    neighbor = X.copy()
    neighbor[0] = -1.0
    piece = Piece(problem, range(40), 0.0)
    iterates = []
    for rows in (X, neighbor):
        access = access_to(inputs.of_arrays(rows, y, problem))
        iterates.append(piece.minimize(access, np.zeros(1), np.zeros(1), 500))
    assert 0.9 * piece.sensitivity() < float(abs(iterates[0] - iterates[1])[0]) <= piece.sensitivity()


def test_rounding_is_a_small_part_of_the_sensitivity() -> None:
    piece = Piece(Problem(Logistic(), L2(1e-4), n=200_000, d=60, row_norm=1.0), range(200_000), 0.0)
    exact = 2 / (200_000 * 1e-4)
    assert exact < piece.sensitivity() < exact * 1.01


def test_records_outside_the_piece_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)), np.sign(rng.normal(size=60))
    changed = X.copy()
    changed[55] = 0.0
    assert np.array_equal(_minimized(PROBLEM, X, y, 0.1, 20), _minimized(PROBLEM, changed, y, 0.1, 20))


@pytest.mark.slow
def test_more_data_means_less_error_and_the_receipt_states_one_gaussian_release() -> None:
    rng = np.random.default_rng(5)
    truth, errors = np.array([1.0, -2.0]), []
    for n in (500, 50_000):
        X = rng.normal(size=(n, 2)) / 3
        y = np.sign(X @ truth + 0.1 * rng.normal(size=n))
        problem = Problem(Logistic(), L2(0.05), n=n, d=2, row_norm=1.0)
        release = solve(OutputPerturbation(), problem, X, y, Privacy(1.0, 1e-6))
        assert release.event["type"] == "GaussianDpEvent"
        assert release.accountant == "exact_gaussian"
        access = access_to(inputs.of_arrays(X, y, problem))
        best = Piece(problem, range(n), 0.0).minimize(access, np.zeros(2), np.zeros(2), 300)
        errors.append(float(np.linalg.norm(release.coefficients - best)))
    assert errors[1] < 0.05 < errors[0] + 0.05
    assert errors[1] < errors[0]


@pytest.mark.parametrize(
    ("method", "problem", "privacy", "why"),
    [
        (OutputPerturbation(ridge=0.0), Problem(Logistic(), n=60, d=3, row_norm=1.0), Privacy(1.0, 1e-6), "convexity"),
        (OutputPerturbation(), Problem(Hinge(), L2(0.1), n=60, d=3, row_norm=1.0), Privacy(1.0, 1e-6), "smooth"),
        (OutputPerturbation(noise="gaussian"), PROBLEM, Privacy(1.0, 0.0), "laplace"),
        (
            OutputPerturbation(ridge=0.0),
            Problem(Logistic(), L2(1e-9), L1Ball(1.0), n=60, d=100_000, row_norm=1.0),
            Privacy(1.0, 1e-6),
            "floating point",
        ),
    ],
)
def test_refusals_name_the_assumption(method: OutputPerturbation, problem: Problem, privacy: Privacy, why: str) -> None:
    with pytest.raises(Unsuitable, match=why):
        plan(method, problem, privacy)


def test_pure_privacy_by_laplace_noise_of_sqrt_d_times_the_bound() -> None:
    quote = plan(OutputPerturbation(ridge=0.0), PROBLEM, Privacy(1.0))
    (query,), (std,) = quote.release.plan.queries, quote.noise_stds
    assert (query.mechanism, quote.release.accountant, quote.release.delta) == (Laplace(), "pure", 0.0)
    assert quote.release.epsilon == pytest.approx(1.0, rel=1e-8)
    assert quote.release.epsilon <= 1.0
    scale = math.sqrt(PROBLEM.d) * Piece(PROBLEM, range(60), 0.0).sensitivity() / 1.0  # l1-sensitivity over epsilon
    assert std == pytest.approx(math.sqrt(2) * scale, rel=1e-5)
    rng = np.random.default_rng(5)
    release = solve(
        as_method(quote.method), PROBLEM, rng.normal(size=(60, 3)), np.sign(rng.normal(size=60)), Privacy(1.0)
    )
    assert release.event == {"type": "LaplaceDpEvent", "noise_multiplier": query.noise_multiplier}


def test_laplace_noise_may_be_requested_at_a_positive_delta() -> None:
    quote = plan(OutputPerturbation(noise="laplace"), PROBLEM, Privacy(1.0, 1e-6))
    assert quote.release.plan.queries[0].mechanism == Laplace()
    assert quote.release.accountant == "pure"


def test_the_default_ridge_keeps_the_noise_from_drowning_a_weak_regularizer() -> None:
    """It grows as the budget shrinks, vanishes beside a strong regularizer, and bounds the sensitivity."""
    weak = Problem(Logistic(), L2(1e-6), n=2_000, d=20, row_norm=1.0)
    ridges = []
    for epsilon in (0.1, 1.0, 10.0):
        method = OutputPerturbation().resolve(weak, Privacy(epsilon, 1e-6))
        ridges.append(method.ridge)
        bound, _ = method.bounds(weak)["minimizer"]
        assert bound == pytest.approx(weak.G / (weak.n * (method.ridge + 1e-6)), rel=1e-3)
    assert ridges[0] > ridges[1] > ridges[2] > 0
    strong = Problem(Logistic(), L2(50.0), n=2_000, d=20, row_norm=1.0)
    assert OutputPerturbation().resolve(strong, Privacy(1.0, 1e-6)).ridge == 0.0
    X, y = np.random.default_rng(0).normal(size=(2_000, 20)) / 5, np.tile([1.0, -1.0], 1_000)
    w = solve(OutputPerturbation(), weak, X, y, Privacy(0.1, 1e-6)).coefficients
    assert float(np.linalg.norm(w)) < 20


def test_objective_perturbation_needs_curvature() -> None:
    flat = Problem(Logistic(), n=60, d=3, row_norm=1.0)
    with pytest.raises(Unsuitable, match="strongly convex"):
        ObjectivePerturbation(ridge=0.0).resolve(flat, Privacy(1.0, 1e-6))
    with pytest.raises(Unsuitable, match="ill-conditioned"):
        ObjectivePerturbation(ridge=1e-9).resolve(replace(flat, row_norm=1e3), Privacy(100.0, 1e-6))


def test_a_ridge_so_weak_that_its_curvature_costs_all_of_epsilon_is_refused() -> None:
    """Review: with l2 1e-6 and no ridge the calibration divided by the 0 that was left for noise."""
    weak = Problem(Logistic(), L2(1e-6), n=1000, d=3, row_norm=1.0)
    with pytest.raises(Unsuitable, match=r"ridge to 0\.00017"):
        plan(ObjectivePerturbation(ridge=0.0), weak, Privacy(1.0, 1e-6))
    assert plan(ObjectivePerturbation(ridge=0.00018), weak, Privacy(1.0, 1e-6)).release.epsilon <= 1


@pytest.mark.slow
@pytest.mark.parametrize("unit", [Unit(), Unit("person", 3)])
@pytest.mark.parametrize("privacy", [Privacy(0.05, 1e-12), Privacy(1.0, 1e-2), Privacy(4.5, 1e-6)])
def test_steps_are_enough_for_the_noise_whatever_the_ridge(unit: Unit, privacy: Privacy) -> None:
    """Steps are counted before the noise is chosen, for a bound on the noise that weak ridges once exceeded."""
    flat, k = Problem(Logistic(), L2(0.0), n=1000, d=3, row_norm=1.0, unit=unit), unit.slots
    for share in (0.01, 0.1, 0.5, 0.8, 0.899):
        ridge = flat.L / (flat.n * k * math.expm1(share * privacy.epsilon / k))
        quoted = plan(ObjectivePerturbation(ridge=ridge), flat, privacy, preparation=Declared())
        assert isinstance(quoted.method, ObjectivePerturbationRun)
        std = quoted.release.plan.queries[0].noise_multiplier * flat.G
        method = ObjectivePerturbation(ridge=ridge, radius=quoted.method.radius)
        assert method.with_radius_and_steps(flat, ridge, std * 1.05).steps <= quoted.method.steps
