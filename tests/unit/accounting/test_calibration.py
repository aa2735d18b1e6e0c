"""Calibrated plans meet their target by every accountant, and use almost all of it."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import PldAccountant, RdpAccountant
from accounting.calibration import calibrate, certify
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import CalibrationFailed, OutOfRange, Unsupported
from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian, RandomIterate, RowObjectivePerturbation
from accounting.mechanisms.mechanism import Curves
from accounting.plan import Plan, PlannedQuery, Query
from accounting.records.recomputation import recompute_plan
from accounting.search import Point, SearchResult, largest
from accounting.strategies import Proposal
from tests.reference import losses

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


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), TARGETS[::2])
def test_sampled_plans_take_the_least_noise(epsilon: float, delta: float) -> None:
    release = calibrate(svrg(), Privacy(epsilon, delta))
    assert release.accountant == "pld"
    assert epsilon * (1 - 1e-3) <= release.epsilon <= epsilon
    assert RdpAccountant().epsilon(release.plan, delta) > epsilon
    finer = PldAccountant(coarseness=0.25).epsilon(release.plan, delta)
    assert epsilon * (1 - 2e-3) <= finer <= release.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", [PoissonGaussian(0.01), RandomIterate(10)])
def test_a_search_that_goes_too_far_gives_no_plan(
    mechanism: PoissonGaussian | RandomIterate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accountant must confirm the exact plan that is returned."""

    def eager(
        share: Callable[[float], float], guess: float, close: float, like: Sequence[Point] = (), rough: bool = False
    ) -> SearchResult:
        result = largest(share, guess, close, like, rough)
        return replace(result, total=1.01 * result.total)

    monkeypatch.setattr("accounting.strategies.largest", eager)
    with pytest.raises(CalibrationFailed, match="did not confirm"):
        calibrate([Query("answer", 1, mechanism)], Privacy(1.03, 1e-6))


POISSON = PoissonGaussian(0.01)
PLANNED = Plan((PlannedQuery("answer", 1, POISSON, 30.0),))


