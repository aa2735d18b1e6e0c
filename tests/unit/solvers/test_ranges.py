"""Numbers in declared ranges within [-1, 1]: distances, bounds of the oracle, and rows beyond the ranges."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, moment_bounds, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.losses import Logistic
from solvers.methods import DpGd
from tests.support.coupled import complaints
from tests.support.noiseless import ExactAnswer, noiseless

Vector = NDArray[np.float64]
PLAIN = Columns((1, 3, 1))
RANGED = Columns((1, 3, 1), ((0.0, 1.0), (-0.25, 0.5)))
N = 60


def problem(columns: Columns) -> Problem:
    return Problem(Logistic(), n=N, d=columns.d, row_norm=columns.row_norm, columns=columns)


def rows() -> Vector:
    rng = np.random.default_rng(1)
    first, second = rng.uniform(0, 1, N), rng.uniform(-0.25, 0.5, N)
    return np.column_stack((first, np.eye(3)[rng.integers(3, size=N)], second, np.ones(N)))


def test_distances_follow_from_the_ranges() -> None:
    assert pytest.approx(math.sqrt(4 + 2 + 4)) == moment_bounds.diameter(PLAIN)
    assert pytest.approx(math.sqrt(1 + 2 + 0.75**2)) == moment_bounds.diameter(RANGED)
    center = np.array([0.75, 0.3, 0.3, 0.4, 0.0])
    assert moment_bounds.farthest(PLAIN, center) == pytest.approx([1.75**2, 1.0])
    assert moment_bounds.farthest(RANGED, center) == pytest.approx([0.75**2, 0.5**2])
    assert moment_bounds.variances(RANGED, center, 9.0) == pytest.approx(math.hypot(0.75**2, 0.5**2) / 2)
    assert moment_bounds.variances(RANGED, center, 0.1) == pytest.approx(math.sqrt(2) * 0.01 / 2)


@pytest.mark.parametrize(
    "ranges", [((0.0, 1.0),), ((0.1, 1.0), (0.0, 1.0)), ((-1.1, 1.0), (0.0, 1.0)), ((0.0, math.nan), (0.0, 1.0))]
)
def test_a_range_holds_0_and_lies_within_one(ranges: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(Unsuitable):
        Columns((1, 3, 1), ranges)


def test_a_number_beyond_its_range_makes_its_row_the_empty_one() -> None:
    X = rows()
    for at, (column, value) in enumerate(((0, -0.01), (0, 1.01), (4, 0.51), (4, -0.26), (4, math.nan))):
        X[at, column] = value
    data = inputs.of_arrays(X, np.ones(N), problem(RANGED))
    empty = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    assert np.array_equal(rows_of(data)[:5], np.tile(empty, (5, 1)))
    assert np.array_equal(rows_of(data)[5:], X[5:])
    unranged = rows_of(inputs.of_arrays(X[:, :], np.ones(N), problem(PLAIN)))
    assert np.array_equal(unranged[0], X[0])  # in [-1, 1], where that is all that is declared


def test_the_worst_pair_reaches_the_bounds_exactly() -> None:
    low, high = np.array([0.0, 1, 0, 0, -0.25, 1]), np.array([1.0, 0, 1, 0, 0.5, 1])
    center, answers = np.array([0.0, 0.3, 0.3, 0.4, -0.25]), list[ExactAnswer]()
    for first in (low, high):
        X = rows()
        X[0] = first
        planned = Plan(tuple(PlannedQuery(name, 9, Gaussian(), 1.0) for name in ("means", "spread", "variances")))
        oracle = StandardisedOracle(problem(RANGED), inputs.of_arrays(X, np.ones(N), problem(RANGED)), planned, Noise())
        with noiseless() as answers_of_pair:
            oracle.means("means")
            oracle.spread("spread", center)
            oracle.variances("variances", center, 9.0)
        answers += answers_of_pair
    for (answer, bound), (neighbor_answer, neighbor_bound) in zip(answers[:3], answers[3:], strict=True):
        assert bound == neighbor_bound
        assert float(np.linalg.norm(answer - neighbor_answer)) <= 2 * bound
        assert float(np.linalg.norm(answer - neighbor_answer)) == pytest.approx(2 * bound, rel=1e-9)


def test_a_narrower_range_is_less_noise_and_neighbors_keep_within_it() -> None:
    privacy = Privacy(5.0, 1e-6)
    ranged, plain = (plan(DpGd(steps=4), problem(columns), privacy) for columns in (RANGED, PLAIN))
    stds = [dict(zip((q.name for q in p.release.plan.queries), p.noise_stds, strict=True)) for p in (ranged, plain)]
    share = moment_bounds.diameter(RANGED) / moment_bounds.diameter(PLAIN)
    assert stds[0]["means"] == pytest.approx(stds[1]["means"] * share, rel=1e-3)
    assert stds[0]["spread"] < stds[1]["spread"] / 4
    X, far_row = rows(), np.array([1.0, 0, 0, 1, 0.5, 1])
    X[7] = (0.0, 1, 0, 0, -0.25, 1)
    assert complaints(ranged, X, np.sign(X[:, 0] - 0.5), (far_row, -1.0)) == []
    beyond = np.array([-1.0, 0, 0, 1, -1.0, 1])
    assert complaints(ranged, X, np.sign(X[:, 0] - 0.5), (beyond, -1.0)) == []
