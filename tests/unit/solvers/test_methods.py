"""Methods: their iterations by hand, the safeguard, their resolved settings and their refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import Gaussian, PoissonGaussian
from solvers import Problem, solve
from solvers.domains import L2Ball, Simplex
from solvers.errors import NeedsDelta, Unsuitable
from solvers.losses import Logistic, Squared
from solvers.methods import (
    AdaSsp,
    DpAccMd,
    DpGd,
    DpSvrg,
    DpSvrgPp,
    Localization,
    NoisyMirrorDescent,
    OutputPerturbation,
)
from solvers.methods.average import Average
from solvers.methods.defaults.descent import answers_std, at_stake, descent_time
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.regularizers import L2

Vector = NDArray[np.float64]
PRIVACY = Privacy(1.0, 1e-6)
ADULT = Problem(Logistic(), n=32_561, d=109, row_norm=math.sqrt(15))


class Quadratic:
    """Exact answers about F(w) = ||w - target||^2 / 2, and a list of the requests."""

    def __init__(self, target: Vector) -> None:
        self.target = target
        self.requests: list[tuple[str, str]] = []

    def horizon(self, query: str) -> int:
        self.requests.append(("horizon", query))
        return 2

    def gradient(self, query: str, w: Vector) -> Vector:
        self.requests.append(("gradient", query))
        return w - self.target

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        self.requests.append(("sampled_gradient", query))
        return w - self.target

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        self.requests.append(("sampled_change", query))
        return w - anchor

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        return self.sampled_change(query, w, anchor)

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        self.requests.append(("printed_change", query))
        return (w - anchor) + (anchor - self.target)

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> None:
        """Return None, so that every answer is requested."""

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        raise NotImplementedError(query)

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        raise NotImplementedError(query)


def test_weighted_average() -> None:
    mean = Average()
    for value, weight in ((1.0, 1.0), (4.0, 2.0), (7.0, 3.0)):
        mean.add(np.array([value]), weight)
    assert mean.value[0] == pytest.approx(5.0)
    with pytest.raises(ValueError, match="nothing"):
        _ = Average().value


def test_dp_gd_by_hand() -> None:
    """One dimension, target 1, eta 1/2, lambda 1: three steps with momentum 0, 1/4, 2/5; weights 1, 2, 3."""
    problem = Problem(Squared(), L2(1.0), n=10, d=1, row_norm=1.0)
    oracle = Quadratic(np.ones(1))
    w, previous, points = 0.0, 0.0, []
    for momentum in (0.0, 1 / 4, 2 / 5):
        v = w + momentum * (w - previous)
        previous, w = w, (v - 0.5 * (v - 1)) / 1.5
        points.append(w)
    answer = DpGdRun(steps=3, step=0.5).run(oracle, problem)
    assert answer[0] == pytest.approx((points[0] + 2 * points[1] + 3 * points[2]) / 6)
    assert oracle.requests == [("gradient", "gradient")] * 3


def test_dp_gd_converges_as_its_momentum_promises() -> None:
    """The last gap is at most 2 D^2 / (eta T^2) (Beck and Teboulle 2009), and the mean is near it."""
    problem = Problem(Squared(), domain=L2Ball(10.0), n=10, d=2, row_norm=1.0)

    class Narrow(Quadratic):
        """Curvatures 1 and 1/1000."""

        def gradient(self, query: str, w: Vector) -> Vector:
            return super().gradient(query, w) * np.array([1.0, 1e-3])

    for steps in (10, 40, 160):
        w = DpGdRun(steps=steps, step=1.0).run(Narrow(np.array([1.0, 5.0])), problem)
        gap = ((w - [1.0, 5.0]) ** 2 * [1.0, 1e-3]).sum() / 2
        assert gap <= 4 * 26 / steps**2


def test_dp_svrg_by_hand() -> None:
    """Two epochs of two steps, near the anchor: v is the exact gradient; the mean of the last two of four points."""
    problem = Problem(Squared(), n=10, d=1, row_norm=1.0)
    oracle = Quadratic(np.full(1, 0.5))
    points, w = [], 0.0
    for _ in range(4):
        w = w - 0.25 * (w - 0.5)
        points.append(w)
    answer = DpSvrgRun(epochs=2, inner_steps=2, batch=5, step=0.25).run(oracle, problem)
    assert answer[0] == pytest.approx((points[2] + points[3]) / 2)
    epoch = [("gradient", "snapshot"), ("sampled_change", "change"), ("sampled_change", "change")]
    assert oracle.requests == epoch * 2


def test_dp_svrg_asks_plain_gradients_far_from_its_anchor() -> None:
    """G = L = 1: beyond distance 1 from the anchor the safeguard takes over, until the next anchor."""
    problem = Problem(Squared(), n=10, d=1, row_norm=1.0)
    oracle = Quadratic(np.full(1, 4.0))
    DpSvrgRun(epochs=2, inner_steps=3, batch=5, step=0.25).run(oracle, problem)
    # w: 0, 1 (distance 1: near), 1.75 (far), 2.3125 = anchor, 2.734 (near), 3.05 (near)
    kinds = [kind for kind, _ in oracle.requests]
    assert kinds[:4] == ["gradient", "sampled_change", "sampled_change", "sampled_gradient"]
    assert kinds[4:] == ["gradient", "sampled_change", "sampled_change", "sampled_change"]


def test_queries_and_costs() -> None:
    problem = Problem(Logistic(), n=1000, d=3, row_norm=1.0)
    (query,) = DpGdRun(steps=7, step=1.0).queries(problem)
    assert (query.name, query.count, query.mechanism) == ("gradient", 7, Gaussian())
    assert DpGdRun(steps=7, step=1.0).gradient_evaluations(problem) == 7000
    svrg = DpSvrgRun(epochs=2, inner_steps=10, batch=100, step=1.0)
    snapshot, change = svrg.queries(problem)
    assert (snapshot.count, snapshot.mechanism, snapshot.weight) == (2, Gaussian(), 0.25)
    assert (change.count, change.mechanism, change.weight) == (20, PoissonGaussian(0.1), 0.75)
    assert svrg.gradient_evaluations(problem) == 2 * (1000 + 2 * 10 * 100)


def test_the_descent_time_by_hand() -> None:
    """On a free domain s = 3 n mu* / R^2 (to the rounding of its constants); strong convexity makes it logarithmic."""
    mu = gauss_mu(1.0, 1e-6)
    time = descent_time(ADULT, PRIVACY)
    assert time == pytest.approx(3 * 32_561 * mu / 15, rel=0.005)
    assert answers_std(ADULT, PRIVACY) == pytest.approx(2 * math.sqrt(15) / (32_561 * mu))
    ridge = Problem(Logistic(), L2(0.01), n=32_561, d=109, row_norm=math.sqrt(15))
    assert descent_time(ridge, PRIVACY) == pytest.approx(math.log1p(0.01 * time) / 0.01)
    guess = 5 * math.sqrt(109) / math.sqrt(15)
    ball = Problem(Logistic(), domain=L2Ball(guess / 4), n=32_561, d=109, row_norm=math.sqrt(15))
    assert descent_time(ball, PRIVACY) == pytest.approx(time / 4)
    wide = Problem(Logistic(), domain=L2Ball(1e6), n=32_561, d=109, row_norm=math.sqrt(15))
    assert descent_time(wide, PRIVACY) == time


def test_the_descent_time_does_not_depend_on_the_units() -> None:
    """Features k times as large need steps k^2 times as small. The scale of targets and their bound has no effect."""
    for n in (1000, 10, 100_000):
        base = Problem(Squared(1.0), n=n, d=5, row_norm=1.0)
        assert descent_time(replace(base, row_norm=3.0), PRIVACY) == pytest.approx(descent_time(base, PRIVACY) / 9)
    base = replace(base, n=10**6)
    scaled = replace(base, loss=Squared(7.0))
    assert descent_time(scaled, PRIVACY) == pytest.approx(descent_time(base, PRIVACY))


def test_noise_may_cost_a_quarter_of_the_loss_of_the_untrained_model() -> None:
    """0.35 sigma_1^2 s min(d, L s) = ln(2) / 4, which does not depend on d above L s."""
    wide = Problem(Logistic(), n=4000, d=20_000, row_norm=1.0)
    time, std = descent_time(wide, PRIVACY), answers_std(wide, PRIVACY)
    assert 0.35 * std**2 * time**2 * wide.L == pytest.approx(math.log(2) / 4)
    assert descent_time(replace(wide, d=10**6), PRIVACY) == time
    middle = replace(wide, d=100)
    time = descent_time(middle, PRIVACY)
    assert time * wide.L > 100
    assert 0.35 * std**2 * time * 100 == pytest.approx(math.log(2) / 4)
    bounded = replace(wide, domain=L2Ball(0.01))  # the untrained model loses at most G D there: there is less to risk
    assert 0.35 * std**2 * descent_time(bounded, PRIVACY) ** 2 * wide.L <= 0.01 / 4 * (1 + 1e-9)


def test_the_stake_is_the_largest_possible_loss_of_the_start() -> None:
    assert at_stake(ADULT) == pytest.approx(math.log(2))
    assert at_stake(replace(ADULT, loss=Squared())) == pytest.approx(1 / 6, rel=0.05)  # y^2 / 2, y even in [-1, 1]
    assert at_stake(replace(ADULT, domain=L2Ball(0.01))) == pytest.approx(0.01 * ADULT.G)
    assert at_stake(replace(ADULT, domain=Simplex(2.0))) == pytest.approx(2**0.5 * ADULT.G)  # runs start elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_rows_without_structure_hardly_hurt_a_model_of_many_coordinates(epsilon: float) -> None:
    """Noise raises the untrained model's risk of ln 2 by less than 20 %, although nothing can be learned."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 1200))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.sign(X @ rng.standard_normal(1200))
    problem = Problem(Logistic(), n=400, d=1200, row_norm=1.0)
    for method in (DpGd(), DpAccMd()):
        models = [solve(method, problem, X, y, Privacy(epsilon, 1e-5)).coefficients for _ in range(5)]
        risk = float(np.mean([problem.loss.value(X @ w, y) for w in models]))
        assert risk <= 1.2 * math.log(2)


