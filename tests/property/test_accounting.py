"""Laws that every mechanism and accountant obeys."""

import math

import numpy as np
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
    SvrgStep,
    WithoutReplacement,
)
from accounting.plan import Plan, PlannedQuery, Query

batches = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))
mechanisms: st.SearchStrategy[Mechanism] = st.one_of(
    st.sampled_from([Gaussian(), Laplace(), Exponential()]),
    st.floats(1e-4, 1.0).map(PoissonGaussian),
    st.builds(LastIterate, st.integers(1, 10_000), st.floats(0.0, 1.0)),
    st.integers(2, 10_000).map(RandomIterate),
    batches.map(lambda sizes: WithoutReplacement(*sizes)),
    batches.map(lambda sizes: SvrgStep(*sizes)),
)
multipliers = st.floats(0.3, 1e4)
orders = st.lists(st.floats(1.01, 200.0), min_size=1, max_size=4)


@pytest.mark.slow
@given(mechanisms, multipliers, st.integers(1, 10_000), orders)
@settings(max_examples=40, deadline=None)
def test_rdp_of_k_uses_is_k_times_rdp_of_one(m: Mechanism, z: float, k: int, a: list[float]) -> None:
    assert np.allclose(Plan((PlannedQuery("q", k, m, z),)).rdp(a), k * m.curves(z).rdp(a), rtol=1e-12)


@given(mechanisms, multipliers, orders)
@settings(max_examples=40, deadline=None)
def test_curves_are_positive_finite_and_fall_with_noise(m: Mechanism, z: float, a: list[float]) -> None:
    curve, quieter = m.curves(z).rdp(a), m.curves(z * 1.1).rdp(a)
    assert np.isfinite(curve).all()
    assert np.all(curve > 0)
    assert np.all(quieter <= curve * (1 + 1e-12))  # where both are the unsampled one, to a few roundings


@given(st.floats(1e-4, 0.99), multipliers, orders)
@settings(max_examples=40, deadline=None)
def test_sampling_never_costs_more_than_not_sampling(q: float, z: float, a: list[float]) -> None:
    assert np.all(PoissonGaussian(q).curves(z).rdp(a) <= Gaussian().curves(z).rdp(a) * (1 + 2e-6))


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
