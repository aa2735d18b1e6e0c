"""FullBatchOracle and SampledOracle: their answers, their bounds and their refusals."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, Mechanism, PoissonGaussian
from accounting.noise import Noise
from accounting.noise import batches as noises
from accounting.noise.batches import poisson_rows
from accounting.plan import Plan, PlannedQuery
from solvers import Problem
from solvers.bounds import BLOCK, gradient_bound, gradient_error, sampled_bound
from solvers.data_access import inputs
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.losses import Absolute, Hinge, Logistic, Loss, Squared
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]
QUIET = 1e-5  # a noise multiplier at which an answer is its value to five digits
RATE = 0.25


def planned(multiplier: float = QUIET, count: int = 1000) -> Plan:
    full = PlannedQuery("full", count, Gaussian(), multiplier)
    return Plan((full, PlannedQuery("batch", count, PoissonGaussian(RATE), multiplier)))


def sampled_oracle(
    problem: Problem, X: Vector, y: Vector, multiplier: float = QUIET, count: int = 1000, on_answer: Any = None
) -> SampledOracle:
    data = inputs.of_arrays(X, y, problem)
    return SampledOracle(problem, data, planned(multiplier, count), Noise(SeededBits(1)), on_answer)


@pytest.fixture
def rows() -> tuple[Problem, Vector, Vector]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3)) * 2  # some rows longer than R
    return Problem(Logistic(), n=40, d=3, row_norm=2.0), X, np.where(rng.random(40) < 0.4, 1.0, -1.0)


def clipped(problem: Problem, X: Vector) -> Vector:
    return np.asarray(X * np.minimum(1.0, problem.row_norm / np.linalg.norm(X, axis=1))[:, None])


def exact(problem: Problem, X: Vector, y: Vector, w: Vector) -> Vector:
    """Every record's gradient, one row each."""
    rows = clipped(problem, X)
    return np.asarray(problem.loss.slope(rows @ w, y)[:, None] * rows)


class Recorder:
    """Sees what the oracle hands to a mechanism, and hands the value on without noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Vector, float, float]] = []
        for mechanism in (Gaussian, PoissonGaussian):
            monkeypatch.setattr(mechanism, "perturb", self._perturb())

    def _perturb(self) -> Any:
        def perturb(_: Mechanism, value: Vector, multiplier: float, bound: float, noise: Noise) -> Vector:
            assert isinstance(noise, Noise)
            self.calls.append((value.copy(), multiplier, bound))
            return value

        return perturb


def test_the_full_gradient_by_hand() -> None:
    """Squared loss, two rows: (1/2) ((m1 - y1) x1 + clip(m2 - y2) x2)."""
    problem = Problem(Squared(), n=2, d=2, row_norm=5.0)
    X, y, w = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -1.0]), np.array([0.1, 0.2])
    answer = sampled_oracle(problem, X, y).gradient("full", w)  # margins .5, 1.1; slopes 0, clip(2.1) = 1
    assert answer == pytest.approx([1.5, 2.0], rel=1e-3)


def test_a_batch_is_divided_by_its_expected_size(rows: tuple[Problem, Vector, Vector]) -> None:
    problem, X, y = rows
    w, oracle, batches = np.array([0.3, -0.5, 0.2]), sampled_oracle(*rows), Noise(SeededBits(1))
    gradients = exact(problem, X, y, w)
    for _ in range(20):
        batch = poisson_rows(batches, 40, RATE)
        answer = oracle.sampled_gradient("batch", w)
        batches.rounded_gaussian(3, 2.0**24)
        assert answer == pytest.approx(gradients[batch].sum(0) / (RATE * 40), abs=1e-4)


def test_batches_are_fresh_and_the_answer_unbiased(rows: tuple[Problem, Vector, Vector]) -> None:
    problem, X, y = rows
    w, oracle = np.array([0.3, -0.5, 0.2]), sampled_oracle(*rows)
    answers = np.array([oracle.sampled_gradient("batch", w) for _ in range(1000)])
    assert len(np.unique(answers[:, 0].round(4))) > 900
    spread = answers.std(0) / np.sqrt(1000)
    assert np.all(np.abs(answers.mean(0) - exact(problem, X, y, w).mean(0)) < 6 * spread)


def test_an_empty_batch_is_noise_alone() -> None:
    problem = Problem(Squared(), n=1, d=1, row_norm=1.0)
    oracle = sampled_oracle(problem, np.ones((1, 1)), np.full(1, -1.0))
    answers = np.array([oracle.sampled_gradient("batch", np.zeros(1))[0] for _ in range(400)])
    empty = np.abs(answers) < 1
    assert np.all(np.abs(answers[~empty] - 4.0) < 1e-3)  # slope 1, divided by 1 * RATE
    assert np.all(np.abs(answers[empty]) < 10 * QUIET * 4)
    assert 0.6 < empty.mean() < 0.9


@pytest.mark.parametrize("distance", [1e-6, 0.1, 0.5, 1.0, 30.0])
def test_a_change_is_the_clipped_difference(
    rows: tuple[Problem, Vector, Vector], distance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c = min(G, L ||w - anchor||); the norm of every record's difference is clipped at c, and divided by n RATE."""
    problem, X, y = rows
    recorder, batches = Recorder(monkeypatch), Noise(SeededBits(1))
    anchor = np.array([0.3, -0.5, 0.2])
    w = anchor + distance * np.array([2.0, -1.0, 2.0]) / 3
    value = sampled_oracle(*rows).sampled_change("batch", w, anchor)
    change = exact(problem, X, y, w) - exact(problem, X, y, anchor)
    c = min(problem.G, problem.L * distance)
    assert np.linalg.norm(change, axis=1).max() <= max(c, 2 * problem.G * (distance > 1)) * (1 + 1e-9)
    rows_norm = np.linalg.norm(clipped(problem, X), axis=1) / problem.row_norm
    norms = np.linalg.norm(change, axis=1)
    change *= np.minimum(1.0, c * rows_norm / np.maximum(norms, 1e-300))[:, None]
    batch = poisson_rows(batches, 40, RATE)
    assert value == pytest.approx(change[batch].sum(0) / (RATE * 40), abs=1e-12)
    ((_, _, bound),) = recorder.calls
    assert bound == pytest.approx(c / (RATE * 40), rel=1e-6)
    assert bound >= c / (RATE * 40)