@pytest.mark.parametrize(
    "proposed",
    [
        Proposal(PLANNED, PldAccountant(coarseness=0.25)),
        Proposal(PLANNED, PldAccountant(error_share=-1e5)),
        Proposal(replace(PLANNED, relation="zero_out"), RdpAccountant()),
        Proposal(replace(PLANNED, queries=()), RdpAccountant()),
        Proposal(Plan((PlannedQuery("answer", 1, Gaussian(), 30.0),)), RdpAccountant()),
        Proposal(Plan((PlannedQuery("answer", 2, POISSON, 30.0),)), RdpAccountant()),
    ],
)
def test_only_the_requested_queries_and_a_standard_accountant_are_certified(
    proposed: Proposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounting.calibration.propose", lambda _: proposed)
    with pytest.raises(CalibrationFailed):
        calibrate([Query("answer", 1, POISSON)], Privacy(1.07, 1e-6))


def test_a_plan_of_the_requested_queries_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounting.calibration.propose", lambda _: Proposal(PLANNED, RdpAccountant()))
    assert calibrate([Query("answer", 1, POISSON)], Privacy(1.08, 1e-6)).plan == PLANNED


def test_all_renyi_orders_are_evaluated_once_if_losses_admit_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One evaluation suffices if Renyi accounting does not admit a plan, because its epsilon grows with the total."""
    plans: list[Plan] = []
    whole = RdpAccountant.epsilon

    def epsilon(self: RdpAccountant, plan: Plan, delta: float) -> float:
        if self == RdpAccountant():
            plans.append(plan)
        return whole(self, plan, delta)

    monkeypatch.setattr(RdpAccountant, "epsilon", epsilon)
    release = calibrate([Query("steps", 60, PoissonGaussian(0.2))], Privacy(7.97, 1e-9))
    assert release.accountant == "pld"
    assert len(plans) == 1
    assert whole(RdpAccountant(), plans[0], 1e-9) > 7.97


def test_the_renyi_accountant_rounds_up() -> None:
    """Compare with 40 digits. Noise multipliers have exact binary fractions, so the exact sum is known."""
    accountant, delta = RdpAccountant(), 2.0**-20
    for count, z in itertools.product((1, 3, 7, 1000), (0.75, 1.5, 3.25, 11.0, 1024.0)):
        plan = Plan((PlannedQuery("answers", count, Gaussian(), z),))
        with mpmath.workdps(40):
            orders = [mpmath.mpf(a) for a in accountant.orders]
            curve = [count * a * (2 / mpmath.mpf(z)) ** 2 / 2 for a in orders]
            converted = [
                rho + mpmath.log(1 - 1 / a) - mpmath.log(a * delta) / (a - 1)
                for a, rho in zip(orders, curve, strict=True)
            ]
            exact = max(mpmath.mpf(0), min(converted))
            assert exact <= accountant.epsilon(plan, delta) <= exact * (1 + mpmath.mpf("1e-11"))


@pytest.mark.slow
def test_below_the_floor_of_float_fft_renyi_takes_over() -> None:
    assert calibrate(svrg(0.05), Privacy(0.5, 1e-12)).accountant == "rdp"


@pytest.mark.slow
def test_noise_agrees_with_the_reference_pld() -> None:
    """The reference composes its own masses; the two must agree within their grids."""
    release = calibrate(svrg(), Privacy(1.0, 1e-6))
    snapshot, change = release.plan.queries
    pld = losses.poisson(0.005, 1 / change.noise_multiplier, 1e-4).self_compose(change.count)
    pld = pld.compose(losses.gaussian(2 / snapshot.noise_multiplier * math.sqrt(snapshot.count), 1e-4))
    assert pld.get_epsilon_for_delta(1e-6) == pytest.approx(release.epsilon, rel=2e-3)


@pytest.mark.slow
def test_table_of_the_specification() -> None:
    """Section 2.4: inner noise .0118 G at (1, 1e-6), b = 1000, n = 2e5, K = 75000, snapshots with 4 % of mu^2."""
    queries = (Query("snapshot", 15, Gaussian(), 0.04), Query("change", 75_000, PoissonGaussian(0.005), 0.96))
    release = calibrate(queries, Privacy(1.0, 1e-6))
    assert release.plan.query("change").noise_multiplier / 1000 == pytest.approx(0.0118, rel=0.02)


def test_shares_follow_the_weights() -> None:
    release = calibrate([Query("a", 10, Gaussian(), 1.0), Query("b", 40, Gaussian(), 3.0)], Privacy(1.0, 1e-6))
    spent = {q.name: q.count * (2 / q.noise_multiplier) ** 2 for q in release.plan.queries}
    assert spent["b"] / spent["a"] == pytest.approx(3.0)


HARD = [
    # found by review: counts that a float FFT cannot carry, searches that crept, grids too large, tiny delta
    (((10**6, 0.01, 1.0),), 1.0, 1e-9),
    (((10**8, 0.01, 1.0),), 1.0, 1e-6),
    (((5, 1.0, 0.33), (10, 1e-4, 0.67)), 10.0, 1e-7),
    (((3719, 1.02e-6, 1.0),), 12.5, 8.63e-11),
    (((414, 0.000628, 1.0),), 0.978, 9.74e-8),
    (((1, 1.0, 0.25), (1000, 1e-4, 0.75)), 1.0, 1e-7),
    (((1, 0.5, 1.0),), 0.03, 1e-10),
    (((1000, 0.01, 1.0),), 0.03, 5e-10),
    (((10, 0.99, 1.0),), 0.02, 5e-10),
    (((5, 0.1, 1.0),), 0.001, 1e-12),
    (((5, 1.0, 0.25), (10, 1e-4, 0.75)), 10.0, 1e-10),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "epsilon", "delta"), HARD)
def test_hard_targets_are_met_and_used_up(
    shape: tuple[tuple[int, float, float], ...], epsilon: float, delta: float
) -> None:
    queries = [
        Query(f"q{j}", count, Gaussian() if rate == 1 else PoissonGaussian(rate), weight)
        for j, (count, rate, weight) in enumerate(shape)
    ]
    release = calibrate(queries, Privacy(epsilon, delta))
    assert 0.95 * epsilon <= release.epsilon <= epsilon


def test_pld_is_not_used_beyond_the_accuracy_of_its_fft() -> None:
    """dp-accounting's power of a transform is off by up to 3.1e-16 in delta for every use."""
    for count, delta, supported in ((100_000, 1e-6, True), (300_000, 1e-6, False), (100_000, 2e-9, False)):
        plan = Plan((PlannedQuery("a", count, PoissonGaussian(0.01), 100.0),))
        assert (PldAccountant().epsilon(plan, delta) < math.inf) is supported


def test_unsupported_plans_are_refused_by_name() -> None:
    gaussian = Plan((PlannedQuery("a", 1, Gaussian(), 1.0),))
    laplace = Plan((PlannedQuery("a", 1, Laplace(), 1.0),))
    empty = Plan(())
    for plan, delta in ((empty, 1e-6), (gaussian, 0.0), (laplace, -1.0), (laplace, math.nan), (gaussian, -1.0)):
        with pytest.raises(Unsupported):
            certify(plan, delta)
    assert recompute_plan(empty, 1.0, 1e-6) is None
    loud = Plan((PlannedQuery("a", 1, Gaussian(), 0.05),))
    assert certify(loud, 1e-6)[1].name == "exact_gaussian"


def test_a_curve_that_is_no_number_certifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan((PlannedQuery("a", 1, PoissonGaussian(0.01), 1.0),))
    nowhere = Curves(lambda orders: np.full(len(orders), np.nan))
    monkeypatch.setattr(PoissonGaussian, "curves", lambda *_: nowhere)
    with pytest.raises(OutOfRange):
        RdpAccountant().epsilon(plan, 1e-6)


@pytest.mark.parametrize("weight", [0.0, 5e-324, 1e308, math.nan, -1.0])
def test_weights_are_bounded(weight: float) -> None:
    with pytest.raises(OutOfRange):
        Query("a", 1, Gaussian(), weight)


def test_a_target_that_no_noise_meets_is_refused() -> None:
    """The mechanism's own part uses all of epsilon, so the search ends at 0, which is not a total."""
    with pytest.raises(CalibrationFailed, match="no noise"):
        calibrate((Query("a", 1, RowObjectivePerturbation(1e3)), Query("b", 1, Gaussian())), Privacy(1.0, 1e-6))


def test_names_are_distinct() -> None:
    with pytest.raises(OutOfRange):
        calibrate([Query("a", 1, Gaussian()), Query("a", 1, Gaussian())], Privacy(1.0, 1e-6))


def test_a_plan_covers_its_own_queries_and_no_more() -> None:
    plan = Plan((PlannedQuery("a", 10, Gaussian(), 4.0),))
    assert plan.covers(plan)
    assert plan.covers(Plan(()))
    assert plan.covers(Plan((PlannedQuery("a", 9, Gaussian(), 4.0),)))
    assert not plan.covers(Plan((PlannedQuery("a", 5, Gaussian(), 4.0), PlannedQuery("a", 5, Gaussian(), 4.0))))
    for query in (
        PlannedQuery("a", 11, Gaussian(), 4.0),
        PlannedQuery("a", 10, Gaussian(), 3.9),
        PlannedQuery("b", 10, Gaussian(), 4.0),
        PlannedQuery("a", 10, PoissonGaussian(1.0), 4.0),
    ):
        assert not plan.covers(Plan((query,)))
