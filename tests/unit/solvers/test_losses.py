"""Every loss, compared with its own claims: slopes, bounds, convexity and targets."""

import math
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from types import FunctionType
from typing import Any, get_args

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from solvers import kernels
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
from solvers.losses.one_margin import OneMargin
from tests.support.members import LOSSES, name_of

Floats = NDArray[np.float64]

SMOOTH = [loss for loss in LOSSES if math.isfinite(loss.curvature_bound)]
ROUGH = [loss for loss in LOSSES if not math.isfinite(loss.curvature_bound)]
MARGINS = np.linspace(-8.0, 8.0, 160_001)


def _targets(loss: OneMargin) -> Floats:
    return np.array([-1.0, 1.0]) if loss.takes == "class" else np.array([-1.0, -0.3, 0.0, 0.77, 1.0])


def _plain(loss: OneMargin, functions: object) -> Callable[[Any, Any], Any]:
    """Return the loss's derivative as Python runs it, with these functions in place of `math` and the loops' own."""
    derivative = loss.derivative
    assert isinstance(derivative, FunctionType)
    formula = FunctionType(derivative.__code__, {"math": functions, "kernels": functions})
    parameters = [getattr(loss, field.name) for field in fields(loss) if field.name != "name"]  # type: ignore[arg-type]
    return lambda m, y: formula(m, y, *parameters)


class Plain:
    """Python's functions, and the loops' exponential as Python runs it."""

    def __getattr__(self, name: str) -> object:
        return getattr(math, name)

    def exp(self, x: float) -> float:
        return float(vars(kernels.exp)["py_func"](x))


class Exact:
    """The same to the working precision."""

    def __getattr__(self, name: str) -> object:
        return getattr(mpmath, {"pow": "power"}.get(name, name))


@pytest.mark.slow
def test_the_loops_exponential_is_the_exponential() -> None:
    """Within one unit in the last place, out to where it stays what it is; not a number of none."""
    x = np.concatenate([np.linspace(-300, 300, 4001), np.linspace(-1, 1, 2001), np.arange(-865, 866) * math.log(2) / 2])
    with mpmath.workdps(40):
        off = [abs(mpmath.mpf(kernels.exp(at)) / mpmath.exp(mpmath.mpf(at)) - 1) for at in x.tolist()]
    assert max(off) <= 2.0**-52
    assert kernels.exp(0.0) == kernels.exp(-0.0) == 1.0
    assert kernels.exp(-math.inf) == kernels.exp(-1e300) == kernels.exp(-300.0) > 0.0
    assert kernels.exp(math.inf) == kernels.exp(1e300) == kernels.exp(300.0) < math.inf
    assert math.isnan(kernels.exp(math.nan))


MARGIN_SIZES = np.concatenate([np.linspace(0.0, 800.0, 4001), [1e300]])


def is_normal(slopes: Floats) -> bool:
    """Return whether no slope, and no product with the smallest code, is subnormal. Its time would reveal a margin."""
    sizes = np.abs(slopes)
    return bool((sizes[sizes > 0] * 2.0**-300 >= np.finfo(float).tiny).all())


def test_no_slope_of_softmax_is_a_subnormal_number() -> None:
    margins = np.stack([np.zeros_like(MARGIN_SIZES), -MARGIN_SIZES])
    assert all(is_normal(Softmax(2).slope(margins, np.full(len(MARGIN_SIZES), y))) for y in (0.0, 1.0))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
