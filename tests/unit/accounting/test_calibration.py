"""Calibrated plans meet their target by every check at hand, and use it up."""

import itertools
import math

import pytest

from accounting import Privacy
from accounting.accountants import PldAccountant, RdpAccountant
from accounting.accountants.gaussian import gauss_mu
from accounting.calibration import calibrate, certify
from accounting.errors import CalibrationFailed, OutOfRange
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Plan, PlannedQuery, Query
from tests.support.reference import reference

TARGETS = list(itertools.product([0.2, 1.0, 4.0], [1e-8, 1e-6, 1e-3]))


def svrg(rate: float = 0.005, epochs: int = 5, steps: int = 40) -> tuple[Query, ...]:
    return (
        Query("snapshot", epochs, Gaussian(), 0.25),
        Query("change", epochs * steps, PoissonGaussian(rate), 0.75),
    )


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_full_gradients_take_the_exact_gaussian(epsilon: float, delta: float) -> None:
    release = calibrate([Query("gradient", 300, Gaussian())], Privacy(epsilon, delta))
    assert release.accountant == "exact_gaussian"
    assert release.plan.gdp() == pytest.approx(gauss_mu(epsilon, delta), rel=1e-6)
    assert epsilon * (1 - 1e-6) <= release.epsilon <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_sampled_plans_take_the_least_noise(epsilon: float, delta: float) -> None:
    release = calibrate(svrg(), Privacy(epsilon, delta))
    assert release.accountant == "pld"
    assert epsilon * (1 - 1e-3) <= release.epsilon <= epsilon
    assert RdpAccountant().epsilon(release.plan, delta) > epsilon
    finer = PldAccountant(coarseness=0.25).epsilon(release.plan, delta)
    assert epsilon * (1 - 2e-3) <= finer <= release.epsilon * (1 + 1e-9)


def test_below_the_floor_of_float_fft_renyi_takes_over() -> None:
    assert calibrate(svrg(0.05), Privacy(0.5, 1e-12)).accountant == "rdp"


def test_noise_agrees_with_the_reference_pld() -> None:
    """The reference composes its own masses; the two must agree within their grids."""
    ref = reference("accountants")
    release = calibrate(svrg(), Privacy(1.0, 1e-6))
    snapshot, change = release.plan.queries
    pld = ref.pld_poisson_replace(0.005, 1 / change.noise_multiplier, 1e-4).self_compose(change.count)
    pld = pld.compose(ref.pld_gauss(2 / snapshot.noise_multiplier * math.sqrt(snapshot.count), 1e-4))
    assert pld.get_epsilon_for_delta(1e-6) == pytest.approx(release.epsilon, rel=2e-3)


def test_table_of_the_specification() -> None:
    """Section 2.4: inner noise .0118 G at (1, 1e-6), b = 1000, n = 2e5, K = 75000, snapshots with 4 % of mu^2."""
    queries = (Query("snapshot", 15, Gaussian(), 0.04), Query("change", 75_000, PoissonGaussian(0.005), 0.96))
    release = calibrate(queries, Privacy(1.0, 1e-6))
    assert release.plan.query("change").noise_multiplier / 1000 == pytest.approx(0.0118, rel=0.02)


def test_shares_follow_the_weights() -> None:
    release = calibrate([Query("a", 10, Gaussian(), 1.0), Query("b", 40, Gaussian(), 3.0)], Privacy(1.0, 1e-6))
    spent = {q.name: q.count * (2 / q.noise_multiplier) ** 2 for q in release.plan.queries}
    assert spent["b"] / spent["a"] == pytest.approx(3.0)


def test_no_gaussian_at_delta_zero() -> None:
    with pytest.raises(CalibrationFailed):
        calibrate([Query("gradient", 1, Gaussian())], Privacy(1.0))


def test_names_are_distinct_and_counts_are_counts() -> None:
    with pytest.raises(OutOfRange):
        calibrate([Query("a", 1, Gaussian()), Query("a", 1, Gaussian())], Privacy(1.0, 1e-6))
    for count in (0, -1, True, 1.0, 10**10):
        with pytest.raises(OutOfRange):
            Query("a", count, Gaussian())  # type: ignore[arg-type]


def test_a_plan_covers_what_it_holds_and_no_more() -> None:
    plan = Plan((PlannedQuery("a", 10, Gaussian(), 4.0),))
    assert plan.covers(plan)
    assert plan.covers(Plan(()))
    assert plan.covers(Plan((PlannedQuery("a", 9, Gaussian(), 4.0),)))
    for other in (
        PlannedQuery("a", 11, Gaussian(), 4.0),
        PlannedQuery("a", 10, Gaussian(), 3.9),
        PlannedQuery("b", 10, Gaussian(), 4.0),
        PlannedQuery("a", 10, PoissonGaussian(1.0), 4.0),
    ):
        assert not plan.covers(Plan((other,)))


def test_certify_names_the_least() -> None:
    plan = calibrate(svrg(), Privacy(1.0, 1e-6)).plan
    epsilon, accountant = certify(plan, 1e-6)
    assert accountant.name == "pld"
    assert epsilon <= 1.0
