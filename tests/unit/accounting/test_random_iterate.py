"""A random prefix of Gaussian answers: its profile, its curve, the draw of its length, and its meter."""

import math

import mpmath
import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import SingleUseAccountant
from accounting.calibration import calibrate, certify
from accounting.divergences.gaussian import gauss_delta, gauss_epsilon
from accounting.errors import OutOfPlan, OutOfRange
from accounting.mechanisms import Gaussian, PoissonGaussian, RandomIterate
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, Query
from solvers.data_access.meter import Meter
from tests.support.seeded import SeededBits


def _plan(steps: int, z: float) -> Plan:
    return Plan((PlannedQuery("gradient", 1, RandomIterate(steps), z),))


@pytest.mark.parametrize(("steps", "z", "delta"), [(2, 3.0, 1e-5), (7, 2.0, 1e-3), (300, 40.0, 1e-6), (9, 0.5, 1e-2)])
def test_the_profile_by_summation(steps: int, z: float, delta: float) -> None:
    """At the certified epsilon the mean of the Gaussian deltas is delta, from below; rounding costs next to nothing."""
    epsilon = SingleUseAccountant().epsilon(_plan(steps, z), delta)
    mean_delta = sum(gauss_delta(2 / z * math.sqrt(m), epsilon) for m in range(steps)) / steps
    assert delta * (1 - 1e-4) < mean_delta <= delta


def test_the_profile_to_fifty_digits() -> None:
    epsilon = SingleUseAccountant().epsilon(_plan(5, 3.0), 1e-9)
    with mpmath.workdps(50):
        e, total = mpmath.mpf(epsilon), mpmath.mpf(0)
        for m in range(1, 5):
            mu = mpmath.mpf(2) / 3 * mpmath.sqrt(m)
            total += mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
        assert mpmath.mpf("0.9999") * 1e-9 < total / 5 <= 1e-9


def test_many_lengths_are_grouped_upwards() -> None:
    """Beyond 4096 the profile is that of lengths rounded up: never less, and hardly more."""
    steps, z = 10_000, 200.0
    epsilon = SingleUseAccountant().epsilon(_plan(steps, z), 1e-6)
    mean_delta = sum(gauss_delta(2 / z * math.sqrt(m), epsilon) for m in range(1, steps)) / steps
    assert 0.99e-6 < mean_delta <= 1e-6


@pytest.mark.parametrize(("steps", "z"), [(2, 1.0), (30, 5.0), (4000, 1e4), (1000, 0.1), (100_000, 1e6)])
def test_the_curve_is_a_mean_of_exponentials_rounded_up(steps: int, z: float) -> None:
    orders = [1.01, 1.7, 8.0, 300.0]
    curve = RandomIterate(steps).curves(z).rdp(orders)
    with mpmath.workdps(40):
        for a, actual in zip(orders, curve, strict=True):
            q = (mpmath.mpf(a) - 1) * a * 2 / mpmath.mpf(z) ** 2
            mean = mpmath.expm1(q * steps) / mpmath.expm1(q) / steps
            exact = mpmath.log(mean) / (mpmath.mpf(a) - 1)
            assert exact <= actual * (1 + mpmath.mpf("1e-15"))
            assert actual <= exact * (1 + mpmath.mpf("2e-4" if q * steps < 0.0011 else "2e-9"))
    assert np.all(curve <= (steps - 1) * Gaussian().curves(z).rdp(orders))


def test_bounds_and_inverse() -> None:
    mechanism = RandomIterate(26)
    assert mechanism.curves(3.0).gdp is None
    assert mechanism.curves(3.0).gdp_bound == pytest.approx(2 / 3 * 5)
    assert mechanism.curves(mechanism.multiplier(0.09)).gdp_bound == pytest.approx(0.3)
    assert mechanism.answers == 25


@pytest.mark.parametrize("steps", [2, 100, 1000])
def test_one_use_is_accounted_for_exactly_and_costs_less_than_all(steps: int) -> None:
    privacy = Privacy(0.5, 1e-6)
    release = calibrate((Query("gradient", 1, RandomIterate(steps)),), privacy)
    (every,) = calibrate((Query("gradient", steps - 1, Gaussian()),), privacy).plan.queries
    assert release.accountant == "single_use"
    assert 0.49 < release.epsilon <= 0.5
    assert 0.85 < release.plan.queries[0].noise_multiplier / every.noise_multiplier < 0.999
    assert certify(release.plan, 1e-6)[0] == release.epsilon


