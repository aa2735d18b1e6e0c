"""Laws that every mechanism and accountant obeys."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting import Privacy
from accounting.accountants import ACCOUNTANTS, Accountant
from accounting.calibration import calibrate, certify
from accounting.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    PoissonGaussian,
    RandomIterate,
)
from accounting.plan import Plan, PlannedQuery, Query

multipliers = st.floats(0.3, 1e4)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: a.name)
@given(z=st.floats(0.8, 100.0), q=st.floats(0.01, 1.0), count=st.integers(1, 200), delta=st.floats(1e-8, 1e-2))
@settings(max_examples=12, deadline=None)
def test_epsilon_is_monotone(accountant: Accountant, z: float, q: float, count: int, delta: float) -> None:
    """More answers, less noise or a smaller delta never lower epsilon."""
    own: dict[str, Mechanism] = {"exact_gaussian": Gaussian(), "pure": Laplace()}
    mechanism = own.get(accountant.name, PoissonGaussian(q))
    if accountant.name == "single_use":
        count, mechanism = 1, RandomIterate(count + 1)
    plan = Plan((PlannedQuery("q", count, mechanism, z),))
    epsilon = accountant.epsilon(plan, delta)
    if math.isinf(epsilon):
        return
    assert epsilon >= 0
    assert not math.isnan(epsilon)
    for worse, d in (
        (Plan((PlannedQuery("q", count + 1, mechanism, z),)), delta),
        (Plan((PlannedQuery("q", count, mechanism, z / 1.2),)), delta),
        (plan, delta / 2),
    ):
        assert accountant.epsilon(worse, d) >= epsilon * (1 - 1e-3)


@given(st.integers(1, 10_000), st.floats(0.0, 1.0), multipliers)
def test_a_last_iterate_costs_at_least_one_step_and_at_most_all_steps(steps: int, c: float, z: float) -> None:
    values = [mechanism.curves(z).gdp for mechanism in (Gaussian(), LastIterate(steps, c), LastIterate(steps + 1, c))]
    first, last, later = (mu or math.nan for mu in values)
    assert first * (1 - 1e-12) <= last <= first * math.sqrt(steps) * (1 + 1e-10)
    assert last <= later * (1 + 1e-10)


@given(
    epsilon=st.floats(1e-3, 100.0),
    delta=st.one_of(st.just(0.0), st.floats(1e-12, 1e-2)),
    mechanism=st.sampled_from([Laplace(), Exponential()]),
    count=st.integers(1, 300),
    weight=st.floats(0.05, 20.0),
)
@settings(max_examples=15, deadline=None)
def test_pure_plans_are_certified_at_every_delta(
    epsilon: float, delta: float, mechanism: Mechanism, count: int, weight: float
) -> None:
    """And never cost more than at delta = 0."""
    queries = (Query("one", 1, Laplace()), Query("many", count, mechanism, weight))
    release = calibrate(queries, Privacy(epsilon, delta))
    assert release.epsilon <= epsilon
    assert certify(release.plan, delta)[0] <= epsilon
    plain = calibrate(queries, Privacy(epsilon)).plan.gdp_bound()
    mine = release.plan.gdp_bound()
    assert plain is not None
    assert mine is not None
    assert mine >= plain * (1 - 1e-9)  # the same plan, found by another search


@pytest.mark.slow
@given(
    epsilon=st.floats(0.01, 20.0),
    delta=st.floats(1e-9, 1e-3),
    rate=st.floats(1e-3, 1.0),
    count=st.integers(1, 300),
    weight=st.floats(0.05, 20.0),
)
@settings(max_examples=15, deadline=None)
def test_calibrated_plans_are_certified(epsilon: float, delta: float, rate: float, count: int, weight: float) -> None:
    queries = (Query("full", 3, Gaussian()), Query("batch", count, PoissonGaussian(rate), weight))
    release = calibrate(queries, Privacy(epsilon, delta))
    assert release.epsilon <= epsilon
    assert certify(release.plan, delta)[0] <= epsilon
