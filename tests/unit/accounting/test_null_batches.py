"""Batches without replacement in which one record becomes null, compared with other calculations of the pair."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy import integrate

from accounting import Privacy
from accounting.accountants import guard
from accounting.calibration import calibrate, certify
from accounting.charges import exact_mixed
from accounting.divergences import null_batches
from accounting.divergences.gaussian import gauss_delta
from accounting.divergences.losses import Loss
from accounting.divergences.null_batches import NullBatchLoss, null_spread
from accounting.filter import Filter
from accounting.mechanisms import (
    Gaussian,
    Mechanism,
    PoissonGaussian,
    RandomAllocation,
    SvrgStep,
    WithoutReplacement,
)
from accounting.mechanisms.mechanism import Curves
from accounting.mechanisms.without_replacement import WithoutReplacementLoss
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import Relation
from accounting.records.receipt import recompute
from tests.support.receipts import make

RATES = [(0.01, 0.5), (0.3, 0.1), (1e-5, 1.2), (0.999, 0.3), (0.5, 2.0)]


def normal(x: np.ndarray, mean: float) -> np.ndarray:
    return np.asarray(np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi))


def profile(q: float, c: float, gamma: float, mirrored: bool) -> float:
    """Return the statement's bound for gamma >= 1. If mirrored, null is in the first dataset."""
    if mirrored:
        return q * gauss_delta(c, math.log1p((gamma - 1) / q))
    low = 1.5 * c
    while (1 - q) * (gamma - 1) + q * (gamma * math.exp(c * low - c * c / 2) - math.exp(2 * c * low - 2 * c * c)) > 0:
        low += 1e-4

    def over(x: float) -> float:
        point = np.array([x])
        both = [(1 - q) * normal(point, 0) + q * normal(point, mean) for mean in (2 * c, c)]
        return float((both[0] - gamma * both[1])[0])

    return float(integrate.quad(over, low, low + 12 + 2 * c, limit=200, points=[2 * c])[0])


@pytest.mark.slow
@pytest.mark.parametrize(("q", "c", "order"), [(0.2, 0.7, 1.1), (0.2, 0.7, 7.0), (1e-5, 2.0, 3.0), (0.99, 0.2, 2.0)])
def test_the_curve_by_high_precision_integration(q: float, c: float, order: float) -> None:
    """Neither order of the neighbors is above the curve, and one of them is next to it."""

    def exact(mirrored: bool) -> mpmath.mpf:
        def excess(y: mpmath.mpf) -> mpmath.mpf:
            highest, middle, lowest = (mpmath.npdf(y + shift * c) for shift in (-0.5, 0.5, 1.5))
            first = q * highest + (1 - q) * lowest, q * middle + (1 - q) * lowest
            second = q * highest + (1 - q) * middle, middle
            (a, b), (e, f) = (second, first) if mirrored else (first, second)
            return a**order * b ** (1 - order) - a + f**order * e ** (1 - order) - f

        return mpmath.log1p(mpmath.quad(excess, range(int(2 * order * c + 4 * c + 12)))) / (order - 1)

    with mpmath.workdps(25):
        expected = max(exact(False), exact(True))
    actual = null_batches.renyi(q, c, [order])[0]
    assert expected < actual < expected * (1 + 2e-6)


@pytest.mark.parametrize(("q", "c"), RATES)
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_profile_of_one_answer_is_the_theorems(q: float, c: float, mirrored: bool) -> None:
    """Compare at epsilons of both signs. The masses on the grid only enlarge the profile."""
    loss = NullBatchLoss(q, c, mirrored)
    pmf = guard.pessimistic_pmf(*loss.masses(min(0.01, loss.deviation / 20)))
    for epsilon in (0.0, 0.3 * min(loss.deviation, 2.0), 2 * min(loss.deviation, 2.0)):
        gamma = math.exp(epsilon)
        exact, opposite = (profile(q, c, gamma, order) for order in (mirrored, not mirrored))
        delta = float(pmf.get_delta_for_epsilon(epsilon))
        assert exact * (1 - 1e-8) - 1e-13 <= delta <= exact * 1.02 + 1e-16
        expected = 1 - 1 / gamma + opposite / gamma
        assert expected - 1e-12 <= float(pmf.get_delta_for_epsilon(-epsilon)) <= expected + 0.01 * exact + 1e-12


