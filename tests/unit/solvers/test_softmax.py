"""Softmax, compared with its own claims as the other losses in `test_losses.py`, and the oracle's sums over it."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from accounting import Privacy
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, domains, methods, plan, regularizers, solve
from solvers.bounds import block_rows, gradient_bound, sampled_bound
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.sums import clip
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax
from solvers.methods import AdaSsp, Method, ObjectivePerturbation, OutputPerturbation
from tests.support.noiseless import noiseless
from tests.support.seeded import SeededBits

Floats = NDArray[np.float64]
CLASSES = [2, 3, 7]


def slope(loss: Softmax, margin: Floats, y: int) -> Floats:
    """Of one record."""
    return loss.slope(margin[:, None], np.array([float(y)]))[:, 0]


def jacobian(loss: Softmax, margin: Floats, step: float = 1e-5) -> Floats:
    """Of the slope, by central differences; that it does not depend on y is `test_the_slopes_of_two_classes_differ`."""
    moved = step * np.eye(loss.outputs)
    return np.stack([(slope(loss, margin + e, 0) - slope(loss, margin - e, 0)) / (2 * step) for e in moved])


@pytest.mark.parametrize("classes", CLASSES)
class TestEveryNumberOfClasses:
    def test_its_slope_is_its_derivative(self, classes: int) -> None:
        loss, rng, step = Softmax(classes), np.random.default_rng(1), 1e-6
        margin, y = rng.standard_normal((classes, 500)) * 3, rng.integers(0, classes, 500).astype(float)
        slopes = loss.slope(margin, y)
        for k in range(classes):
            moved = step * np.eye(classes)[:, [k]]
            numeric = (loss.value(margin + moved, y) - loss.value(margin - moved, y)) / (2 * step)
            np.testing.assert_allclose(slopes[k], numeric, atol=2e-8, rtol=0)

    def test_its_slope_bound_is_the_longest_slope(self, classes: int) -> None:
        """Ascent from random margins never exceeds sqrt(2) and comes arbitrarily near it."""
        loss, rng, norms = Softmax(classes), np.random.default_rng(2), []
        for _ in range(5):
            ascent = minimize(lambda m: -float(np.linalg.norm(slope(loss, m, 0))), rng.standard_normal(classes))
            norms.append(-float(ascent.fun))
        distant = loss.slope(rng.standard_normal((classes, 2000)) * 1e3, np.zeros(2000))
        norms.append(float(np.linalg.norm(distant, axis=0).max()))
        assert max(norms) <= loss.slope_bound * (1 + 1e-13)  # K exponentials, their sum and a norm: 4 K roundings
        assert max(norms) >= loss.slope_bound * (1 - 1e-3)

    @pytest.mark.slow
    def test_its_curvature_bound_is_the_largest_rate_of_the_slope(self, classes: int) -> None:
        """By ascent over margins and directions; the largest is where two classes share all probability."""
        loss, rng, rates = Softmax(classes), np.random.default_rng(3), []

        def rate(margin: Floats) -> float:
            return -float(np.linalg.eigvalsh(jacobian(loss, margin)).max())

        for _ in range(3):
            ascent = minimize(rate, rng.standard_normal(classes) * 3, method="Nelder-Mead", options={"maxiter": 4000})
            rates.append(-float(ascent.fun))
        assert loss.curvature_bound * (1 - 1e-3) <= max(rates) <= loss.curvature_bound * (1 + 1e-8)

    def test_slopes_move_no_faster_than_the_curvature_bound_however_far(self, classes: int) -> None:
        loss, rng = Softmax(classes), np.random.default_rng(4)
        for scale in (1e-3, 1.0, 30.0):
            a, b = rng.standard_normal((2, classes, 5000)) * scale
            moved = np.linalg.norm(loss.slope(a, np.zeros(5000)) - loss.slope(b, np.zeros(5000)), axis=0)
            assert (moved <= 0.5 * np.linalg.norm(a - b, axis=0) * (1 + 1e-9) + 1e-13).all()

    def test_it_is_convex(self, classes: int) -> None:
        loss, rng = Softmax(classes), np.random.default_rng(5)
        for _ in range(50):
            assert np.linalg.eigvalsh(jacobian(loss, rng.standard_normal(classes) * 3)).min() >= -1e-9
        assert loss.is_convex

    def test_the_slopes_of_two_classes_differ_by_a_constant(self, classes: int) -> None:
        loss, margin = Softmax(classes), np.random.default_rng(6).standard_normal((classes, 100))
        moved = loss.slope(margin, np.zeros(100)) - loss.slope(margin, np.ones(100))
        expected = np.zeros((classes, 1))
        expected[:2, 0] = -1.0, 1.0
        np.testing.assert_allclose(moved, np.broadcast_to(expected, moved.shape), atol=1e-14)

    def test_every_target_is_mapped_to_a_class(self, classes: int) -> None:
        odd = np.array([0.0, classes - 1, classes, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e300, 5e-324, -0.0])
        mapped = Softmax(classes).targets(odd)
        assert mapped.tolist() == [0.0, classes - 1] + [0.0] * 9
        assert Softmax(classes).slope(np.zeros((classes, 11)), mapped).sum(axis=0) == pytest.approx(0, abs=1e-13)

    def test_far_margins_have_finite_slopes_and_values(self, classes: int) -> None:
        margin = np.random.default_rng(7).standard_normal((classes, 100)) * np.logspace(0, 200, 100)
        y = np.arange(100.0) % classes
        loss = Softmax(classes)
        assert np.isfinite(loss.slope(margin, y)).all()
        assert np.isfinite(loss.value(margin, y)).all()
        assert (np.linalg.norm(loss.slope(margin, y), axis=0) <= math.sqrt(2)).all()

    def test_a_slope_is_within_the_rounding_that_the_oracle_grants(self, classes: int) -> None:
        """9 + 1.75 K units of 2^-53 in l2, docs/proofs/oracle.md; at margins near and far."""
        rng = np.random.default_rng(8)
        margin = rng.standard_normal((classes, 600)) * np.repeat([0.1, 3.0, 50.0, 1e6], 150)
        slopes, worst = Softmax(classes).slope(margin, np.zeros(600)), mpmath.mpf(0)
        with mpmath.workdps(60):
            for j in range(600):
                weights = [mpmath.exp(mpmath.mpf(m)) for m in margin[:, j].tolist()]
                total = mpmath.fsum(weights)
                true = [weight / total - (k == 0) for k, weight in enumerate(weights)]
                off = [mpmath.mpf(s) - t for s, t in zip(slopes[:, j].tolist(), true, strict=True)]
                worst = max(worst, mpmath.sqrt(mpmath.fsum(e * e for e in off)))
        assert worst < (9 + 1.75 * classes) * 2.0**-53


def test_exp_is_within_the_rounding_that_the_oracle_grants() -> None:
    """4 units of 2^-53, docs/proofs/oracle.md; alone and in a row, where NumPy computes several at once."""
    x = np.concatenate([np.linspace(-700, 0, 1501), np.linspace(-3, 0, 1500)])
    with mpmath.workdps(40):
        true = [mpmath.exp(mpmath.mpf(at)) for at in x.tolist()]
        worst = max(abs(mpmath.mpf(value) / t - 1) for value, t in zip(np.exp(x).tolist(), true, strict=True))
        alone = max(abs(mpmath.mpf(float(np.exp(at))) / t - 1) for at, t in zip(x[::10], true[::10], strict=True))
    assert max(worst, alone) < 4 * 2.0**-53


def test_of_two_classes_it_is_the_logistic_loss_of_the_difference() -> None:
    m = np.linspace(-30.0, 30.0, 101)
    two, y = Softmax(2), np.where(np.arange(101) % 2, 1.0, -1.0)
    margins, classes = np.stack([np.zeros(101), m]), (y + 1) / 2
    np.testing.assert_allclose(two.value(margins, classes), Logistic().value(m, y), atol=1e-12)
    np.testing.assert_allclose(two.slope(margins, classes)[1], Logistic().slope(m, y), atol=1e-14)


@pytest.mark.parametrize("classes", [0, 1, -3, 2.0, True, "3", 2**16 + 1])
def test_an_invalid_number_of_classes_is_refused(classes: Any) -> None:
    with pytest.raises(ValueError, match="classes"):
        Softmax(classes)


def test_a_problem_needs_the_number_of_classes_and_room_for_all() -> None:
    with pytest.raises(Unsuitable, match="classes"):
        Problem(Softmax(), n=10, d=2, row_norm=1.0)
    with pytest.raises(Unsuitable, match="classes"):
        Problem(Softmax(1001), n=10, d=1000, row_norm=1.0)


def test_clipping_cuts_the_length_of_each_column_and_leaves_the_others() -> None:
    slopes = np.array([[3.0, 0.3, 0.0, -6e-5], [4.0, 0.4, 0.0, 8e-5]])
    cut = clip(slopes.copy(), 1.0)
    np.testing.assert_allclose(cut, [[0.6, 0.3, 0.0, -6e-5], [0.8, 0.4, 0.0, 8e-5]], rtol=1e-14)
    np.testing.assert_array_equal(cut[:, 1:], slopes[:, 1:])
    tiny = clip(slopes.copy(), 5e-324)
    assert np.isfinite(tiny).all()
    assert (np.abs(tiny) <= 5e-324).all()


def oracle_of(data: Data) -> SampledOracle:
    queries = (PlannedQuery("full", 9, Gaussian(), 1.0), PlannedQuery("batch", 9, PoissonGaussian(1.0), 1.0))
    return SampledOracle(data.problem, data, Plan(queries), Noise(SeededBits(1)))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "classes"), [(5, 3), (2, 40)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e8, 1e90])
def test_computed_sums_are_within_the_granted_error(scale: float, d: int, classes: int) -> None:
    """Compare with extended precision, over more than one block (docs/proofs/oracle.md)."""
    rng, n = np.random.default_rng(8), block_rows(Problem(Softmax(classes), n=1, d=d, row_norm=1.5)) + 500
    problem = Problem(Softmax(classes), n=n, d=d, row_norm=1.5)
    X, y = rng.standard_normal((n, d)), rng.integers(0, classes, n).astype(float)
    w = rng.standard_normal(problem.size) * scale
    anchor = w + rng.standard_normal(problem.size) * (0.1 if scale <= 1e8 else scale)
    data = inputs.of_arrays(X, y, problem)
    wide = X.astype(np.longdouble) * data.scale[:, None]

    def slopes(at: Floats) -> NDArray[np.longdouble]:
        margins = wide @ at.reshape(classes, d).astype(np.longdouble).T
        weights = np.exp(margins - margins.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        weights[np.arange(n), y.astype(int)] -= 1
        return np.asarray(weights)

    def gap(value: Floats, true: NDArray[np.longdouble]) -> float:
        return float(np.linalg.norm(value - (true.T @ wide / n).ravel().astype(np.float64)))

    norm, change = float(np.linalg.norm(w)), float(np.linalg.norm(w - anchor))
    tolerance = gradient_bound(problem, norm) - problem.G / n
    # The tolerance is that of two answers, so each answer has half of it.
    with noiseless() as answers:
        oracle = oracle_of(data)
        oracle.gradient("full", w)
        oracle.sampled_gradient("batch", w)
        oracle.sampled_change("batch", w, anchor)
    full, batch, moved = answers
    assert gap(full.value, slopes(w)) <= tolerance / 2 <= 2.01 * problem.G
    assert full.bound == tolerance + problem.G / n
    assert gap(batch.value, slopes(w)) <= tolerance  # at rate 1, of all records
    assert batch.bound == pytest.approx(sampled_bound(problem, n, problem.G, norm), rel=1e-12)
    limit = min(problem.G, problem.L * change)
    true = slopes(w) - slopes(anchor)
    true *= np.minimum(1, limit / problem.row_norm / np.maximum(np.linalg.norm(true.astype(float), axis=1), 1e-300))[
        :, None
    ]
    reach = norm + float(np.linalg.norm(anchor))
    assert gap(moved.value, true) <= sampled_bound(problem, n, limit, reach)
    # BLAS takes the norms in an order of its own
    assert moved.bound == pytest.approx(sampled_bound(problem, n, limit, reach), rel=1e-12)


def test_the_granted_error_is_small_where_it_should_be() -> None:
    problem = Problem(Softmax(10), n=200_000, d=54, row_norm=1.0)
    assert gradient_bound(problem, 10.0) * problem.n / problem.G - 1 < 1e-6


def test_a_change_is_clipped_nowhere_as_long_as_the_safeguard_holds() -> None:
    problem, rng = Problem(Softmax(4), n=50, d=3, row_norm=1.0), np.random.default_rng(10)
    X, y = rng.standard_normal((50, 3)), rng.integers(0, 4, 50).astype(float)
    w = rng.standard_normal(12)
    anchor = w + 0.3 * rng.standard_normal(12)
    oracle = oracle_of(inputs.of_arrays(X, y, problem))
    with noiseless():
        apart = oracle.gradient("full", w) - oracle.gradient("full", anchor)
        np.testing.assert_allclose(oracle.sampled_change("batch", w, anchor), apart, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        methods.DpGd(),
        methods.DpAccMd(),
        methods.DpSvrg(epochs=4, inner_steps=100),
        methods.DpSvrgPp(),
        methods.NoisySgd(),
    ],
    ids=lambda method: method.name,
)
def test_every_method_learns_five_classes(method: Method) -> None:
    """Five equal sectors of the plane, at a promise loose enough that noise is no excuse."""
    rng, n = np.random.default_rng(11), 1500
    X = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
    turns = 2 * np.pi * np.arange(5) / 5
    y = (np.column_stack([np.cos(turns), np.sin(turns), np.zeros(5)]) @ X.T).argmax(axis=0).astype(float)
    problem = Problem(Softmax(5), regularizers.L2(1e-4), domains.L2Ball(60.0), n=n, d=3, row_norm=2.0)
    release = solve(method, problem, X, y, Privacy(20.0, 1e-5))
    guess = (release.coefficients.reshape(problem.shape) @ X.T).argmax(axis=0)
    assert float(np.mean(guess == y)) > 0.9


def test_methods_that_see_the_data_release_every_coordinate() -> None:
    """Output perturbation at a promise loose enough to be near the minimizer."""
    rng, n = np.random.default_rng(12), 3000
    X, y = rng.uniform(-1, 1, (n, 2)), rng.integers(0, 3, n).astype(float)
    problem = Problem(Softmax(3), regularizers.L2(0.1), n=n, d=2, row_norm=1.5)
    method, privacy = OutputPerturbation(), Privacy(50.0, 1e-3)
    [std] = plan(method, problem, privacy).noise_stds
    w = solve(method, problem, X, y, privacy).coefficients
    exact = minimize(
        lambda v: problem.loss.value(v.reshape(3, 2) @ X.T, y).mean() + 0.05 * v @ v, np.zeros(6), tol=1e-10
    )
    assert w.shape == (6,)
    assert float(np.linalg.norm(w - exact.x)) < 8 * std * math.sqrt(6)


def test_objective_perturbation_is_refused() -> None:
    """Its density ratio wants each gradient to keep its direction, docs/proofs/objective_perturbation.md."""
    problem = Problem(Softmax(3), regularizers.L2(0.1), n=1000, d=2, row_norm=1.0)
    with pytest.raises(Unsuitable, match="one margin"):
        plan(ObjectivePerturbation(), problem, Privacy(1.0, 1e-6))
    with pytest.raises(Unsuitable, match="squared"):
        plan(AdaSsp(), problem, Privacy(1.0, 1e-6))


def test_a_quote_counts_every_coordinate() -> None:
    problem = Problem(Softmax(3), domain=domains.LinfBall(1.0), n=1000, d=5, row_norm=1.0)
    quote = plan(methods.DpGd(), problem, Privacy(1.0, 1e-6))
    assert quote.risk_bound.untrained == pytest.approx(math.log(3))
    assert quote.risk_bound.distance == pytest.approx(math.sqrt(15))  # half the diameter of the box in 15 coordinates
