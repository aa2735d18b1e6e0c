"""Inverse sensitivity: scores compared with their bound and with brute force, and the whole method."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.mechanisms import Exponential
from accounting.noise import Noise
from solvers import plan, solve
from solvers.data_access import inputs
from solvers.data_access.lattice_sums import Rounded, lattice_mean_gradients
from solvers.data_access.oracles import DataOracles
from solvers.data_access.sums import gradient_sum
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Absolute, Logistic, Loss, Quantile, Sigmoid, Squared
from solvers.methods import InverseSensitivity
from solvers.methods.data.inverse_sensitivity import InverseSensitivityRun
from solvers.problem import Problem
from solvers.regularizers import L1, L2, NoRegularizer, Regularizer
from solvers.rounded import lattice_error
from tests.reference.median import least_slope
from tests.support.operations import operations
from tests.support.seeded import ScriptedBits, SeededBits

Array = NDArray[np.float64]


def scored(
    monkeypatch: pytest.MonkeyPatch, method: InverseSensitivity, problem: Problem, X: Array, y: Array
) -> tuple[Array, float, Array]:
    """Return the scores of one run, their per-record bound, and the point with the least score."""
    calls: list[Any] = []

    def lowest_score(_: Exponential, value: Array, _z: float, bound: float, _noise: Noise) -> Array:
        calls.append((value, bound))
        return np.array([float(value.argmin())])

    monkeypatch.setattr(Exponential, "perturb", lowest_score)
    quote = plan(method, problem, Privacy(1.0))
    assert isinstance(quote.method, InverseSensitivityRun)
    oracles = DataOracles(inputs.of_arrays(X, y, problem), quote.release.plan, Noise(SeededBits(1)))
    point = quote.method.answer(oracles)
    assert oracles.transcript() == quote.release.plan
    return calls[0][0], calls[0][1], point


def column(problem: Problem, y: Array) -> tuple[Array, Array]:
    return np.ones((problem.n, 1)), y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "regularizer", "domain", "d"),
    [
        (Absolute(), NoRegularizer(), LinfBall(1.0), 1),
        (Quantile(0.8), L1(0.05), L2Ball(1.0), 1),
        (Logistic(), L2(0.01), LinfBall(2.0), 2),
        (Logistic(), L1(0.02), L1Ball(1.0), 2),
        (Squared(), L2(0.1), L2Ball(1.0), 3),
        (Absolute(), NoRegularizer(), Simplex(), 3),
    ],
)
def test_replacing_one_record_moves_no_score_by_more_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, loss: Loss, regularizer: Regularizer, domain: Domain, d: int
) -> None:
    rng = np.random.default_rng(d)
    problem = Problem(loss, regularizer, domain, n=25, d=d, row_norm=1.0)
    farthest, bound = 0.0, 0.0
    for _ in range(12):
        X, y = rng.normal(size=(25, d)), np.sign(rng.normal(size=25)) * rng.uniform(0.2, 1, 25)
        neighbor, neighbor_y = X.copy(), y.copy()
        neighbor[7] = -X[7]
        if loss.takes == "class":
            y, neighbor_y = np.sign(y), np.sign(y)
        else:
            neighbor_y[7] = -np.sign(y[7])
        scores, bound, _ = scored(monkeypatch, InverseSensitivity(grid=9), problem, X, y)
        neighbor_scores, _, _ = scored(monkeypatch, InverseSensitivity(grid=9), problem, neighbor, neighbor_y)
        farthest = max(farthest, float(np.abs(scores - neighbor_scores).max()))
    assert 0.1 < farthest <= 2 * bound
    assert 1 < 2 * bound < 1 + 1e-8


def test_the_bound_is_reached_by_a_target_that_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(Absolute(), domain=LinfBall(1.0), n=11, d=1, row_norm=1.0)
    y = np.full(11, -0.9)
    scores, bound, _ = scored(monkeypatch, InverseSensitivity(grid=64), problem, *column(problem, y))
    neighbor_scores, _, _ = scored(
        monkeypatch, InverseSensitivity(grid=64), problem, *column(problem, np.r_[0.9, y[1:]])
    )
    assert np.abs(scores - neighbor_scores).max() == pytest.approx(2 * bound, rel=1e-9)


def test_median_scores_are_those_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """G_rho of |w - s| at the middle of each cell, rho half a cell."""
    problem, cells = Problem(Absolute(), domain=LinfBall(1.0), n=101, d=1, row_norm=1.0), 50
    y = np.random.default_rng(0).normal(0.2, 0.3, 101).clip(-0.99, 0.99)
    scores, _, point = scored(monkeypatch, InverseSensitivity(grid=cells), problem, *column(problem, y))
    middles = np.linspace(-1, 1, cells + 1)[:-1] + 1 / cells
    expected = [101 * least_slope(y.tolist(), x, 1 / cells, -1.0, 1.0) / 2 for x in middles]
    assert scores == pytest.approx(expected, abs=1e-7)
    assert abs(point[0] - np.median(y)) <= 1 / cells
    assert scores.min() == 0


def test_a_score_is_at_most_the_records_that_must_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving k targets to the far side makes a cell optimal: its score was at most k."""
    problem = Problem(Absolute(), domain=LinfBall(1.0), n=31, d=1, row_norm=1.0)
    y = np.linspace(-0.95, 0.95, 31)
    scores, bound, _ = scored(monkeypatch, InverseSensitivity(grid=40), problem, *column(problem, y))
    for k in (1, 4, 9):
        moved = np.sort(y).copy()
        moved[:k] = 0.97
        changed_scores, _, _ = scored(monkeypatch, InverseSensitivity(grid=40), problem, *column(problem, moved))
        assert np.all(scores[changed_scores == 0] <= k * 2 * bound)
        assert scores[changed_scores == 0].max() > k - 1


