"""Laws that every mechanism and accountant obeys."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting import Privacy
from accounting.accountants import ACCOUNTANTS, Accountant
from accounting.calibration import calibrate, certify
from accounting.mechanisms import Gaussian, Mechanism, PoissonGaussian, SvrgStep, WithoutReplacement
from accounting.plan import Plan, PlannedQuery, Query

batches = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))
mechanisms: st.SearchStrategy[Mechanism] = st.one_of(
    st.just(Gaussian()),
    st.floats(1e-4, 1.0).map(PoissonGaussian),
    batches.map(lambda sizes: WithoutReplacement(*sizes)),
    batches.map(lambda sizes: SvrgStep(*sizes)),
)
multipliers = st.floats(0.3, 1e4)
orders = st.lists(st.floats(1.01, 200.0), min_size=1, max_size=4)


@given(mechanisms, multipliers, st.integers(1, 10_000), orders)
@settings(max_examples=40, deadline=None)
def test_rdp_of_k_uses_is_k_times_rdp_of_one(m: Mechanism, z: float, k: int, a: list[float]) -> None:
    assert np.allclose(Plan((PlannedQuery("q", k, m, z),)).rdp(a), k * m.rdp(z, a), rtol=1e-12)


@given(mechanisms, multipliers, orders)
@settings(max_examples=40, deadline=None)
def test_curves_are_positive_finite_and_fall_with_noise(m: Mechanism, z: float, a: list[float]) -> None:
    curve, quieter = m.rdp(z, a), m.rdp(z * 1.1, a)
    assert np.isfinite(curve).all()
    assert np.all(curve > 0)
    assert np.all(quieter <= curve)


@given(st.floats(1e-4, 0.99), multipliers, orders)
@settings(max_examples=40, deadline=None)
def test_sampling_never_costs_more_than_not_sampling(q: float, z: float, a: list[float]) -> None:
    assert np.all(PoissonGaussian(q).rdp(z, a) <= Gaussian().rdp(z, a) * (1 + 2e-6))


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: a.name)
@given(z=st.floats(0.8, 100.0), q=st.floats(0.01, 1.0), count=st.integers(1, 200), delta=st.floats(1e-8, 1e-2))
@settings(max_examples=12, deadline=None)
def test_epsilon_is_monotone(accountant: Accountant, z: float, q: float, count: int, delta: float) -> None:
    """More answers, less noise or a smaller delta never lower epsilon."""
    mechanism: Mechanism = Gaussian() if accountant.name == "exact_gaussian" else PoissonGaussian(q)
    plan = Plan((PlannedQuery("q", count, mechanism, z),))
    if not accountant.supports(plan, delta):
        return
    epsilon = accountant.epsilon(plan, delta)
    assert epsilon >= 0
    assert not math.isnan(epsilon)
    for worse, d in (
        (Plan((PlannedQuery("q", count + 1, mechanism, z),)), delta),
        (Plan((PlannedQuery("q", count, mechanism, z / 1.2),)), delta),
        (plan, delta / 2),
    ):
        if accountant.supports(worse, d):
            assert accountant.epsilon(worse, d) >= epsilon * (1 - 1e-3)


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