def product_divergence(first: np.ndarray, second: np.ndarray, gamma: float, step: float) -> float:
    """Return H_gamma of two independent answers, whose densities on a grid are rows of (P, Q)."""
    p, q = (np.multiply.outer(first[k], second[k]) for k in (0, 1))
    return float(np.maximum(p - gamma * q, 0.0).sum() * step * step)


def test_answers_on_datasets_that_take_turns_stay_below_the_composition() -> None:
    """Compose answers whose worst orders of the neighbors differ. The composition covers each order."""
    q, c = 0.3, 1.0
    x, step = np.linspace(-9.0, 11.0, 1501, retstep=True)
    base, shifted, twice_shifted = (normal(x, mean) for mean in (0.0, c, 2 * c))
    # The worst case from the record to the null record.
    with_record = np.array([(1 - q) * base + q * twice_shifted, (1 - q) * base + q * shifted])
    with_null = np.array([base, (1 - q) * base + q * shifted])  # the worst from null to the record, in this order
    losses = NullBatchLoss(q, c), NullBatchLoss(q, c, mirrored=True)
    pmfs = [guard.pessimistic_pmf(*loss.masses(2e-3)).self_compose(2) for loss in losses]
    for epsilon in (0.3, 0.8):
        gamma = math.exp(epsilon)
        composed = [float(pmf.get_delta_for_epsilon(epsilon)) for pmf in pmfs]
        pairs = [(with_record, with_record), (with_record, with_null), (with_null, with_null)]
        forward = [product_divergence(*pair, gamma, step) for pair in pairs]
        backward = [product_divergence(pair[0][::-1], pair[1][::-1], gamma, step) for pair in pairs]
        assert max(forward) <= composed[0] * (1 + 1e-6)
        assert max(backward) <= composed[1] * (1 + 1e-6)
        assert backward[2] > backward[0]  # so the pair of one order does not cover the opposite order


def test_the_curve_and_the_masses_at_the_ends_of_their_ranges() -> None:
    orders = [1.01, 1.5, 2.0, 20.0, 64.0, 300.0, 1e4, 1e5]
    for batch, rows in ((1, 10**10), (1, 2), (7, 1000), (199_999, 200_000)):
        mechanism = WithoutReplacement(batch, rows)
        for z in (1e-3, 0.1, 0.3, 1.0, 30.0, 1e6, 1e12):
            null_curves, replacement_curves = (
                mechanism.curves(z, relation) for relation in ("zero_out", "replace_one")
            )
            curve = null_curves.rdp(orders)
            assert (curve > 0).all()
            assert (np.diff(curve) >= -1e-5 * curve[1:]).all()
            assert (curve <= Gaussian().curves(z, "zero_out").rdp(orders) * (1 + 1e-12)).all()
            assert (curve <= replacement_curves.rdp(orders) * (1 + 1e-9)).all()
            for loss in (*null_curves.losses, *null_curves.mirrored) if z >= 0.1 else ():
                masses = loss.masses(max(min(0.01, loss.deviation / 12), loss.widest / 2**18))
                assert masses.masses.min() >= 0
                assert 0 <= masses.infinity < 3e-18
                assert float(masses.masses.sum()) + masses.infinity == pytest.approx(1.0, abs=1e-12)
                reference = replacement_curves.losses[0]
                assert loss.widest / loss.deviation <= reference.widest / reference.deviation * (1 + 1e-3)