class TestEveryLoss:
    def test_no_slope_is_a_subnormal_number(self, loss: OneMargin) -> None:
        for margins in (-MARGIN_SIZES, MARGIN_SIZES):
            assert all(is_normal(loss.slope(margins, np.full(len(MARGIN_SIZES), y))) for y in _targets(loss))

    def test_its_slope_is_its_derivative(self, loss: OneMargin) -> None:
        """A convex loss rises between two points by no less than the first's slope says, by no more than the second's;
        a smooth one as the slope between them says, up to its curvature.
        """
        m, step = np.linspace(-5.0, 5.0, 2003), 1e-4
        for y in _targets(loss):
            t = np.full(len(m), y)
            rate = (loss.value(m + step, t) - loss.value(m, t)) / step
            if loss.is_convex:
                assert (loss.slope(m, t) <= rate + 1e-10).all()
                assert (rate <= loss.slope(m + step, t) + 1e-10).all()
            if math.isfinite(loss.curvature_bound):
                assert (np.abs(rate - loss.slope(m + step / 2, t)) <= loss.curvature_bound * step / 2 + 1e-10).all()
            assert loss.is_convex or math.isfinite(loss.curvature_bound)

    @pytest.mark.slow
    def test_its_slope_is_its_formula_to_the_last_bit(self, loss: OneMargin) -> None:
        """Compiled code contracts and reassociates nothing. It computes the bits of Python, also at overflow."""
        rng = np.random.default_rng(2)
        ends = [0.0, 1.0, 0.3, 0.7, 1.3, 1e-300, 30.0, 36.8, 700.0, 709.7, 710.0, 745.2, 1e10, 1e200]
        neighbors = [float(np.nextafter(m, up)) for m in ends for up in (-np.inf, np.inf)]
        m = np.array([*ends, *neighbors, *rng.standard_normal(1200), *(rng.standard_normal(300) * 100)])
        m, formula = np.concatenate([m, -m]), _plain(loss, Plain())
        for y in _targets(loss):
            plain = np.array([formula(at, float(y)) for at in m.tolist()])
            np.testing.assert_array_equal(loss.slope(m, np.full(len(m), y)), plain)
            clipped = [kernels.slope(loss.compiled, at, float(y)) for at in m.tolist()]
            np.testing.assert_array_equal(clipped, np.clip(plain, -loss.slope_bound, loss.slope_bound))

    @pytest.mark.slow
    def test_its_slope_is_within_the_rounding_that_the_oracle_grants(self, loss: OneMargin) -> None:
        """Compare with forty digits: the error is below 16 units of 2^-53 of the bound (docs/proofs/oracle.md)."""
        m = np.concatenate([np.linspace(-40, 40, 301), np.linspace(-3, 3, 300)])
        with mpmath.workdps(40):
            formula = _plain(loss, Exact())
            for y in _targets(loss):
                exact = [formula(mpmath.mpf(at), mpmath.mpf(float(y))) for at in m.tolist()]
                actual = loss.slope(m, np.full(len(m), y)).tolist()
                worst = max(abs(mpmath.mpf(f) - e) for f, e in zip(actual, exact, strict=True))
                assert worst < 16 * 2.0**-53 * loss.slope_bound

    def test_its_derivative_calls_only_functions_whose_time_is_stated(self, loss: OneMargin) -> None:
        """docs/proofs/oracle.md, Time: a function such as tanh may take longer for some arguments than for others."""
        assert isinstance(loss.derivative, FunctionType)
        unknown = set(loss.derivative.__code__.co_names) - {"abs", "min", "max", "math", "pow", "kernels", "exp"}
        assert unknown == set(), "write the derivative with abs, min, max, kernels.exp and math.pow only"

    def test_its_derivative_takes_its_fields_in_their_order(self, loss: OneMargin) -> None:
        parameters = list(signature(loss.derivative).parameters)
        assert parameters == ["m", "y", *(field.name for field in fields(loss) if field.name != "name")]  # type: ignore[arg-type]
        assert len(parameters) <= 2 + kernels.MOST_PARAMETERS

    def test_shapes_are_those_of_numpy(self, loss: OneMargin) -> None:
        m, y = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0, 1.0])
        slopes = loss.slope(m, y)
        assert slopes.shape == (2, 3)
        assert slopes[1, 2] == loss.slope(m[1:, 2], y[2:])[0] == loss.slope(m.T[2, 1:], np.float64(1.0))[0]  # type: ignore[arg-type]

    def test_its_value_is_the_integral_of_its_slope(self, loss: OneMargin) -> None:
        for y in _targets(loss):
            t = np.full(len(MARGINS), y)
            value, slope = loss.value(MARGINS, t), loss.slope(MARGINS, t)
            risen = np.cumsum((slope[1:] + slope[:-1]) / 2) * (MARGINS[1] - MARGINS[0])
            np.testing.assert_allclose(value[1:] - value[0], risen, atol=5e-4)

    def test_its_slope_bound_is_the_largest_slope(self, loss: OneMargin) -> None:
        margin = np.append(MARGINS, [-1e9, 1e9])
        largest = max(float(np.abs(loss.slope(margin, np.full(len(margin), y))).max()) for y in _targets(loss))
        assert largest <= loss.slope_bound * (1 + 1e-12)
        assert largest >= loss.slope_bound * (1 - 1e-6)

    def test_it_states_whether_it_is_convex(self, loss: OneMargin) -> None:
        falls = min(float(np.diff(loss.slope(MARGINS, np.full(len(MARGINS), y))).min()) for y in _targets(loss))
        assert loss.is_convex is (falls >= -1e-12)

    def test_targets_are_mapped_one_by_one_to_known_ones(self, loss: OneMargin) -> None:
        strange = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1e308])
        mapped = loss.targets(strange)
        assert np.isfinite(mapped).all()
        assert mapped[5:7].tolist() == [1.0, -1.0]
        if loss.takes == "class":
            assert set(mapped.tolist()) == {1.0, -1.0}
        for original, target in zip(strange, mapped, strict=True):
            assert loss.targets(np.array([original]))[0] == target

    def test_slopes_are_finite_and_bounded_at_the_far_ends(self, loss: OneMargin) -> None:
        margin, y = np.array([1e106, -1e106, 0.0, 1e-300]), loss.targets(np.array([math.inf, -math.inf, math.nan, 1.0]))
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            slopes = loss.slope(margin, y)
        assert (np.abs(slopes) <= loss.slope_bound * (1 + 1e-12)).all()

    def test_the_slope_is_a_new_array(self, loss: OneMargin) -> None:
        margin, y = np.array([0.1, 0.2]), np.array([1.0, -1.0])
        loss.slope(margin, y)[:] = 7.0
        assert margin.tolist() == [0.1, 0.2]
        assert y.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_the_curvature_bound_is_the_largest_rate_of_the_slope(loss: OneMargin) -> None:
    rates = []
    for y in _targets(loss):
        offsets = np.logspace(-6, 1, 2001)
        around, step = np.concatenate([MARGINS, y + offsets, y - offsets]), 1e-6
        t = np.full(len(around), y)
        rates.append(np.abs(loss.slope(around + step, t) - loss.slope(around - step, t)).max() / (2 * step))
    assert max(rates) <= loss.curvature_bound * (1 + 1e-6)
    assert max(rates) >= loss.curvature_bound * (1 - 1e-4)


