"""Rows in a released frame, which are never stored. Every reader sees the same rows, within each record's bound."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.bounds import gradient_bound, gradient_error, sampled_bound
from solvers.columns import Columns
from solvers.data_access import data as reading
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.frames import framed
from solvers.data_access.lattice_sums import lattice_mean_gradients
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Logistic, Loss, Softmax, Squared
from solvers.problem import Problem
from tests.support.batches import own_batches
from tests.support.coded_rows import targets, unfolded
from tests.support.runs import access_to
from tests.support.seeded import SeededBits
from tests.support.walks import answers_far_from_the_anchor

Floats = NDArray[np.float64]
COLUMNS = Columns((1, 3, 1, 300, 2))
N, D, R = 300, COLUMNS.d, 0.8
RATE = 3.0 / N


def frame(seed: int = 3, scale: float = 1.0) -> Frame:
    rng = np.random.default_rng(seed)
    center = np.where(COLUMNS.is_number, rng.uniform(-1, 1, D - 1), rng.uniform(0, 1, D - 1) / 3)
    return Frame(center, rng.uniform(0.1, 2, D - 1) * scale, 0.4)


def problem(loss: Loss, n: int = N) -> Problem:
    return Problem(loss, n=n, d=D, row_norm=COLUMNS.row_norm, columns=COLUMNS)


def pair(loss: Loss, used: Frame, n: int = N) -> tuple[Data, Data]:
    """The data in the frame, and the same rows written out."""
    X, y = unfolded(n, COLUMNS), targets(loss, n)
    implicit = framed(inputs.of_arrays(X, y, problem(loss, n)), used, R)
    Z = np.column_stack(((X[:, :-1] - used.center) * used.scale, np.full(n, used.constant)))
    return implicit, inputs.of_arrays(Z, y, replace(implicit.problem, columns=None))


def error(data: Data, w: Floats) -> float:
    return gradient_error(data.problem, data.problem.n, float(np.linalg.norm(w)))


@pytest.mark.parametrize("loss", [Logistic(), Squared(0.5), Softmax(3)], ids=repr)
def test_the_rows_and_their_sums_are_those_written_out(loss: Loss) -> None:
    implicit, explicit = pair(loss, frame())
    assert implicit.problem.row_norm == R
    assert 1 < implicit.problem.stretch < 100
    assert np.allclose(rows_of(implicit), rows_of(explicit), rtol=0, atol=1e-14)
    assert np.linalg.norm(rows_of(implicit), axis=1).max() <= R * (1 + 1e-13)
    w, rng = np.random.default_rng(1).standard_normal(implicit.problem.size), np.random.default_rng(2)
    anchor, places = w + 0.01, rng.permutation(N)[:91]
    limit = 0.1
    for rows in (slice(0, N), slice(7, 200), places):
        for arguments in ((w,), (w, anchor, limit)):
            implicit_sum, explicit_sum = (gradient_sum(data, rows, *arguments) for data in (implicit, explicit))
            assert np.linalg.norm(implicit_sum - explicit_sum) <= 2 * N * 2 * error(implicit, w)
    assert np.linalg.norm(gradient_sum(implicit, slice(0, N), w)) > 0.1


def test_readers_that_unfold_see_the_same_rows() -> None:
    implicit, explicit = pair(Squared(0.5), frame())
    accesses = [access_to(data) for data in (implicit, explicit)]
    w = np.random.default_rng(1).standard_normal(D)
    implicit_value, explicit_value = (access.one_pass(range(3, 250), w, 0.3) for access in accesses)
    assert np.allclose(implicit_value, explicit_value, rtol=0, atol=1e-11)
    for implicit_value, explicit_value in zip(*(access.moments(0.5) for access in accesses), strict=True):
        assert np.allclose(implicit_value, explicit_value, rtol=0, atol=1e-12)
    implicit_value, explicit_value = (access.mean_gradient(range(5, 99), w) for access in accesses)
    assert np.allclose(implicit_value, explicit_value, rtol=0, atol=1e-12)
    implicit_value, explicit_value = (
        lattice_mean_gradients(data, w[None], lambda: None) for data in (implicit, explicit)
    )
    # The tolerance is a lattice's step, by which sums differ if a rounding crosses the middle of two points.
    assert np.allclose(implicit_value, explicit_value, rtol=0, atol=1e-7)
    drawn = np.random.default_rng(4).integers(0, N, N)
    assert np.array_equal(rows_of(implicit.drawn(drawn)), rows_of(implicit, drawn))


def test_a_walk_in_a_frame_has_the_points_of_single_answers() -> None:
    implicit, _ = pair(Logistic(), frame())
    anchor = np.full(D, 0.1)
    with own_batches():
        answers_far_from_the_anchor(implicit, 0.4, anchor, anchor, np.linspace(-0.2, 0.2, D), 60)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("constant", [1e-6, 0.4, 1e3])
def test_answers_of_neighbors_are_as_close_as_the_bound_states(scale: float, constant: float) -> None:
    """Replace one record, and compare computed sums where centring cancels all terms."""
    used = replace(frame(scale=scale), constant=constant)
    rng, n = np.random.default_rng(9), 2000
    X, replacement = unfolded(n, COLUMNS), unfolded(1, COLUMNS, seed=11)
    X[:, COLUMNS.is_number.nonzero()[0]] = used.center[COLUMNS.is_number] + rng.uniform(-1e-9, 1e-9, (n, 2))
    np.clip(X, -1, 1, out=X)
    changed = X.copy()
    changed[n // 2] = replacement
    w, y = rng.standard_normal(D), targets(Logistic(), n)
    data, neighbor = (framed(inputs.of_arrays(rows, y, problem(Logistic(), n)), used, R) for rows in (X, changed))
    assert data.problem == neighbor.problem
    gap = np.linalg.norm((gradient_sum(data, slice(0, n), w) - gradient_sum(neighbor, slice(0, n), w)) / n)
    assert gap <= 2 * gradient_bound(data.problem)
    places = np.arange(n)
    gap = np.linalg.norm((gradient_sum(data, places, w) - gradient_sum(neighbor, places, w)) / 10)
    assert gap <= 2 * sampled_bound(data.problem, 10, data.problem.G)
    assert not (rows_of(data)[: n // 2] - rows_of(neighbor)[: n // 2]).any()


def test_a_record_adds_no_more_than_its_bound_wherever_it_lies() -> None:
    """The targets and the point push every slope to its limit."""
    used = frame(scale=30.0)
    X, y = unfolded(500, COLUMNS), np.where(np.arange(500) % 2, 1.0, -1.0)
    data = framed(inputs.of_arrays(X, y, problem(Logistic(), 500)), used, R)
    w = -1e6 * (rows_of(data) * y[:, None]).mean(axis=0)
    for i in range(500):
        gradient = gradient_sum(data, slice(i, i + 1), w)
        assert np.linalg.norm(gradient) <= 500 * gradient_bound(data.problem)


def test_noise_follows_the_stretch() -> None:
    implicit, _ = pair(Logistic(), frame(scale=1e9))
    assert implicit.problem.stretch > 1e6
    plain = replace(implicit.problem, stretch=1.0)
    assert gradient_bound(implicit.problem) > gradient_bound(plain) * (1 + 1e-12)
    oracle = SampledOracle(
        implicit.problem, implicit, Plan((PlannedQuery("full", 1, Gaussian(), 1.0),)), Noise(SeededBits(1))
    )
    assert np.isfinite(oracle.gradient("full", np.zeros(D))).all()


def test_a_frame_is_for_declared_columns_and_taken_once() -> None:
    implicit, explicit = pair(Logistic(), frame())
    for data in (implicit, explicit):
        with pytest.raises(Unsuitable, match="declared columns"):
            framed(data, frame(), R)
    with pytest.raises(Unsuitable, match="columns"):
        StandardisedOracle(implicit.problem, implicit, Plan(()), Noise(SeededBits(1)))
    data = inputs.of_arrays(unfolded(N, COLUMNS), targets(Logistic(), N), problem(Logistic()))
    good = frame()
    for wrong in (
        replace(good, constant=0.0),
        replace(good, constant=math.nan),
        replace(good, scale=good.scale * 0),
        replace(good, scale=good.scale * 1e30),
        replace(good, center=good.center + 5),
        replace(good, center=good.center[1:]),
    ):
        with pytest.raises(Unsuitable):
            framed(data, wrong, R)


def test_later_changes_by_the_caller_change_no_row() -> None:
    used = frame()
    data = framed(inputs.of_arrays(unfolded(N, COLUMNS), targets(Logistic(), N), problem(Logistic())), used, R)
    original = rows_of(data)
    used.center[:], used.scale[:] = 1.0, 1e20
    assert np.array_equal(rows_of(data), original)


def test_an_intercept_alone_has_a_frame_too() -> None:
    alone = Problem(Logistic(), n=3, d=1, row_norm=1.0, columns=Columns(()))
    data = framed(inputs.of_arrays(np.ones((3, 1)), np.ones(3), alone), Frame(np.empty(0), np.empty(0), 0.3), 1.0)
    assert rows_of(data).tolist() == [[0.3]] * 3
    assert gradient_sum(data, slice(0, 3), np.zeros(1)) == pytest.approx([-0.45])


@pytest.mark.parametrize("rows", [slice(0, N), "places"], ids=str)
def test_two_threads_give_the_sums_of_one_to_the_last_bit(rows: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are added in order, whichever thread sums them."""
    implicit, _ = pair(Logistic(), frame())
    places = rows if isinstance(rows, slice) else np.arange(0, N, 1)
    monkeypatch.setattr(reading, "piece_rows", lambda *_: 16)
    w = np.random.default_rng(1).standard_normal(D)
    totals = []
    for many in (1, 10**9):
        monkeypatch.setattr(reading, "LEAST_PIECES_FOR_THREADS", many)
        totals.append(gradient_sum(implicit, places, w))
    assert len(reading.pieces(places, 16)) > 8
    np.testing.assert_array_equal(totals[0], totals[1])


def test_a_child_of_a_fork_has_threads_of_its_own() -> None:
    assert reading.thread_pool(1) is not reading.thread_pool(2)