def test_bounds_handed_to_the_mechanism(rows: tuple[Problem, Vector, Vector], monkeypatch: pytest.MonkeyPatch) -> None:
    problem, recorder = rows[0], Recorder(monkeypatch)
    oracle, w = sampled_oracle(*rows, multiplier=2.5), np.array([1.0, 2.0, 2.0])
    oracle.gradient("full", w)
    oracle.sampled_gradient("batch", w)
    oracle.sampled_change("batch", w, np.zeros(3))
    bounds = [gradient_bound(problem, 3.0), sampled_bound(problem, 10.0, problem.G, 3.0)]
    # The change is limited by G, because L ||w|| = 3 > G = 2.
    assert [call[1:] for call in recorder.calls] == [(2.5, b) for b in [*bounds, bounds[1]]]
    assert bounds[0] == pytest.approx(problem.G / 40, rel=1e-9)
    assert bounds[0] > problem.G / 40
    assert bounds[1] == pytest.approx(problem.G / 10, rel=1e-9)


@pytest.mark.slow
def test_the_noise_is_the_plans(rows: tuple[Problem, Vector, Vector]) -> None:
    """std = multiplier * bound, within 1e-9 false alarms (chi-square, 3000 draws: 8 % is beyond 6 sigma)."""
    problem, X, y = rows
    w, anchor = np.array([0.3, -0.5, 0.2]), np.array([0.3, -0.5, 0.3])
    oracle = sampled_oracle(problem, X * 0, y, multiplier=7.0)
    for answers, bound in (
        ([oracle.gradient("full", w) for _ in range(1000)], problem.G / 40),
        ([oracle.sampled_gradient("batch", w) for _ in range(500)], problem.G / 10),
        ([oracle.sampled_change("batch", w, anchor) for _ in range(500)], problem.L * 0.1 / 10),
    ):
        assert np.std(answers) == pytest.approx(7.0 * bound, rel=0.12)


def test_at_the_anchor_the_answer_is_zero_without_a_look_and_counts(rows: tuple[Problem, Vector, Vector]) -> None:
    problem, w = rows[0], np.array([0.3, -0.5, 0.2])
    unreadable: Any = SimpleNamespace(problem=problem)
    oracle = SampledOracle(problem, unreadable, planned(), Noise(SeededBits(1)))
    assert oracle.sampled_change("batch", w, w.copy()).tolist() == [0.0, 0.0, 0.0]
    assert oracle.transcript().query("batch").count == 1


def test_past_the_plan_there_is_no_answer(rows: tuple[Problem, Vector, Vector]) -> None:
    oracle, w = sampled_oracle(*rows, count=2), np.zeros(3)
    for _ in range(2):
        oracle.gradient("full", w)
        oracle.sampled_change("batch", w, w)
    for call in (
        lambda: oracle.gradient("full", w),
        lambda: oracle.sampled_gradient("batch", w),
        lambda: oracle.sampled_change("batch", w, w),
        lambda: oracle.gradient("other", w),
    ):
        with pytest.raises(OutOfPlan):
            call()
    fresh = sampled_oracle(*rows)
    for call in (
        lambda: fresh.gradient("batch", w),
        lambda: fresh.sampled_gradient("full", w),
        lambda: fresh.sampled_change("full", w, w),
    ):
        with pytest.raises(OutOfPlan, match="another mechanism"):
            call()
    assert fresh.transcript() == Plan(())


