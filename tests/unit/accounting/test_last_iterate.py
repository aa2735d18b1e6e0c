"""T_eff against its closed form, exact rationals and a least norm; one use is one Gaussian event."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian, LastIterate
from accounting.plan import Query
from tests.reference.normal import Vector


def _exactly(steps: int, contraction: float) -> Fraction:
    c = Fraction(contraction)
    powers = [c**j for j in range(steps)]
    return Fraction(sum(powers)) ** 2 / sum(p * p for p in powers)


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "contraction"), [(10, 0.9), (50, 0.95), (200, 0.926), (7, 0.0), (1, 0.3), (40, 1.0)])
def test_effective_steps_are_rounded_up_and_no_more(steps: int, contraction: float) -> None:
    exact, effective_steps = _exactly(steps, contraction), LastIterate(steps, contraction).effective_steps
    assert exact <= Fraction(effective_steps) <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.slow
@given(st.integers(1, 120), st.floats(0.0, 1.0))
@settings(max_examples=25, deadline=None)
def test_never_below_the_exact_number(steps: int, contraction: float) -> None:
    assert _exactly(steps, contraction) <= Fraction(LastIterate(steps, contraction).effective_steps)


def test_the_closed_form_and_its_ends() -> None:
    """(1-c^T)/(1+c^T) (1+c)/(1-c): one step costs one, no contraction all of them, full contraction one."""
    for steps, c in ((1500, 25 / 27), (20, 0.5), (1_000_000, 0.999)):
        closed = (1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)
        assert LastIterate(steps, c).effective_steps == pytest.approx(closed, rel=1e-8)
    assert LastIterate(1, 0.7).effective_steps == pytest.approx(1.0)
    assert LastIterate(900, 1.0).effective_steps == pytest.approx(900)
    assert LastIterate(1_000_000, 1 - 1e-13).effective_steps == pytest.approx(1e6, rel=1e-6)
    assert LastIterate(900, 0.0).effective_steps == pytest.approx(1.0)


@pytest.mark.parametrize(("steps", "contraction"), [(10, 0.9), (50, 0.95), (200, 0.926)])
def test_it_is_the_least_sum_of_squares_that_brings_two_runs_together(steps: int, contraction: float) -> None:
    """min sum a_k^2 with z_0 = 0, z_(k+1) = c z_k + 1 - a_(k+1), z_T = 0: the recursion is run."""

    def end(a: Vector) -> float:
        z = 0.0
        for part in a:
            z = contraction * z + 1 - float(part)
        return z

    alone = end(np.zeros(steps))
    effect = np.array([[end(unit) - alone for unit in np.eye(steps)]])
    solution = np.linalg.lstsq(effect, np.array([-alone]), rcond=None)[0]
    assert abs(end(solution)) < 1e-10
    # some 1e3 roundings of 1e-16 each, as each of the two ends is run: 1e-10 leaves room for any order of summation
    assert LastIterate(steps, contraction).effective_steps == pytest.approx(float(solution @ solution), rel=1e-10)


def test_covertype_needs_seven_and_a_half_times_less_noise_than_composition() -> None:
    """docs/spec 3: lambda = 1e-2, M = .26, eta = 2/(M + lambda): c = 25/27, T_eff = 26 instead of 1500."""
    eta = 2 / 0.27
    c = max(abs(1 - eta * 0.01), abs(1 - eta * 0.26))
    for privacy in (Privacy(0.2, 1e-3), Privacy(1.0, 1e-6)):
        (hidden,) = calibrate((Query("last", 1, LastIterate(1500, c)),), privacy).plan.queries
        (open_,) = calibrate((Query("all", 1500, Gaussian()),), privacy).plan.queries
        assert open_.noise_multiplier / hidden.noise_multiplier == pytest.approx(math.sqrt(1500 / 26), rel=1e-6)
        assert 7.59 < open_.noise_multiplier / hidden.noise_multiplier < 7.60


def test_the_prox_contracts_to_the_same_cost() -> None:
    """The ridge in the prox, eta = 2/L: T_eff = L/lambda + 1, as M/lambda with it in the smooth part."""
    c = 1 / (1 + 2 / 0.25 * 0.01)
    assert LastIterate(10**5, c).effective_steps == pytest.approx(26.0)


def test_curves_are_those_of_one_gaussian() -> None:
    mechanism = LastIterate(30, 0.8)
    mu = mechanism.curves(5.0).gdp or math.nan
    assert mu == pytest.approx(2 / 5 * math.sqrt(mechanism.effective_steps))
    assert mechanism.curves(mechanism.multiplier(0.04)).gdp == pytest.approx(0.2)
    assert mechanism.curves(5.0).rdp([3.0])[0] == pytest.approx(3 * mu**2 / 2)
    assert mechanism.answers == 1
    assert mechanism.curves(5.0).pure is None
    assert 1 / math.sqrt(mechanism.effective_steps) * 5.0 == pytest.approx(2 / mu)


@pytest.mark.parametrize(("steps", "contraction"), [(0, 0.5), (10**7, 0.5), (3, -1e-9), (3, 1.1), (3, math.nan)])
def test_out_of_range(steps: int, contraction: float) -> None:
    with pytest.raises(OutOfRange):
        LastIterate(steps, contraction)