def test_the_spread_is_the_second_moment_of_many_answers() -> None:
    for c in (1e-6, 0.3, 1.0, 3.0):
        y, step = np.linspace(0.0, 8 * c + 14, 400_001, retstep=True)
        logs = [(y + shift) ** 2 / 2 - (y - c / 2) ** 2 - math.log(2 * math.pi) / 2 for shift in (1.5 * c, 0.5 * c)]
        expected = float((np.expm1(-c * y) ** 2 * (np.exp(logs[0]) + np.exp(logs[1]))).sum() * step)
        assert null_spread(c) == pytest.approx(expected, rel=1e-4)
    mechanism = WithoutReplacement(1000, 200_000)
    z = mechanism.multiplier(0.25 / 10_000, "zero_out")
    limit = Plan((PlannedQuery("one", 1, Gaussian(), 2.0),), "zero_out")  # mu = 1/2
    many = Plan((PlannedQuery("k", 10_000, mechanism, z),), "zero_out")
    assert certify(many, 1e-4)[0] == pytest.approx(certify(limit, 1e-4)[0], rel=0.05)


def test_the_moments_of_the_loss_are_bounded() -> None:
    for q, c in (*RATES, (0.5, 5.0)):
        for mirrored in (False, True):
            loss = NullBatchLoss(q, c, mirrored)
            interval, lowest, masses, _ = loss.masses(min(5e-3, loss.deviation / 40))
            losses = (lowest + np.arange(len(masses))) * interval
            bounds = loss.moments(3)
            assert 3 * float(masses @ losses) <= bounds[0] * 1.01
            assert 3 * float(masses @ losses**2) <= bounds[1] * 1.01


@pytest.mark.parametrize("mechanism", [WithoutReplacement(50, 1000), SvrgStep(50, 1000)], ids=repr)
def test_a_null_record_costs_less_than_a_replacement(mechanism: WithoutReplacement | SvrgStep) -> None:
    """The noise was 1.45 to 2.11 times this, when a null record was charged as another one."""
    privacy, query = Privacy(1.0, 1e-6), Query("q", 200, mechanism)
    null_release, replacement_release = (
        calibrate((query,), privacy, relation) for relation in ("zero_out", "replace_one")
    )
    ratio = replacement_release.plan.queries[0].noise_multiplier / null_release.plan.queries[0].noise_multiplier
    assert 1.2 < ratio < 2.0
    assert null_release.accountant == "pld"


def as_before(mechanism: WithoutReplacement, z: float, relation: str = "replace_one") -> Curves:
    """Return the cost that was stated under either relation before null records had a pair of their own."""
    mu = (1.0 if relation == "zero_out" else 2.0) / z
    replacement_loss, loss = WithoutReplacementLoss(mechanism.rate, 2 / z), None
    return Curves(partial(_smaller_curve, mechanism, z, mu), gdp_bound=mu, losses=(replacement_loss,), rough=loss)


def _smaller_curve(mechanism: WithoutReplacement, z: float, mu: float, orders: list[float]) -> np.ndarray:
    return np.minimum(CURVES(mechanism, z).rdp(orders), np.asarray(orders) * mu * mu / 2)


