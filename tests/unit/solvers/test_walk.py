"""The compiled walk, compared with its plain form answer by answer, from the same draws."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise, lattice
from accounting.noise import source as noises
from accounting.noise.lattice import Lattice, fineness
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Privacy, Unit
from solvers import bounds, centred, kernels, plan, solve
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.unfolded import rows_of
from solvers.data_access.walk import WalkingOracle
from solvers.domains import Domain, Free, L1Ball, L2Ball
from solvers.errors import Unsuitable
from solvers.kernels import steps
from solvers.losses import Hinge, HuberHinge, Logistic, Loss, Sigmoid, Squared
from solvers.methods import DpSvrg, DpSvrgPp
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.variance_reduced import Estimates
from solvers.problem import Problem
from solvers.regularizers import L1, L2, NoRegularizer, Regularizer
from tests.support.batches import own_batches
from tests.support.seeded import SeededBits
from tests.support.walks import Recorded, answers_far_from_the_anchor

N, D = 300, 11
RATE = 3.0 / N


@pytest.fixture(autouse=True)
def _own() -> Iterator[None]:
    with own_batches():
        yield


def _problem(loss: Loss, regularizer: Regularizer | None = None, domain: Domain | None = None) -> Problem:
    return Problem(loss, regularizer or NoRegularizer(), domain or Free(), n=N, d=D, row_norm=2.0)


def _data(problem: Problem) -> Data:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((problem.slots, D))
    y = X @ rng.standard_normal(D)
    present = rng.random(problem.slots) < 0.6 if problem.unit.is_person else None
    return inputs.of_arrays(X, np.sign(y) if problem.loss.takes == "class" else y / 5, problem, present)


def _oracle(
    problem: Problem, noise: Noise, multiplier: float = 0.4, count: int = 10_000, on_answer: Any = None
) -> WalkingOracle:
    queries = (
        PlannedQuery("snapshot", 10, Gaussian(), multiplier),
        PlannedQuery("change", count, PoissonGaussian(RATE), multiplier),
    )
    return WalkingOracle(problem, _data(problem), Plan(queries), noise, on_answer)


@pytest.mark.parametrize("domain", [Free(), L2Ball(0.7)], ids=repr)
@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(0.1)], ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.3), Squared(0.5)], ids=repr)
@pytest.mark.parametrize("centring", [False, True])
def test_points_are_those_of_single_answers(
    centring: bool, loss: Loss, regularizer: Regularizer, domain: Domain
) -> None:
    """The same batches and normal draws give the same points, at the anchor, near it and beyond."""
    far_count = _compared(centring, _problem(loss, regularizer, domain), 500)
    assert 0 < far_count < 500 if isinstance(domain, Free) else far_count < 500


@pytest.mark.parametrize("centring", [False, True])
def test_points_of_persons_are_those_of_asking_one_by_one(centring: bool) -> None:
    """Batches of all places of persons, some of them empty."""
    problem = replace(_problem(Logistic()), unit=Unit("person", 3))
    assert 0 < _compared(centring, problem, 300) < 300


def _compared(centring: bool, problem: Problem, count: int) -> int:
    """Compare all points with single answers, and return how many lie so far away that gradients are requested."""
    anchor, multiplier = np.full(D, 0.1), 12.0 if centring else 0.4
    snapshot = np.linspace(-0.2, 0.2, D)
    return answers_far_from_the_anchor(_data(problem), multiplier, anchor, anchor, snapshot, count, centring)


def test_a_walk_clips_falling_slopes_like_single_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk also cuts changes of slope against the move at 0, shown by a loss that wrongly states it is convex."""
    monkeypatch.setattr(Sigmoid, "is_convex", True)
    anchor = np.full(D, 0.1)
    data = _data(_problem(Sigmoid()))
    assert answers_far_from_the_anchor(data, 12.0, anchor + 0.2, anchor, np.zeros(D), 100, centred=True) < 80


def test_open_coordinates_are_decided_by_further_bits_and_the_walk_goes_on() -> None:
    problem, recorded = _problem(Logistic()), Recorded(6)
    oracle = _oracle(problem, recorded, count=20_000)
    for _ in range(20):
        points = oracle.walk("change", np.zeros(D), np.ones(D) / 9, np.zeros(D), 0.01, 1000)
        assert points is not None
        assert np.isfinite(points).all()
    assert 1 <= len(recorded.decided) < 60  # 220,000 draws, of which some 2.5e-5 are open