@pytest.mark.parametrize("d", [1, 2, 3])
def test_gradients_on_the_lattice_are_the_gradients(d: int) -> None:
    rng = np.random.default_rng(d)
    problem = Problem(Logistic(), n=3000, d=d, row_norm=1.0)
    data = inputs.of_arrays(rng.normal(size=(3000, d)), np.sign(rng.normal(size=3000)), problem)
    points = rng.normal(size=(5, d))
    gradients = lattice_mean_gradients(data, points, lambda: None)
    for w, g in zip(points, gradients, strict=True):
        assert g == pytest.approx(gradient_sum(data, slice(0, 3000), w) / 3000, abs=1e-10)


def test_sums_on_the_lattice_are_exact_in_every_order() -> None:
    """The order of the records changes no bit of the result, and one record moves it by its own integer alone."""
    rng = np.random.default_rng(4)
    n = 50_000  # several blocks
    problem = Problem(Logistic(), n=n, d=2, row_norm=1.0)
    X, y, order = rng.normal(size=(n, 2)), np.sign(rng.normal(size=n)), rng.permutation(n)
    points = rng.normal(size=(3, 2))
    gradients = lattice_mean_gradients(inputs.of_arrays(X, y, problem), points, lambda: None)
    reordered_gradients = lattice_mean_gradients(inputs.of_arrays(X[order], y[order], problem), points, lambda: None)
    assert np.array_equal(gradients, reordered_gradients)
    assert lattice_error(problem) < 1e-8


def test_a_minimizer_beyond_the_edge_is_at_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """All gradients point out of the corner: its score is 0, though the gradient there is not."""
    problem = Problem(Logistic(), domain=LinfBall(0.5), n=40, d=2, row_norm=2.0)
    scores, _, point = scored(monkeypatch, InverseSensitivity(grid=7), problem, np.ones((40, 2)), np.ones(40))
    assert list(point) == [0.5, 0.5]
    assert scores.min() == 0
    assert np.sum(scores == 0) == 1


def test_a_strong_l1_makes_zero_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """|grad F(0)| < lambda: the least subgradient of F + r at 0 is 0, and no other point's is."""
    rng = np.random.default_rng(1)
    problem = Problem(Logistic(), L1(0.9), LinfBall(1.0), n=50, d=2, row_norm=1.0)
    X, y = rng.normal(size=(50, 2)), np.sign(rng.normal(size=50))
    scores, _, point = scored(monkeypatch, InverseSensitivity(grid=9), problem, X, y)
    assert list(point) == [0.0, 0.0]
    assert scores.min() == 0
    assert np.sum(scores < 1) == 1


def test_inner_points_are_scored_by_their_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    problem = Problem(Logistic(), domain=L2Ball(1.0), n=60, d=2, row_norm=1.0)
    X, y = rng.normal(size=(60, 2)), np.sign(rng.normal(size=60))
    scores, _, _ = scored(monkeypatch, InverseSensitivity(grid=5), problem, X, y)
    data = inputs.of_arrays(X, y, problem)
    gradient = gradient_sum(data, slice(0, 60), np.zeros(2))
    assert scores[12] == pytest.approx(float(np.linalg.norm(gradient)) / (2 * problem.G), rel=1e-6)


@pytest.mark.slow
def test_more_records_mean_less_error() -> None:
    rng, errors = np.random.default_rng(5), []
    for n in (101, 4_001):
        y = rng.normal(0.3, 0.2, n).clip(-1, 1)
        problem = Problem(Absolute(), domain=LinfBall(1.0), n=n, d=1, row_norm=1.0)
        released = [
            solve(InverseSensitivity(grid=2048), problem, *column(problem, y), Privacy(1.0)).coefficients[0]
            for _ in range(5)
        ]
        errors.append(float(np.abs(np.array(released) - np.median(y)).mean()))
    assert errors[1] < 2e-3
    assert errors[1] < errors[0] < 0.3