@pytest.mark.parametrize("loss", ROUGH, ids=repr)
def test_without_a_curvature_bound_the_rate_of_the_slope_is_unbounded(loss: OneMargin) -> None:
    """The rate keeps growing as the steepest cell is divided again and again."""
    low, high, rates = -8.0, 8.0, []
    for _ in range(12):
        cells = np.linspace(low, high, 12)
        rise = np.abs(np.diff(loss.slope(cells, np.ones(12))))
        steepest = int(rise.argmax())
        low, high = cells[steepest].item(), cells[steepest + 1].item()
        rates.append(rise[steepest] / (high - low))
    assert rates[-1] > 50 * rates[-5]


@pytest.mark.parametrize(
    ("smooth", "plain", "gap"),
    [
        (HuberHinge(0.4), Hinge(), 0.2),
        (Huber(0.4), Absolute(), 0.2),
        (Quantile(0.8, 0.4), Quantile(0.8), 0.8**2 * 0.2),
    ],
)
def test_the_smooth_forms_are_moreau_envelopes(smooth: OneMargin, plain: OneMargin, gap: float) -> None:
    u = np.linspace(-4.0, 4.0, 80_001)
    for y in _targets(smooth):
        values = plain.value(u, np.full(len(u), y))
        for m in np.linspace(-2.5, 2.5, 41):
            envelope = float((values + (u - m) ** 2 / (2 * 0.4)).min())
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


def test_names_are_listed_by_the_kind_of_target() -> None:
    assert {"logistic", "softmax"} <= set(names("class"))
    assert {"squared", "huber"} <= set(names("number"))
    assert sorted(names("class") + names("number")) == sorted(map(name_of, get_args(Loss)))


def test_values_by_hand() -> None:
    assert Logistic().value(np.array([0.0]), np.array([1.0]))[0] == pytest.approx(math.log(2))
    assert Logistic().slope(np.array([0.0]), np.array([1.0]))[0] == -0.5
    assert Logistic().slope(np.array([math.log(3)]), np.array([-1.0]))[0] == pytest.approx(0.75)
    assert Squared().value(np.array([0.5, 3.0]), np.array([0.0, 0.0])) == pytest.approx([0.125, 2.5])
    assert Squared(2.0).slope(np.array([3.0, 3.0]), np.array([2.5, 0.0])) == pytest.approx([0.5, 2.0])


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e7, True, "1"])
def test_a_nonsensical_residual_bound_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="residual_bound"):
        Squared(bound)
