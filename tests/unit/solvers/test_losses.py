"""Every loss against its own claims: slopes, bounds, convexity, what it does with targets."""

import math
from typing import get_args

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from solvers.losses import (
    Absolute,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    Power,
    Quantile,
    Sigmoid,
    Softmax,
    Squared,
    names,
)

Floats = NDArray[np.float64]

LOSSES: list[Loss] = [
    Logistic(),
    Hinge(),
    HuberHinge(),
    HuberHinge(0.01),
    HuberHinge(3.0),
    Sigmoid(),
    Squared(),
    Squared(0.3),
    Huber(),
    Huber(2.0),
    Absolute(),
    Quantile(),
    Quantile(0.9),
    Quantile(0.1, 0.2),
    Power(),
    Power(1.1, 0.5),
    Power(2.0, 0.7),
]
SMOOTH = [loss for loss in LOSSES if math.isfinite(loss.curvature_bound)]
ROUGH = [loss for loss in LOSSES if not math.isfinite(loss.curvature_bound)]
MARGINS = np.linspace(-8.0, 8.0, 160_001)


def _targets(loss: Loss) -> Floats:
    return np.array([-1.0, 1.0]) if loss.takes == "class" else np.array([-1.0, -0.3, 0.0, 0.77, 1.0])


def _kinks(loss: Loss, y: float) -> list[float]:
    """Margins where the slope may jump or bend."""
    if loss.takes == "class":
        h = loss.smoothing if isinstance(loss, HuberHinge) else 0.0
        return [y, y * (1 - h)]
    reach = [0.0]
    match loss:
        case Huber(h):
            reach = [-h, h]
        case Squared(c) | Power(_, c):
            reach = [-c, 0.0, c]
        case Quantile(q, h):
            reach = [-q * h, (1 - q) * h]
    return [y + r for r in reach]


def test_every_loss_of_the_union_is_here() -> None:
    """But for softmax, whose margins are vectors: `test_softmax.py`."""
    assert {type(loss) for loss in LOSSES} | {Softmax} == set(get_args(Loss))
    assert {loss.outputs for loss in LOSSES} == {1}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
class TestEveryLoss:
    def test_its_slope_is_its_derivative(self, loss: Loss) -> None:
        step = 1e-6
        margin = np.linspace(-5.0, 5.0, 2003)
        for y in _targets(loss):
            away = np.min([np.abs(margin - kink) for kink in _kinks(loss, y)], axis=0) > 10 * step
            m, t = margin[away], np.full(away.sum(), y)
            numeric = (loss.value(m + step, t) - loss.value(m - step, t)) / (2 * step)
            np.testing.assert_allclose(loss.slope(m, t), numeric, atol=2e-6, rtol=0)

    def test_its_value_is_the_integral_of_its_slope(self, loss: Loss) -> None:
        for y in _targets(loss):
            t = np.full(len(MARGINS), y)
            value, slope = loss.value(MARGINS, t), loss.slope(MARGINS, t)
            risen = np.cumsum((slope[1:] + slope[:-1]) / 2) * (MARGINS[1] - MARGINS[0])
            np.testing.assert_allclose(value[1:] - value[0], risen, atol=5e-4)

    def test_its_slope_bound_is_the_largest_slope(self, loss: Loss) -> None:
        margin = np.append(MARGINS, [-1e9, 1e9])
        largest = max(float(np.abs(loss.slope(margin, np.full(len(margin), y))).max()) for y in _targets(loss))
        assert largest <= loss.slope_bound * (1 + 1e-12)
        assert largest >= loss.slope_bound * (1 - 1e-6)

    def test_it_is_convex_or_says_that_it_is_not(self, loss: Loss) -> None:
        falls = min(float(np.diff(loss.slope(MARGINS, np.full(len(MARGINS), y))).min()) for y in _targets(loss))
        assert loss.is_convex is (falls >= -1e-12)

    def test_targets_are_mapped_one_by_one_to_known_ones(self, loss: Loss) -> None:
        strange = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1e308])
        mapped = loss.targets(strange)
        assert np.isfinite(mapped).all()
        assert mapped[5:7].tolist() == [1.0, -1.0]
        if loss.takes == "class":
            assert set(mapped.tolist()) == {1.0, -1.0}
        for before, after in zip(strange, mapped, strict=True):
            assert loss.targets(np.array([before]))[0] == after

    def test_slopes_are_finite_and_bounded_at_the_far_ends(self, loss: Loss) -> None:
        margin, y = np.array([1e106, -1e106, 0.0, 1e-300]), loss.targets(np.array([math.inf, -math.inf, math.nan, 1.0]))
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            slopes = loss.slope(margin, y)
        assert (np.abs(slopes) <= loss.slope_bound * (1 + 1e-12)).all()

    def test_the_slope_is_a_new_array(self, loss: Loss) -> None:
        margin, y = np.array([0.1, 0.2]), np.array([1.0, -1.0])
        loss.slope(margin, y)[:] = 7.0
        assert margin.tolist() == [0.1, 0.2]
        assert y.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_the_curvature_bound_is_the_largest_rate_of_the_slope(loss: Loss) -> None:
    rates = []
    for y in _targets(loss):
        around = np.concatenate([MARGINS, *(kink + np.linspace(-0.02, 0.02, 4001) for kink in _kinks(loss, y))])
        step = 1e-5
        t = np.full(len(around), y)
        rates.append(np.abs(loss.slope(around + step, t) - loss.slope(around - step, t)).max() / (2 * step))
    assert max(rates) <= loss.curvature_bound * (1 + 1e-6)
    assert max(rates) >= loss.curvature_bound * (1 - 1e-4)