def test_the_release_is_one_choice_at_delta_zero() -> None:
    rng = np.random.default_rng(6)
    problem = Problem(Logistic(), L2(0.01), LinfBall(2.0), n=500, d=2, row_norm=1.0)
    X = rng.normal(size=(500, 2))
    release = solve(InverseSensitivity(grid=21), problem, X, np.sign(X @ [1.0, -0.5]), Privacy(2.0))
    assert release.event["type"] == "ExponentialMechanismDpEvent"
    assert (release.accountant, release.delta) == ("pure", 0.0)
    assert release.epsilon <= 2.0
    assert set(release.coefficients) <= set(np.linspace(-2, 2, 21))  # a public list, to the last bit
    assert release.gradient_evaluations == 21**2 * 500


def test_the_default_grid_is_a_function_of_public_facts() -> None:
    def size(n: int, d: int) -> int | None:
        problem = Problem(Logistic(), domain=LinfBall(1.0), n=n, d=d, row_norm=1.0)
        return InverseSensitivity().resolve(problem, Privacy(1.0)).grid

    assert [size(1000, d) for d in (1, 2, 3)] == [4096, 64, 16]
    assert size(2_000_000, 1) == 1000
    assert size(10**9, 3) == 8


@pytest.mark.parametrize(
    ("problem", "grid", "why"),
    [
        (Problem(Logistic(), domain=LinfBall(1.0), n=50, d=4, row_norm=1.0), None, "at most 3"),
        (Problem(Logistic(), domain=Free(), n=50, d=2, row_norm=1.0), None, "bounded"),
        (Problem(Sigmoid(), domain=LinfBall(1.0), n=50, d=2, row_norm=1.0), None, "convex"),
        (Problem(Logistic(), domain=LinfBall(1.0), n=50, d=3, row_norm=1.0), 65, "262144 points"),
        (Problem(Logistic(), domain=LinfBall(1.0), n=10**9, d=1, row_norm=1.0), 200_000, "too fine"),
    ],
)
def test_refusals_name_the_reason(problem: Problem, grid: int | None, why: str) -> None:
    with pytest.raises(Unsuitable, match=why):
        plan(InverseSensitivity(grid=grid), problem, Privacy(1.0))


def worked(problem: Problem, grid: int, X: Array, y: Array) -> Counter[tuple[str, int]]:
    """What a run does, draws and all."""
    quote = plan(InverseSensitivity(grid=grid), problem, Privacy(1.0))
    data, noise = inputs.of_arrays(X, y, problem), Noise(ScriptedBits([5, 6, 1 << 63]))
    return operations(lambda: quote.method.answer(DataOracles(data, quote.release.plan, noise)))


@pytest.mark.slow
@pytest.mark.parametrize("domain", [L2Ball(0.5), LinfBall(0.5), L1Ball(0.5), Simplex()], ids=lambda c: c.name)
@pytest.mark.parametrize("regularizer", [NoRegularizer(), L1(0.3)], ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 2])
def test_one_record_does_not_change_the_work(domain: Domain, regularizer: Regularizer, d: int) -> None:
    """Rows of zeros make all scores equal. One other row makes all of them differ and moves steps across the edge of C.

    The weights once took one exponential for each distinct score, so their time revealed the record.
    """
    if isinstance(domain, Simplex):
        d += 1
    problem, grid = Problem(Squared(), regularizer, domain, n=6, d=d, row_norm=1.0), (12, 5, 4)[d - 1]
    zeros, y = np.zeros((6, d)), np.full(6, 1.0)
    one_row = zeros.copy()
    one_row[2] = np.linspace(1, 0.4, d)
    worked(problem, grid, zeros, y)  # fills what is computed once in a process
    first = worked(problem, grid, zeros, y)
    assert sum(first.values()) > 1000
    for X, targets in ((one_row, y), (one_row, -y), (-one_row, y / 3)):
        assert worked(problem, grid, X, targets) == first


def test_slopes_are_limited_before_they_are_rounded_to_the_lattice_that_is_named() -> None:
    """Of four records, each G or eight units, by a partition that would not choose this lattice itself."""
    problem = Problem(Logistic(), n=4, d=1, row_norm=1.0, slope_limit=0.1)
    data = inputs.of_arrays(np.ones((4, 1)), np.ones(4), problem)
    assert data.total(Rounded(np.zeros((1, 1)), 3)).tolist() == [[-32]]