def test_the_transcript_holds_all_answers(rows: tuple[Problem, Vector, Vector]) -> None:
    heard = list[int]()
    oracle = sampled_oracle(*rows, on_answer=heard.append)
    for _ in range(3):
        oracle.gradient("full", np.zeros(3))
    oracle.sampled_gradient("batch", np.zeros(3))
    oracle.sampled_change("batch", np.zeros(3), np.zeros(3))  # which reads no data
    assert [(q.name, q.count) for q in oracle.transcript().queries] == [("full", 3), ("batch", 2)]
    assert heard == [1, 2, 3, 4, 5]
    assert planned().covers(oracle.transcript())


def test_a_callback_that_raises_stops_the_run(rows: tuple[Problem, Vector, Vector]) -> None:
    class Stop(Exception):
        pass

    def stop(_: int) -> None:
        raise Stop

    oracle = sampled_oracle(*rows, on_answer=stop)
    with pytest.raises(Stop):
        oracle.gradient("full", np.zeros(3))
    assert oracle.transcript().query("full").count == 1


@pytest.mark.parametrize("w", [np.full(3, np.nan), np.full(3, np.inf), np.full(3, 1e200), np.zeros(2)], ids=repr)
def test_questions_that_could_overflow_are_refused_and_not_counted(
    rows: tuple[Problem, Vector, Vector], w: Vector
) -> None:
    oracle = sampled_oracle(*rows)
    for call in (
        lambda: oracle.gradient("full", w),
        lambda: oracle.sampled_gradient("batch", w),
        lambda: oracle.sampled_change("batch", np.zeros(3), w),
    ):
        with pytest.raises(Unsuitable):
            call()
    assert oracle.transcript() == Plan(())


@pytest.mark.parametrize("d", [7, 40])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e8, 1e90])
def test_computed_sums_are_within_the_granted_error(scale: float, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with extended precision, over more than one block (docs/proofs/oracle.md)."""
    recorder, rng, n = Recorder(monkeypatch), np.random.default_rng(8), BLOCK + 500
    problem = Problem(Logistic(), n=n, d=d, row_norm=1.5)
    X = rng.standard_normal((n, d))
    y, w = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.standard_normal(d) * scale
    value = sampled_oracle(problem, X, y).gradient("full", w)
    data = inputs.of_arrays(X, y, problem)
    wide = rows_of(data).astype(np.longdouble)
    with np.errstate(over="ignore"):
        slopes = -data.y / (1 + np.exp(np.longdouble(data.y) * (wide @ w.astype(np.longdouble))))
    true = (slopes[:, None] * wide).sum(0) / n
    tolerance = gradient_error(problem, n, float(np.linalg.norm(w)))
    assert float(np.linalg.norm((value - true).astype(np.float64))) <= tolerance
    assert tolerance <= 2.01 * problem.G
    assert recorder.calls[0][2] == gradient_bound(problem)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Absolute()], ids=repr)
def test_replacing_a_record_at_a_kink_moves_no_other_records_slope(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record moves the sum by at most 2b although all rows sit on the kink, where a margin's last bit decides.

    Compare sums with a record, without it and with a new one, in a batch and over all rows. The record's presence
    shifts all others to new places, blocks and vector lanes.
    """
    recorder, rng, n, d = Recorder(monkeypatch), np.random.default_rng(3), 5000, 54
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    y = np.ones(n)
    X *= (y / (X @ w))[:, None]  # margins are 1 but for rounding: the kink of hinge, and of absolute at y = 1
    problem = Problem(loss, n=n, d=d, row_norm=float(np.linalg.norm(X, axis=1).max()) * 1.01)
    neighbor = X.copy()
    neighbor[1234] *= -1
    answers = [sampled_oracle(problem, rows, y).gradient("full", w) for rows in (X, neighbor)]
    assert np.linalg.norm(answers[0] - answers[1]) <= 2 * recorder.calls[0][2]
    everyone = np.arange(n)
    sums = []
    for rows, places in ((X, everyone), (neighbor, everyone), (X, np.delete(everyone, 1234)), (X, rng.permutation(n))):
        monkeypatch.setattr(noises, "poisson_rows", lambda *_, places=places: places)
        sums.append(sampled_oracle(problem, rows, y).sampled_gradient("batch", w))
    bound = recorder.calls[-1][2]
    assert bound == pytest.approx(problem.G / (RATE * n), rel=1e-6)
    assert np.linalg.norm(sums[0] - sums[2]) <= bound
    assert np.linalg.norm(sums[1] - sums[2]) <= bound
    assert np.linalg.norm(sums[0] - sums[3]) <= bound - problem.G / (RATE * n)  # another order: rounding alone


def test_the_granted_error_is_small_where_it_should_be() -> None:
    problem = Problem(Logistic(), n=200_000, d=54, row_norm=1.0)
    assert gradient_bound(problem, 10.0) * problem.n / problem.G - 1 < 1e-6
    assert sampled_bound(problem, 1000.0, problem.G, 10.0) * 1000 / problem.G - 1 < 2e-6
    large = Problem(Logistic(), n=10**8, d=54, row_norm=1.0)
    assert gradient_bound(large, 10.0) * large.n / large.G - 1 < 1e-3