def test_dp_gd_spends_its_time_in_few_steps() -> None:
    time = descent_time(ADULT, PRIVACY)
    method = DpGd().resolve(ADULT, PRIVACY)
    assert method.steps is not None
    assert method.step is not None
    assert method.step <= 1 / ADULT.L
    assert method.step * method.steps * (method.steps + 3) / 4 == pytest.approx(time)
    assert (method.steps - 1) * (method.steps + 2) / 4 / ADULT.L < time  # one step less would not do
    longest = DpGd().resolve(Problem(Logistic(), n=10**9, d=109, row_norm=4.0), PRIVACY)
    assert (longest.steps, longest.step) == (500, 1 / 4.0)
    shorter = DpGd(steps=10).resolve(ADULT, PRIVACY)
    assert (shorter.steps, shorter.step) == (10, 1 / ADULT.L)
    slower = DpGd(step=0.01).resolve(ADULT, PRIVACY)
    assert slower.step == 0.01
    assert slower.steps is not None
    assert slower.steps > method.steps


def test_dp_svrg_resolves_to_public_numbers() -> None:
    method = DpSvrg().resolve(ADULT, PRIVACY)
    assert method.epochs == 5
    total, mu = 5 * method.inner_steps, gauss_mu(1.0, 1e-6)
    assert total == pytest.approx(0.4 * descent_time(ADULT, PRIVACY) * ADULT.L, abs=5)
    assert method.batch == math.ceil(1.5 * 32_561 * mu / math.sqrt(total))
    assert method.step == 1 / (ADULT.L * (1 + 11 / method.batch))
    huge = DpSvrg().resolve(Problem(Logistic(), n=10**7, d=109, row_norm=4.0), PRIVACY)
    assert huge.inner_steps == 1000
    tiny = DpSvrg().resolve(Problem(Logistic(), n=7, d=109, row_norm=4.0), PRIVACY)
    assert tiny.batch == 7
    single = DpSvrg(batch=1).resolve(ADULT, PRIVACY)
    assert single.step == pytest.approx(1 / (12 * ADULT.L))  # the paper's, where its batches are the paper's


def test_settings_that_the_theory_does_not_cover_are_named() -> None:
    with pytest.raises(Unsuitable, match="1/L"):
        DpGd(step=1.01 / ADULT.L).resolve(ADULT, PRIVACY)
    with pytest.raises(Unsuitable, match="1/L"):
        DpSvrg(step=1.01 / ADULT.L).resolve(ADULT, PRIVACY)
    with pytest.raises(Unsuitable, match="n = 32561"):
        DpSvrg(batch=32_562).resolve(ADULT, PRIVACY)


def test_gaussian_noise_at_delta_0_is_refused_with_advice() -> None:
    advice = "adds Gaussian noise. Request delta > 0, or use output_perturbation or localization"
    for method in (DpGd(), DpAccMd(), DpSvrg(), DpSvrgPp(), NoisyMirrorDescent()):
        with pytest.raises(NeedsDelta, match=advice):
            method.resolve(ADULT, Privacy(1.0))
    with pytest.raises(NeedsDelta, match=f"ada_ssp {advice}"):
        AdaSsp().resolve(replace(ADULT, loss=Squared()), Privacy(1.0))
    for pure in (OutputPerturbation(), Localization()):
        assert pure.resolve(ADULT, Privacy(1.0)).noise == "laplace"