CURVES = WithoutReplacement.curves
RULE = Filter.open("gdp_rdp", Privacy(3.0, 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "count"), [(1, 300), (100, 200), (9000, 20), (9999, 5)], ids=["one", "few", "most", "nearly all"]
)
def test_receipts_and_charges_of_before_still_hold(batch: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = (
        Query("q", count, WithoutReplacement(batch, 10_000)),
        Query("p", 30, PoissonGaussian(0.01)),
        Query("g", 2, Gaussian()),
    )
    for chosen in (queries[:1], queries):
        monkeypatch.setattr(WithoutReplacement, "curves", as_before)
        release = calibrate(chosen, Privacy(0.7, 1e-6), "zero_out")
        receipt, cost = make(release_plan=release, transcript=release.plan), RULE.cost(release.plan)
        monkeypatch.undo()
        assert recompute(receipt).is_within(release.epsilon)
        assert RULE.pays(cost, release.plan)


def test_a_charge_without_slack_pays_where_an_approximation_is_cheaper() -> None:
    plan = Plan((PlannedQuery("q", 50, WithoutReplacement(100, 1000), 4.0),), "zero_out")
    assert RULE.cost(plan)[-1] > 0
    paid = exact_mixed(plan, RULE.orders)
    assert RULE.pays(paid, plan)
    for at in range(len(paid) - 1):  # no coordinate may be smaller
        assert not RULE.pays((*paid[:at], paid[at] * 9 // 10, *paid[at + 1 :]), plan)


EXCESS = {  # (1 + x)^s - 1 - s x at s = order and at s = 1 - order, without cancellation
    2.0: (lambda x: x * x, lambda x: x * x / (1 + x)),
    3.0: (lambda x: x * x * (3 + x), lambda x: x * x * (3 + 2 * x) / (1 + x) ** 2),
}


@pytest.mark.parametrize(("batch", "rows", "c"), [(300, 1000, 1.0), (1, 10_000, 0.7), (19, 20, 0.2), (1, 2, 1e-4)])
@pytest.mark.parametrize("order", EXCESS)
def test_the_curve_at_whole_orders_by_closed_forms(batch: int, rows: int, c: float, order: float) -> None:
    """The sums are formed here on a fine grid. The order from the record to null has the larger divergence."""
    q = batch / rows
    y, step = np.linspace(0.0, (2 * order + 4) * c + 12, 400_001, retstep=True)
    base, third = normal(y, -c / 2), normal(y, -1.5 * c)
    lower, change = q * base + (1 - q) * third, q * base * np.expm1(c * y)
    up, down = EXCESS[order]
    first, second = change / lower, change / base
    forward = float((lower * up(first) + base * down(second)).sum() * step)
    backward = float((base * up(second) + lower * down(first)).sum() * step)
    assert backward <= forward
    expected = math.log1p(forward) / (order - 1)
    actual = WithoutReplacement(batch, rows).curves(1 / c, "zero_out").rdp([order])[0]
    assert expected * (1 - 1e-9) <= actual <= expected * (1 + 2e-6)


def delta_of(losses: tuple[Loss, ...], epsilon: float) -> float:
    """Return the profile of one use at an epsilon of either sign."""
    pmfs = [(guard.pessimistic_pmf(*loss.masses(1e-3)), 1) for loss in losses]
    return float(guard.compose(pmfs).get_delta_for_epsilon(epsilon))


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize(
    "mechanism", [PoissonGaussian(0.3), WithoutReplacement(30, 100), SvrgStep(30, 100), Gaussian()], ids=repr
)
def test_the_losses_of_the_opposite_order_are_the_mirror_image(mechanism: Mechanism, relation: Relation) -> None:
    """H_gamma(Q, P) = 1 - gamma + gamma H_(1/gamma)(P, Q). Without losses of its own, an order has the same."""
    curves = mechanism.curves(1.0, relation)
    for epsilon in (-0.5, -0.1, 0.2, 0.7):
        gamma = math.exp(epsilon)
        expected = 1 - gamma + gamma * delta_of(curves.losses, -epsilon)
        assert delta_of(curves.mirrored or curves.losses, epsilon) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("mechanism", [WithoutReplacement(999, 1000), SvrgStep(999, 1000)], ids=repr)
def test_an_answer_on_nearly_all_records_costs_its_gaussian_bound_at_most(
    mechanism: Mechanism, relation: Relation
) -> None:
    curves = mechanism.curves(1.0, relation)
    assert curves.gdp_bound is not None
    for epsilon in (0.1, 1.0, 3.0):
        delta = max(delta_of(losses, epsilon) for losses in (curves.losses, curves.mirrored or curves.losses))
        assert delta <= gauss_delta(curves.gdp_bound, epsilon) * (1 + 1e-4)


def test_a_charge_without_slack_does_not_pay_for_an_approximation() -> None:
    rule = Filter.open("rdp", Privacy(3.0, 1e-6), slack=1e-7)
    plan = Plan((PlannedQuery("q", 1, RandomAllocation(0.5, 1000), 0.7),), "zero_out")
    paid = rule.cost(plan)
    assert paid[-1] == 1
    assert rule.pays(paid, plan)
    assert not rule.pays((*paid[:-1], 0), plan)