def test_every_answer_is_counted_before_any_is_given() -> None:
    problem, heard = _problem(Logistic()), list[int]()
    oracle = _oracle(problem, Noise(SeededBits(1)), count=250, on_answer=heard.append)
    at = np.zeros(D)
    assert oracle.walk("change", at, at, at, 0.1, 200) is not None
    assert heard == [200]
    with pytest.raises(OutOfPlan):
        oracle.walk("change", at, at, at, 0.1, 51)
    with pytest.raises(OutOfPlan, match="another mechanism"):
        oracle.walk("snapshot", at, at, at, 0.1, 1)
    with pytest.raises(Unsuitable):
        oracle.walk("change", np.full(D, np.inf), at, at, 0.1, 1)
    for count in (-1, -200, math.nan):
        with pytest.raises(OutOfPlan):
            oracle.walk("change", at, at, at, 0.1, count)  # type: ignore[arg-type]
    assert oracle.transcript().query("change").count == 200
    assert oracle.walk("change", at, at, at, 0.1, 50) is not None
    with pytest.raises(OutOfPlan):
        oracle.sampled_gradient("change", at)


@pytest.mark.parametrize(
    "problem",
    [_problem(Hinge()), _problem(Logistic(), L1(0.1)), _problem(Logistic(), domain=L1Ball(1.0))],
    ids=["hinge", "l1", "l1_ball"],
)
def test_answers_without_a_compiled_walk_are_requested_one_by_one(problem: Problem) -> None:
    oracle, at = _oracle(problem, Noise(SeededBits(1))), np.zeros(D)
    assert oracle.walk("change", at, at, at, 0.1, 3) is None
    assert oracle.transcript() == Plan(())
    if problem.is_smooth:
        estimates = Estimates(oracle, problem, DpSvrgRun(1, 3, 3, 0.01))
        estimates.move(at, 3)
        assert [block.shape for block in estimates.walk(at, 0.01, 3)] == [(3, D)]
        assert oracle.transcript().query("change").count == 3


def test_answers_of_large_batches_are_requested_one_by_one() -> None:
    problem, at = _problem(Logistic()), np.zeros(D)
    queries = Plan((PlannedQuery("change", 5, PoissonGaussian(0.5), 1.0),))
    oracle = WalkingOracle(problem, _data(problem), queries, Noise(SeededBits(1)))
    assert oracle.walk("change", at, at, at, 0.1, 3) is None


@pytest.mark.parametrize("method", [DpSvrg(epochs=2, inner_steps=700, batch=2), DpSvrgPp(2, 300, batch=2)], ids=repr)
def test_methods_of_small_batches_walk_and_stay_within_their_plan(method: DpSvrg | DpSvrgPp) -> None:
    problem = Problem(Logistic(), L2(0.01), L2Ball(3.0), n=N, d=D, row_norm=2.0)
    data = _data(problem)
    release = solve(method, problem, rows_of(data), data.y, Privacy(8.0, 1e-4))
    assert release.transcript == plan(method, problem, Privacy(8.0, 1e-4)).release.plan
    assert np.linalg.norm(release.coefficients) <= 3.0 * (1 + 1e-12)


def test_the_loops_numbers_are_those_of_the_accounting() -> None:
    assert (steps.RELATIVE, steps.ABSOLUTE) == (noises.RELATIVE, noises.ABSOLUTE)
    assert (steps.FARTHEST, steps.NEAREST) == (bounds.FARTHEST, centred.NEAREST)
    numbers = (steps.FINEST, steps.COARSEST, steps.LARGEST)
    assert numbers == (lattice.SMALLEST_SPACING, lattice.LARGEST_SPACING, lattice.MOST_STEPS)


def test_the_lattice_is_that_of_the_accounting() -> None:
    rng = np.random.default_rng(1)
    for z, b, d in zip(
        10 ** rng.uniform(-4, 4, 3000), 10 ** rng.uniform(-250, 250, 3000), [1, 7, 54] * 1000, strict=True
    ):
        k, divisor = fineness(z, math.sqrt(d))
        fitted = Lattice.fit(z, b, d)
        assert kernels.fit(z, divisor, b, k) == (fitted.std, fitted.spacing)
    for bound in (0.0, -1.0, 1e-300, 1e308, math.nan, math.inf):
        assert kernels.fit(10.0, 1.0, bound, 24) == (0.0, 0.0)


def test_a_walk_that_leaves_the_range_stops() -> None:
    oracle, at = _oracle(_problem(Logistic()), Noise(SeededBits(1))), np.zeros(D)
    with pytest.raises(Unsuitable, match="left the range"):
        oracle.walk("change", at, at, np.full(D, 1.0), 1e200, 3)