def test_beside_other_answers_it_is_still_covered() -> None:
    queries = (Query("gradient", 1, RandomIterate(50)), Query("other", 3, Gaussian()))
    release = calibrate(queries, Privacy(1.0, 1e-6))
    assert release.epsilon <= 1.0
    plan = Plan((*_plan(50, 30.0).queries, PlannedQuery("other", 3, Gaussian(), 9.0)))
    mu = math.sqrt(49 * (2 / 30) ** 2 + 3 * (2 / 9) ** 2)
    assert certify(plan, 1e-6)[0] <= gauss_epsilon(mu, 1e-6) * (1 + 1e-12)


def test_beside_gaussian_answers_it_keeps_its_profile() -> None:
    """Summed by hand; tighter than Renyi curves and than all answers; and no more than rounding below the exact one."""
    plan = Plan((PlannedQuery("other", 3, Gaussian(), 40.0), *_plan(50, 30.0).queries))
    epsilon, accountant = certify(plan, 1e-6)
    assert accountant.name == "single_use"
    mean_delta = sum(gauss_delta(math.sqrt(3 * 0.05**2 + m * (2 / 30) ** 2), epsilon) for m in range(50)) / 50
    assert 1e-6 * (1 - 1e-4) < mean_delta <= 1e-6
    none = SingleUseAccountant().epsilon(Plan((PlannedQuery("o", 1, Gaussian(), 1e12), *_plan(50, 30.0).queries)), 1e-6)
    assert none == pytest.approx(SingleUseAccountant().epsilon(_plan(50, 30.0), 1e-6), rel=1e-8)
    for unsupported in (
        PlannedQuery("other", 1, RandomIterate(5), 9.0),
        PlannedQuery("other", 1, PoissonGaussian(0.1), 9.0),
    ):
        assert math.isinf(SingleUseAccountant().epsilon(Plan((unsupported, *_plan(50, 30.0).queries)), 1e-6))


def test_moments_beside_it_cost_their_share_and_no_more() -> None:
    own, moments = Query("gradient", 1, RandomIterate(50)), Query("moments", 1, Gaussian(), 0.08 / 0.92)
    alone, combined = (calibrate(queries, Privacy(0.5, 1e-6)) for queries in ((own,), (own, moments)))
    assert combined.accountant == "single_use"
    assert 0.49 < combined.epsilon <= 0.5
    assert combined.plan.queries[0].noise_multiplier < 1.08 * alone.plan.queries[0].noise_multiplier


def test_a_number_of_steps_has_its_range() -> None:
    for steps in (1, 10**6):
        with pytest.raises(OutOfRange):
            RandomIterate(steps)


def test_lengths_are_uniform() -> None:
    """Chi-square at a false-alarm rate of 1e-9; a length never drawn, or one more, would be caught."""
    noise = Noise(SeededBits(1))
    counts = np.bincount([RandomIterate(7).horizon(noise) for _ in range(7000)], minlength=7)
    assert len(counts) == 7
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 55
    assert counts.min() > 800


def test_the_meter_stops_at_the_length_drawn() -> None:
    lengths = set()
    for seed in range(30):
        meter = Meter(_plan(4, 3.0), Noise(SeededBits(seed)))
        length = meter.horizon("gradient")
        assert meter.horizon("gradient") == length
        lengths.add(length)
        for _ in range(length):
            meter.take("gradient", RandomIterate)
        with pytest.raises(OutOfPlan):
            meter.take("gradient", RandomIterate)
        assert meter.transcript() == _plan(4, 3.0)  # a use that was begun counts whole, one of no answers too
    assert lengths == {0, 1, 2, 3}
    twice = Plan((PlannedQuery("gradient", 2, RandomIterate(4), 3.0),))
    with pytest.raises(OutOfPlan):
        Meter(twice, Noise(SeededBits(1))).horizon("gradient")


def test_the_profile_at_its_ends() -> None:
    """Out of range nothing is promised; where every total variation is below delta, epsilon is 0."""
    curves = RandomIterate(5).curves(1e6)
    assert curves.epsilon is not None
    assert (curves.epsilon(1e-13), curves.epsilon(1e-2)) == (math.inf, 0.0)
    coarse = RandomIterate(5).curves(1e-6)
    assert coarse.epsilon is not None
    assert coarse.epsilon(1e-2) == math.inf