@pytest.mark.parametrize("loss", ROUGH, ids=repr)
def test_without_a_curvature_bound_the_rate_of_the_slope_has_none(loss: Loss) -> None:
    rates = []
    for step in (1e-4, 1e-8):
        around = np.concatenate([kink + np.array([-step, step]) for kink in _kinks(loss, 1.0)])
        slope = loss.slope(around, np.ones(len(around)))
        rates.append(float(np.abs(np.diff(slope)).max() / step))
    assert rates[1] > 50 * rates[0]


@pytest.mark.parametrize(
    ("smooth", "plain", "gap"),
    [
        (HuberHinge(0.4), Hinge(), 0.2),
        (Huber(0.4), Absolute(), 0.2),
        (Quantile(0.8, 0.4), Quantile(0.8), 0.8**2 * 0.2),
    ],
)
def test_the_smooth_forms_are_moreau_envelopes(smooth: Loss, plain: Loss, gap: float) -> None:
    u = np.linspace(-4.0, 4.0, 80_001)
    for y in _targets(smooth):
        near = plain.value(u, np.full(len(u), y))
        for m in np.linspace(-2.5, 2.5, 41):
            envelope = float((near + (u - m) ** 2 / (2 * 0.4)).min())
            value = float(smooth.value(np.array([m]), np.array([y]))[0])
            assert value == pytest.approx(envelope, abs=1e-7)
            assert -1e-12 <= float(plain.value(np.array([m]), np.array([y]))[0]) - value <= gap + 1e-12


def test_the_quantile_loss_is_least_at_the_quantile() -> None:
    y = np.arange(1001) / 1000
    for level in (0.1, 0.5, 0.8):
        means = [float(Quantile(level).value(np.full(1001, m), y).mean()) for m in y]
        assert y[int(np.argmin(means))] == pytest.approx(level, abs=2e-3)


def test_the_best_sigmoid_rule_is_no_probability() -> None:
    margin = np.linspace(-20.0, 20.0, 4001)
    mean = 0.7 * Sigmoid().value(margin, np.ones(4001)) + 0.3 * Sigmoid().value(margin, -np.ones(4001))
    assert margin[int(mean.argmin())] == 20.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: HuberHinge(0.0),
        lambda: HuberHinge(math.nan),
        lambda: HuberHinge(101.0),
        lambda: Huber(-1.0),
        lambda: Quantile(0.0),
        lambda: Quantile(1.0),
        lambda: Quantile(0.5, -0.1),
        lambda: Quantile(0.5, 1e-9),
        lambda: Quantile(0.5, math.inf),
        lambda: Power(1.0),
        lambda: Power(2.1),
        lambda: Power(1.5, 0.0),
        lambda: Power(True),
    ],
)
def test_settings_out_of_range_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match="must"):
        make()


def test_names_go_by_what_a_loss_takes() -> None:
    assert names("class") == ("logistic", "softmax", "hinge", "huber_hinge", "sigmoid")
    assert names("number") == ("squared", "huber", "absolute", "quantile", "power")


def test_values_by_hand() -> None:
    assert Logistic().value(np.array([0.0]), np.array([1.0]))[0] == pytest.approx(math.log(2))
    assert Logistic().slope(np.array([0.0]), np.array([1.0]))[0] == -0.5
    assert Logistic().slope(np.array([math.log(3)]), np.array([-1.0]))[0] == pytest.approx(0.75)
    assert Squared().value(np.array([0.5, 3.0]), np.array([0.0, 0.0])) == pytest.approx([0.125, 2.5])
    assert Squared(2.0).slope(np.array([3.0, 3.0]), np.array([2.5, 0.0])) == pytest.approx([0.5, 2.0])


def test_expit_is_within_the_rounding_that_the_oracle_grants() -> None:
    """4 units of 2^-53, docs/proofs/oracle.md."""
    x = np.concatenate([np.linspace(-700, 40, 1500), np.linspace(-3, 3, 1500)])
    with mpmath.workdps(40):
        worst = max(
            abs(mpmath.mpf(float(value)) * (1 + mpmath.exp(-mpmath.mpf(float(at)))) - 1)
            for at, value in zip(x, expit(x), strict=True)
        )
    assert worst < 4 * 2.0**-53


def test_the_sigmoid_slope_is_within_the_rounding_that_the_oracle_grants() -> None:
    """10 units of 2^-53, docs/proofs/oracle.md."""
    x = np.linspace(-30, 30, 2000)
    slopes = Sigmoid().slope(x, np.ones(2000))
    with mpmath.workdps(40):
        worst = max(
            abs(
                mpmath.mpf(float(value))
                + 1 / (2 + mpmath.exp(mpmath.mpf(float(at))) + mpmath.exp(-mpmath.mpf(float(at))))
            )
            for at, value in zip(x, slopes, strict=True)
        )
    assert worst < 10 * 2.0**-53 * Sigmoid().slope_bound


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e7, True, "1"])
def test_a_nonsensical_residual_bound_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="residual_bound"):
        Squared(bound)
