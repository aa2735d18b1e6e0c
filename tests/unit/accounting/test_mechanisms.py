"""The curves against closed forms and high precision."""

import math

import mpmath
import numpy as np
import pytest

from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian, Mechanism, Parallel, PoissonGaussian, SvrgStep, WithoutReplacement
from accounting.mechanisms.poisson_gaussian import MOST_DRAWN

ORDERS = [1.05, 1.5, 2.0, 5.0, 22.0, 64.0, 300.0]


MANY = MOST_DRAWN + 1


@pytest.mark.parametrize(
    ("mechanism", "n", "is_needed"),
    [
        (PoissonGaussian(1.0), MOST_DRAWN, False),
        (PoissonGaussian(1.0), MANY, True),
        (WithoutReplacement(1, 1000), 1000, False),
        (WithoutReplacement(900, 1000), 1000, True),
        (SvrgStep(1, 1000), 1000, False),
        (SvrgStep(900, 1000), 1000, True),
        (Parallel(Gaussian(), 2), MANY, False),
        (Parallel(PoissonGaussian(1.0), 2), MANY, True),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_one_machine_must_hold_all_records_for_draws_that_list_them(
    mechanism: Mechanism, n: int, is_needed: bool
) -> None:
    assert (mechanism.needs_all_rows(n) is not None) == is_needed


def test_gaussian_curve_by_hand() -> None:
    """Replacing a record moves the answer by at most twice its bound: mu = 2/z, rho(a) = a mu^2 / 2."""
    assert Gaussian().curves(8.0).gdp == 0.25
    assert Gaussian().curves(8.0).rdp([3.0])[0] == pytest.approx(3.0 * 0.25**2 / 2)
    assert Gaussian().curves(Gaussian().multiplier(0.01)).gdp == pytest.approx(0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "c", "order"), [(0.2, 0.7, 1.5), (0.2, 0.7, 7.0), (0.005, 1.2, 8.0), (1e-5, 2.0, 5.0), (0.3, 4.0, 2.0)]
)
def test_poisson_curve_by_high_precision_integration(rate: float, c: float, order: float) -> None:
    """(a - 1) D_a(P || Q) = ln of the integral of p^a q^(1-a), to thirty digits."""

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        base, up, down = (mpmath.npdf(x, mean) for mean in (0, mpmath.mpf(c), -mpmath.mpf(c)))
        p, q = ((1 - mpmath.mpf(rate)) * base + mpmath.mpf(rate) * shifted for shifted in (up, down))
        return p**order * q ** (1 - order)

    reach = int(2 * order * c) + 14
    with mpmath.workdps(30):
        exact = mpmath.log(mpmath.quad(integrand, range(-reach, reach + 2, 2))) / (order - 1)
    assert exact < PoissonGaussian(rate).curves(1 / c).rdp([order])[0] < exact * (1 + 2e-6)


def test_whole_sample_is_the_gaussian_mechanism() -> None:
    assert PoissonGaussian(1.0).curves(8.0).gdp == Gaussian().curves(8.0).gdp
    assert PoissonGaussian(1.0).curves(8.0).rdp(ORDERS) == pytest.approx(Gaussian().curves(8.0).rdp(ORDERS), rel=2e-6)


def test_beyond_quadrature_the_curve_stays_an_upper_bound() -> None:
    wide = PoissonGaussian(0.01).curves(1 / 40.0).rdp([60.0, 10_000.0])
    assert wide[0] == 2 * 60 * 40.0**2
    assert math.isfinite(wide[1])


@pytest.mark.slow
def test_the_curve_is_never_nan_and_never_above_the_unsampled_one() -> None:
    """Huge shifts overflow single terms of the integral; a NaN there once read as a divergence of nothing."""
    for rate in (1e-9, 1e-7, 1e-4, 0.3, 0.999):
        for c in (1e-6, 0.01, 0.5, 3.0, 9.0, 30.0, 1e3):
            curve = PoissonGaussian(rate).curves(1 / c).rdp([1.01, 2.0, 20.0, 64.0, 300.0, 1e4, 1e5])
            assert np.all(curve > 0)
            assert np.all(curve <= Gaussian().curves(1 / c).rdp([1.01, 2.0, 20.0, 64.0, 300.0, 1e4, 1e5]) * (1 + 1e-12))


def test_small_rates_at_high_orders_by_high_precision() -> None:
    """q = 1e-9, c = 1, a = 20: values near 1e-17 with terms near e^600 in the same integral."""
    value = PoissonGaussian(1e-9).curves(1.0).rdp([20.0])[0]
    assert value == pytest.approx(4.7008e-17, rel=1e-4)


@pytest.mark.parametrize("rate", [0.0, 0.9e-9, -0.1, 1.5, math.nan, math.inf])
def test_rate_is_a_probability(rate: float) -> None:
    with pytest.raises(OutOfRange):
        PoissonGaussian(rate)
