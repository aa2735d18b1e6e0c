"""The filter of mu^2 and orders together: thresholds, charges of approximations, and their proofs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.pld_pmf import DensePLDPmf
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from accounting import Privacy, charges
from accounting.accountants.tight import composed_loss, losses_of
from accounting.calibration import calibrate
from accounting.charges import UNIT, Cost
from accounting.divergences.conditioned import conditioned_mu, corners
from accounting.divergences.gaussian import gauss_delta, gauss_mu, order_cover
from accounting.divergences.losses import Masses, Vector
from accounting.divergences.renyi_profile import RenyiLoss
from accounting.errors import BudgetExhausted, CodecError, LedgerInvalid, OutOfRange
from accounting.filter import Filter, filter_with
from accounting.mechanisms import (
    Gaussian,
    Laplace,
    ObjectivePerturbation,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
    SvrgStep,
    WithoutReplacement,
)
from accounting.plan import Plan, PlannedQuery, Query
from accounting.records.events import Opened, Refunded
from accounting.records.filters import filter_from_json, filter_to_json
from accounting.records.ledger import advance, spent_epsilon
from accounting.records.replay import replay
from tests.reference import losses as reference
from tests.reference.budget import renyi_budget
from tests.reference.tradeoff import conditioned
from tests.support.chains import charge_of, ledger_of

BUDGET = Privacy(3.0, 1e-6)
RULE = Filter.open("gdp_rdp", BUDGET)
TOPS = RULE.curve(RULE.thresholds)
KINDS = {
    "gaussian": (Query("g", 100, Gaussian()),),
    "poisson": (Query("c", 1000, PoissonGaussian(0.01)),),
    "batches": (Query("c", 200, WithoutReplacement(100, 10_000)),),
    "svrg": (Query("s", 4, Gaussian(), 4.0), Query("c", 100, PoissonGaussian(0.01))),
    "svrg step": (Query("c", 100, SvrgStep(100, 10_000)),),
    "allocation": (Query("h", 1, RandomAllocation(0.5, 1000)),),
    "iterate": (Query("h", 1, RandomIterate(100)),),
    "perturbed": (Query("h", 1, ObjectivePerturbation(0.01)), Query("o", 1, Gaussian(), 1e-3)),
    "pure": (Query("h", 1, Laplace()),),
}


def plan(kind: str, epsilon: float = 0.5) -> Plan:
    return calibrate(KINDS[kind], Privacy(epsilon, 1e-6)).plan


def jobs(rule: Filter, cost: Cost) -> float:
    """How many such jobs fit an empty filter."""
    curve = max(top / c for top, c in zip(rule.curve(rule.thresholds), rule.curve(cost), strict=True))
    return min(curve, rule.thresholds[-1] / cost[-1]) if rule.slack and cost[-1] else curve


def gaussian_value(x: Vector, time: float) -> Vector:
    """E[(1 - e^-(x + loss))_+] for the loss of N(m, 1) against N(0, 1), m^2 = time."""
    m = math.sqrt(time)
    return np.asarray(norm.cdf(x / m + m / 2) - np.exp(-x) * norm.cdf(x / m - m / 2))


def reference_cover(order: float, time: float) -> float:
    """C / sup over x of V(x) e^(-(a-1) x), by trying many x."""
    if time <= 0:
        return 1.0
    x = np.linspace(-order * time - 8 * math.sqrt(time), 8 / order, 200_001)
    largest = float((gaussian_value(x, time) * np.exp((1 - order) * x)).max())
    return math.exp((order - 1) * math.log1p(-1 / order)) / order / largest


@pytest.mark.parametrize("order", [1.3, 3.0, 22.0, 300.0])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.1, 2.0, 30.0])
def test_a_cover_is_the_smallest_ratio_of_both_values(order: float, ratio: float) -> None:
    """It is 1 when Gaussian jobs have no time left beyond the order's threshold, and falls with that time."""
    time = ratio / order**2
    cover = order_cover(order, time)
    assert cover == pytest.approx(reference_cover(order, time), rel=1e-6)
    assert cover <= reference_cover(order, time) * (1 + 1e-12)
    assert order_cover(order, time + 1 / order**2) <= cover <= 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_who_switches_to_the_better_coordinate_gains_no_more_than_delta(epsilon: float) -> None:
    """Gaussian jobs run until the first order is nearly full. Then the analyst picks the coordinate that is worth more.

    This costs more than the larger of both coordinates' deltas, so neither could have all of delta.
    """
    rule = Filter.open("gdp_rdp", Privacy(epsilon, 1e-5))
    delta = rule.privacy.delta - rule.slack
    a, top, total = rule.orders[0], rule.thresholds[1] / UNIT, rule.thresholds[0] / UNIT
    for share in (0.5, 0.9, 0.999):
        square = share * 2 * top / a
        m = math.sqrt(square)
        losses = np.linspace(-12 * m, (a + 12 / m) * square + 12 * m, 400_001)
        density = norm.pdf(losses, square / 2, m)
        by_mu = gaussian_value(losses - epsilon, total - square)
        by_order = rule.weights[1] * delta * np.exp((a - 1) * (losses - a * square / 2))
        value = float(np.trapezoid(density * np.maximum(by_mu, by_order), losses))
        either = (gauss_delta(math.sqrt(total), epsilon), rule.weights[1] * delta)
        assert max(either) * 1.01 < value <= (1 - sum(rule.weights[2:])) * delta


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-6), (1.0, 1e-6), (3.0, 1e-12), (20.0, 1e-2)])
def test_thresholds_share_one_delta(epsilon: float, delta: float) -> None:
    """Slack and weights together are at most delta; with the whole of it at each coordinate this fails."""
    rule = Filter.open("gdp_rdp", Privacy(epsilon, delta))
    delta_without_slack = delta - rule.slack
    assert sum(map(Fraction, rule.weights)) <= 1
    assert 0 < rule.slack <= delta / 16
    assert rule.thresholds[-1] == UNIT
    lowered = epsilon + math.log1p(-rule.slack)

    def counted(square: float) -> float:
        """The delta of this much mu^2, without the part that the orders cover."""
        covers = [
            reference_cover(a, square - 2 * top / UNIT / a) * (1 - rule.slack) ** (a - 1)
            for a, top in zip(rule.orders, rule.thresholds[1:], strict=False)
        ]
        return (1 - sum(covers)) * gauss_delta(math.sqrt(square), lowered)

    square = rule.thresholds[0] / UNIT
    assert counted(square) <= delta_without_slack * rule.weights[0] * (1 + 1e-9)
    assert counted(square * (1 + 1e-6) + 2 / UNIT) >= delta_without_slack * rule.weights[0]
    assert gauss_delta(math.sqrt(square), lowered) <= delta_without_slack
    assert square >= gauss_mu(lowered, delta_without_slack * rule.weights[0]) ** 2 * (1 - 1e-8)
    for a, w, top in zip(rule.orders, rule.weights[1:], rule.thresholds[1:], strict=False):
        exact = renyi_budget(epsilon, delta_without_slack, a, w) * UNIT
        assert 0 < top <= exact < top + 3 + 1e-12 * exact


def test_invalid_filters_are_refused() -> None:
    with pytest.raises(OutOfRange, match="delta"):
        Filter.open("gdp_rdp", Privacy(1.0))
    for slack in (6e-7, -1e-9, math.nan):
        with pytest.raises(OutOfRange, match=r"slack|finite"):
            Filter.open("gdp_rdp", Privacy(1.0, 1e-6), slack)
    forgeries: tuple[dict[str, Any], ...] = (
        {"slack": 0.0},
        {"slack": 3e-7},
        {"weights": [1.0, 1.0, 1.0]},
        {"weights": [0.5, 0.5]},
        {"orders": []},
        {"kind": "rdp"},
        {"thresholds": ["1", "1", "1"]},
        {"thresholds": [str(t + 3) for t in RULE.thresholds]},
        {"thresholds": [*(str(t) for t in TOPS), str(UNIT + 1)]},
    )
    for forged in forgeries:
        with pytest.raises(CodecError):
            filter_from_json(filter_to_json(RULE) | forged)
    assert filter_from_json(filter_to_json(RULE)) == RULE


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "allocation"])
@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_it_admits_as_many_jobs_as_orders_alone_and_more_of_gaussian_kinds(kind: str, epsilon: float) -> None:
    planned = plan(kind, epsilon)
    mixed, orders = (jobs(rule, rule.cost(planned)) for rule in (RULE, Filter.open("rdp", BUDGET)))
    assert mixed > orders * (1.02 if kind in ("gaussian", "poisson", "svrg") else 0.96)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_each_order_keeps_96_percent_of_its_threshold_without_mu(epsilon: float) -> None:
    """The slack never ends before the orders, for every job and mixture of jobs."""
    mixed, alone = (Filter.open(kind, Privacy(epsilon, 1e-6)) for kind in ("gdp_rdp", "rdp"))
    assert mixed.orders == alone.orders
    assert all(m > 0.96 * t for m, t in zip(mixed.thresholds[1:], alone.thresholds, strict=False))
    for kind in KINDS:
        cost = mixed.cost(plan(kind, 0.2))
        assert cost[-1] <= UNIT * charges.smallest_share(cost[:-1], mixed.thresholds[:-1])


# mu^2 that Gaussian jobs may use, over all that (epsilon, delta) allows, at each delta and epsilons of .1, .3, 1, 3, 10
SMALLEST_SHARES = {
    1e-9: (0.95, 0.96, 0.96, 0.96, 0.97),
    1e-6: (0.93, 0.94, 0.94, 0.95, 0.96),
    1e-5: (0.92, 0.93, 0.93, 0.94, 0.95),
    1e-3: (0.86, 0.88, 0.90, 0.92, 0.93),
}


@pytest.mark.parametrize("delta", SMALLEST_SHARES)
def test_gaussian_jobs_keep_most_of_mu_squared(delta: float) -> None:
    for epsilon, share in zip((0.1, 0.3, 1.0, 3.0, 10.0), SMALLEST_SHARES[delta], strict=True):
        rule = Filter.open("gdp_rdp", Privacy(epsilon, delta))
        assert share < rule.thresholds[0] / UNIT / gauss_mu(epsilon, delta) ** 2 < 1


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_every_larger_guarantee_raises_all_thresholds(epsilon: float, delta: float) -> None:
    rule = Filter.open("gdp_rdp", Privacy(epsilon, delta))
    for guarantee in (
        Privacy(epsilon * 1.0001, delta),
        Privacy(epsilon, delta * 1.0001),
        Privacy(epsilon * 9, delta * 9),
    ):
        larger = rule.raised(guarantee)
        assert all(now >= then for now, then in zip(larger.thresholds, rule.thresholds, strict=True))


@pytest.mark.parametrize("delta", [1e-12, 1e-3])
def test_a_raise_by_a_large_factor_loses_the_cover_and_not_the_filter(delta: float) -> None:
    raised = Filter.open("gdp_rdp", Privacy(1e-3, delta)).raised(Privacy(30.0, delta))
    remainder = raised.privacy.delta - raised.slack
    alone = gauss_mu(30.0 + math.log1p(-raised.slack), raised.weights[0] * remainder) ** 2 * UNIT
    assert raised.thresholds[0] == pytest.approx(alone, rel=1e-6)
    assert filter_from_json(filter_to_json(raised)) == raised


def cover_in_80_digits(order: float, time: float) -> float:
    """The cover by its root, which is found by halving an interval."""
    with mpmath.workdps(80):
        a, m = mpmath.mpf(order), mpmath.sqrt(mpmath.mpf(time))
        tangent = -mpmath.log1p(-1 / a)
        low, high = -4 * a * m * m - 20 * m, 2 * tangent
        for _ in range(160):  # so that less than 1e-40 of the exponent below is unknown
            x = (low + high) / 2
            ratio = mpmath.exp(-x) * mpmath.ncdf(x / m - m / 2) / mpmath.ncdf(x / m + m / 2)
            low, high = (x, high) if ratio > 1 - 1 / a else (low, x)
        return float(mpmath.exp((a - 1) * (low - tangent)) / mpmath.ncdf(low / m + m / 2))


@pytest.mark.parametrize("order", [1.01, 20.0, 13780.0, 2e5, 9e5, 4.715e7, 1e9])
def test_no_cover_is_counted_that_floats_do_not_resolve(order: float) -> None:
    for exponent in (0.5, 5.0, 99.0, 101.0, 1e4):
        time = exponent / order / (order - 1)
        assert order_cover(order, time) <= cover_in_80_digits(order, time)


def test_a_filter_of_an_earlier_version_is_read_and_may_be_raised() -> None:
    """Its threshold of mu^2 is that of the plain union bound, at other weights."""
    weights = (24 / 64, 25 / 64, 15 / 64)
    mu = gauss_mu(3.0 + math.log1p(-RULE.slack), (1e-6 - RULE.slack) * weights[0])
    now = filter_with("gdp_rdp", BUDGET, RULE.orders, weights, RULE.slack)
    stored = replace(now, thresholds=(math.floor(mu**2 * UNIT), *now.thresholds[1:]))
    assert stored.thresholds[0] < now.thresholds[0]
    assert filter_from_json(filter_to_json(stored)) == stored
    assert stored.raised(Privacy(3.5, 1e-6)).is_raise_of(stored)


def test_secret_slots_are_charged_by_an_approximation() -> None:
    """Without a slack, the `rdp` filter does not admit one such job. With a slack it admits at most sixteen."""
    planned = plan("allocation")
    assert jobs(Filter.open("rdp", BUDGET), Filter.open("rdp", BUDGET).cost(planned)) < 1
    assert jobs(RULE, RULE.cost(planned)) > 16


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_charge(kind: str) -> None:
    cost = RULE.cost(plan(kind))
    assert len(cost) == len(RULE.thresholds)
    assert RULE.admits(RULE.zero_cost, cost)
    assert min(RULE.curve(cost)) >= 1
    assert (cost[-1] == 0) == (kind in ("gaussian", "pure", "iterate"))
    assert cost[0] < charges.UNAFFORDABLE_UNITS


@pytest.mark.parametrize("kind", KINDS)
def test_a_charge_pays_for_its_plan_and_for_no_dearer_one(kind: str) -> None:
    planned = plan(kind)
    cost = RULE.cost(planned)
    assert RULE.pays(cost, planned)
    dearer = Plan(tuple(replace(query, noise_multiplier=query.noise_multiplier * 0.98) for query in planned.queries))
    assert not RULE.pays(cost, dearer)


def test_gaussian_plans_are_charged_exactly() -> None:
    planned = plan("gaussian")
    assert RULE.cost(planned)[0] == Filter.open("gdp", BUDGET).cost(planned)[0]
    assert RULE.cost(planned)[1:-1] == pytest.approx([UNIT * x for x in planned.rdp(RULE.orders)], rel=1e-9)


def test_of_two_orders_of_neighbors_the_dearer_is_charged() -> None:
    """Under zero_out the two are different pairs; half the displacement is then about half the epsilon."""
    planned = calibrate(KINDS["poisson"], Privacy(0.5, 1e-6), "zero_out").plan
    cost = RULE.cost(planned)
    laws = [composed for composed in map(composed_loss, losses_of(planned)) if composed]
    each = [conditioned_mu(law, RULE.slack * cost[-1] / UNIT, error) or 0.0 for law, error in laws]
    assert len(each) == 2
    assert min(each) < max(each) * (1 - 1e-6)
    assert cost[0] / UNIT == pytest.approx(max(each) ** 2, rel=1e-9)
    assert jobs(RULE, cost) > 0.97 * jobs(RULE, RULE.cost(plan("poisson")))


@pytest.mark.parametrize("order", [0, 1])
def test_sets_of_large_and_of_small_loss_both_count(order: int) -> None:
    """The worst set of an asymmetric pair lies on one side of 0, and each order of the neighbors has its own side."""
    losses = losses_of(Plan((PlannedQuery("c", 3, PoissonGaussian(0.05), 0.7),), "zero_out"))[order]
    composed = composed_loss(losses)
    assert composed is not None
    law, error = composed
    pmf = DensePLDPmf(law.interval, law.lowest, law.masses, law.infinity, True)
    actual, (_, mu) = conditioned_mu(law, 1e-5, error), conditioned(pmf, 1e-5)
    assert actual == pytest.approx(mu, rel=1e-3)


@pytest.mark.slow
@given(
    u=st.floats(1e-9, 0.6),
    ratio=st.floats(0.1, 1.0),
    off=st.tuples(*[st.sampled_from((-1.0, 1.0))] * 2),
    missing=st.floats(1e-9, 1e-2),
    shares=st.tuples(*[st.sampled_from((0.0, 1.0))] * 2),
)
def test_the_error_of_masses_raises_mu(
    u: float, ratio: float, off: tuple[float, float], missing: float, shares: tuple[float, float]
) -> None:
    """Mu holds for all true probabilities within their errors and all masses of E within theirs."""
    error, smallest_ratio = 1e-6, 0.1
    v = ratio * u
    true_u, true_v = max(u + off[0] * error, 0.0), v + off[1] * error
    inside = [1 - share * missing for share in shares]
    bound = corners(np.array([u]), np.array([v]), error, error, missing, smallest_ratio)
    first = true_u / inside[0]
    second = max(true_v / inside[1], smallest_ratio * inside[0] / inside[1] * true_u / inside[0])
    assert first == 0 or norm.ppf(first) - norm.ppf(second) <= bound + 1e-9


def test_a_plan_whose_tails_are_out_of_reach_is_charged_unsampled() -> None:
    tiny = calibrate(KINDS["poisson"], Privacy(0.01, 1e-6)).plan
    bound = tiny.gdp_bound()
    assert bound is not None
    cost = RULE.cost(tiny)
    assert cost[-1] == 0
    assert cost[0] == math.ceil(Fraction(math.nextafter(bound**2, 9)) * (1 + Fraction(1, 2**36)) * UNIT)


def test_a_plan_that_fits_no_ledger_exactly_may_take_more_of_the_slack() -> None:
    narrow = Filter.open("gdp_rdp", Privacy(1.0, 1e-6))
    cost = narrow.cost(plan("allocation"))
    assert narrow.admits(narrow.zero_cost, cost)
    assert cost[-1] > 0.99 * UNIT * charges.smallest_share(cost[:-1], narrow.thresholds[:-1])
    tiny = RULE.cost(calibrate(KINDS["allocation"], Privacy(0.05, 1e-6)).plan)
    assert jobs(RULE, tiny) > 1000, "by its curve, though no mu can be resolved"


def test_pure_answers_that_fit_no_threshold_leave_the_slack_to_later_plans() -> None:
    """The first plan takes an empty ledger by its own guarantee. After a raise it fits, and so do others."""
    rule = Filter.open("gdp_rdp", Privacy(1.0, 1e-5))
    whole = rule.cost(Plan((PlannedQuery("h", 5, Laplace(), 10.0),)))
    assert charges.smallest_share(whole[:-1], rule.thresholds[:-1]) > 1
    assert whole[-1] == 0
    raised = rule.raised(Privacy(3.0, 1e-5))
    later = raised.cost(Plan((PlannedQuery("h", 10, Laplace(), 60.0),)))
    assert raised.admits(whole, later)
    assert later[-1] > 0


def test_a_plan_without_a_finite_charge_fits_no_budget() -> None:
    largest = Filter.open("gdp_rdp", Privacy(1.0, 1e-6)).raised(Privacy(100.0, 1e-2))
    assert max(largest.thresholds[:-1]) < charges.UNAFFORDABLE_UNITS
    assert max(Filter.open("gdp_rdp", Privacy(100.0, 1e-2)).thresholds[:-1]) < charges.UNAFFORDABLE_UNITS
    cost = largest.cost(Plan((PlannedQuery("h", 1, ObjectivePerturbation(1e6), 1e-3),)))
    assert cost[0] == charges.UNAFFORDABLE_UNITS
    assert not any(top >= cost[0] for top in largest.thresholds[:1])


def test_two_splits_of_one_job_are_both_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve of a half pass and its mu come from different approximations, and the masses of both are charged."""
    planned, slacks = plan("allocation"), list[float]()
    curve, mu = charges.approximate_rdp, conditioned_mu

    def watched_curve(plan: Plan, orders: object, slack: float) -> object:
        slacks.append(slack)
        return curve(plan, orders, slack)  # type: ignore[arg-type]

    def watched_mu(law: Masses, missing: float, error: float) -> float | None:
        slacks.append(missing)
        return mu(law, missing, error)

    monkeypatch.setattr(charges, "approximate_rdp", watched_curve)
    monkeypatch.setattr(charges, "conditioned_mu", watched_mu)
    cost = RULE.cost(planned)
    pairs = [sum(slacks[i : i + 2]) for i in range(0, len(slacks), 2)]
    assert min(abs(pair - RULE.slack * cost[-1] / UNIT) for pair in pairs) < 1e-15 * RULE.slack


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [
        ("poisson", lambda z: reference.poisson(0.01, 1 / z, 1e-4).self_compose(1000)),
        ("batches", lambda z: reference.without_replacement(0.01, 2 / z, 1e-4).self_compose(200)),
    ],
)
@pytest.mark.parametrize("missing", [1e-8, 1e-7])
def test_approximate_mu_is_the_reference_s(kind: str, theirs, missing: float) -> None:  # type: ignore[no-untyped-def]
    """Mu is below the reference by no more than the grids differ, and at most 2 % above it.

    It is also near the limit of many answers. If the lower tail were included, mu would be many times larger.
    """
    planned = plan(kind, 1.0)
    composed = composed_loss(*losses_of(planned))
    assert composed is not None
    actual = conditioned_mu(composed[0], missing, composed[1])
    bound, mu = conditioned(theirs(planned.queries[0].noise_multiplier)._pmf_remove, missing)
    assert actual == pytest.approx(mu, rel=0.02)
    assert actual is not None
    assert actual >= mu * (1 - 2e-3)
    assert actual < 0.2 * bound
    assert actual < 1.2 * gauss_mu(1.0, 1e-6)


masses = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=7)


@pytest.mark.slow
@given(p=masses, lowest=st.integers(-6, 3), infinity=st.floats(0, 0.05), missing=st.floats(1e-6, 0.3))
def test_no_test_separates_the_conditioned_pair_better_than_mu(
    p: list[float], lowest: int, infinity: float, missing: float
) -> None:
    """Compare all tests, set by set. Both laws keep 1 - d within [-l, l], and no set does better than N(mu, 1)."""
    interval = 0.2
    losses = (lowest + np.arange(len(p))) * interval
    raw = np.array(p)
    raw *= (1 - infinity) / max(raw.sum(), (raw * np.exp(-losses)).sum(), 1e-9)
    law = Masses(interval, lowest, raw, 1 - float(raw.sum()))
    mu = conditioned_mu(law, missing, 1e-13)
    neighbor_masses = law.masses * np.exp(-losses)
    intervals = [np.abs(losses) < b * interval + 0.1 for b in range(8)]
    lacking = [
        1 - min(law.masses[interval_mask].sum(), neighbor_masses[interval_mask].sum()) for interval_mask in intervals
    ]
    if min(lacking) > missing * (1 + 1e-6) + 1e-12:
        assert mu is None, "what is missing of a law is beyond every bound"
    bounds = [b for b, lack in enumerate(lacking) if lack <= missing]
    if mu is None or not bounds:  # refused, or on the very edge
        return
    inside = np.abs(losses) < bounds[0] * interval + 0.1
    first = law.masses[inside] / law.masses[inside].sum()
    second = neighbor_masses[inside] / neighbor_masses[inside].sum()
    for size in range(1, len(first)):
        for chosen in combinations(range(len(first)), size):
            a, b = first[list(chosen)].sum(), second[list(chosen)].sum()
            if 0 < a < 1 and 0 < b < 1:
                assert norm.ppf(a) - norm.ppf(b) <= mu + 1e-9
            else:
                assert b >= 1 - 1e-12 or a <= 1e-12


@dataclass(frozen=True)
class GaussianCurve:
    """a mu^2 / 2."""

    mu: float

    def __call__(self, orders: Sequence[float]) -> NDArray[np.float64]:
        return np.asarray(orders) * self.mu**2 / 2


@pytest.mark.parametrize("mu", [0.02, 0.3, 2.0])
def test_the_pair_of_a_renyi_curve_dominates_the_pairs_with_that_curve(mu: float) -> None:
    """Its profile lies above the exact one of the Gaussian, and not far above what the orders say."""
    law = RenyiLoss(GaussianCurve(mu), mu).masses(mu / 50)
    losses = (law.lowest + np.arange(len(law.masses))) * law.interval
    assert law.masses.sum() + law.infinity == pytest.approx(1.0, abs=1e-9)
    assert (law.masses * np.exp(-losses)).sum() <= 1 + 1e-9
    orders = 1 + np.geomspace(1e-3, 1e3 / mu, 2000)
    for epsilon in np.array([0.0, 0.5, 1.0, 3.0, 5.0]) * mu:
        delta = float(np.maximum(-np.expm1(epsilon - losses), 0.0) @ law.masses) + law.infinity
        exact = gauss_delta(mu, epsilon)
        by_order = math.exp(
            ((orders - 1) * (orders * mu**2 / 2 - epsilon + np.log1p(-1 / orders)) - np.log(orders)).min()
        )
        assert exact <= delta <= max(1.1 * by_order, mu)
        assert delta >= (by_order if epsilon > mu else exact) * (1 - 1e-4), "or a law of this curve might be above it"
        mirrored = float(np.maximum(1 - np.exp(epsilon + losses), 0.0) @ (law.masses * np.exp(-losses)))
        assert mirrored == pytest.approx(delta, rel=1e-6), "both orders of neighbors have one profile"


def test_shares_add_up_and_state_how_many_jobs_fit() -> None:
    """A job that fits 12,000 times has the share 1 / 12,000, not half of epsilon. All shares add up to the whole."""
    rule = Filter.open("gdp_rdp", Privacy(2.0, 1e-6))
    tiny = rule.cost(calibrate(KINDS["gaussian"], Privacy(0.01, 1e-6)).plan)
    fit = jobs(rule, tiny)
    assert rule.share(tiny, tiny) == pytest.approx(1 / fit)
    assert fit > 10_000
    assert rule.spent_epsilon(tiny) == pytest.approx(0.01, rel=1e-6)
    costs = [RULE.cost(plan(kind)) for kind in KINDS]
    spent = tuple(map(sum, zip(*costs, strict=True)))
    parts = [RULE.share(cost, spent) for cost in costs]
    assert sum(parts) == pytest.approx(RULE.share(spent, spent), rel=1e-12)
    assert RULE.share(RULE.zero_cost, spent) == 0.0
    assert RULE.share(spent, spent) == min(s / t for s, t in zip(spent, TOPS, strict=False))


def test_the_spent_epsilon_is_guaranteed_by_the_charges() -> None:
    """At the whole delta: a job's own epsilon if it is alone, and never above the budget."""
    for kind in ("gaussian", "poisson", "svrg"):
        for epsilon in (0.2, 1.0):
            read = RULE.spent_epsilon(RULE.cost(plan(kind, epsilon)))
            assert epsilon * (1 - 1e-3) <= read <= epsilon * 1.05
    assert RULE.spent_epsilon(RULE.thresholds) <= 3.0
    assert RULE.spent_epsilon(RULE.zero_cost) == 0.0
    beyond = RULE.spent_epsilon((*TOPS, 17 * UNIT))
    assert 3.0 < beyond < math.inf, "charges from outside may use up all of delta"
    narrow = Filter.open("gdp_rdp", Privacy(1.0, 1e-12))
    assert 0 < narrow.spent_epsilon(tuple(t // 2 for t in narrow.thresholds)) <= 1.0


def test_a_full_slack_admits_gaussian_jobs_alone() -> None:
    spent = (*(1 for _ in TOPS), UNIT)
    assert not RULE.admits(spent, RULE.cost(plan("poisson")))
    assert RULE.admits(spent, RULE.cost(plan("gaussian")))
    state, _ = advance(None, Opened("d", 10, RULE), "t")
    with pytest.raises(LedgerInvalid):
        advance(state, charge_of("j", (1, 1, 1, UNIT + 1), Privacy(0.5, 1e-6)), "t")


def test_the_ledger_replays_it() -> None:
    costs = [RULE.cost(plan(kind)) for kind in ("perturbed", "poisson", "allocation", "gaussian")]
    opening, first = Opened("d1", 1000, RULE), costs[0]
    charges = [charge_of(f"j{i}", cost, Privacy(0.5, 1e-6)) for i, cost in enumerate(costs)]
    charged, _ = ledger_of(opening, *charges)
    state, entries = ledger_of(opening, *charges, Refunded("j0", first, False))
    assert replay(entries) == state
    assert spent_epsilon(state) < spent_epsilon(charged)
    with pytest.raises(BudgetExhausted):
        advance(replace(state, spent=RULE.thresholds), charge_of("more", first, BUDGET), "t")


def test_remaining_is_the_larger_of_both() -> None:
    with mpmath.workdps(30):
        for spent in ((TOPS[0], 0, 0, 0), (0, *TOPS[1:], 0)):
            remaining = RULE.remaining_epsilon(spent)
            cost = RULE.cost(calibrate(KINDS["gaussian"], Privacy(remaining, 1e-6)).plan)
            assert RULE.admits(spent, cost)
            larger_cost = RULE.cost(calibrate(KINDS["gaussian"], Privacy(remaining * 1.01, 1e-6)).plan)
            assert not RULE.admits(spent, larger_cost)


@pytest.mark.parametrize("k", range(len(RULE.thresholds)))
def test_a_stored_threshold_is_trusted_for_the_last_digits_alone(k: int) -> None:
    """Another platform's root or logarithm may differ in these digits. One unit more is refused."""
    margin = [1 + (TOPS[0] >> 36), *(1 for _ in TOPS[1:]), 0][k]

    def forged(excess: int) -> dict[str, Any]:
        tops = tuple(t + excess * (j == k) for j, t in enumerate(RULE.thresholds))
        return filter_to_json(replace(RULE, thresholds=tops))

    assert filter_from_json(forged(margin)).thresholds[k] == RULE.thresholds[k] + margin
    with pytest.raises(CodecError):
        filter_from_json(forged(margin + 1))


def test_a_larger_guarantee_keeps_the_unit_of_charges() -> None:
    """A charge counts parts of the slack, so the same count would mean less under a smaller slack."""
    larger = RULE.raised(Privacy(4.0, 1e-5))
    assert larger.is_raise_of(RULE)
    for slack, weights in ((RULE.slack / 2, RULE.weights), (RULE.slack, (0.5, 0.3, 0.2))):
        changed = filter_with("gdp_rdp", larger.privacy, RULE.orders, weights, slack)
        assert all(now >= then for now, then in zip(changed.thresholds, RULE.thresholds, strict=True))
        assert not changed.is_raise_of(RULE)


def test_the_spent_epsilon_counts_the_used_slack() -> None:
    """P <= P' + d and Q' <= Q / (1 - d): of a half of delta and more is left for mu^2 and orders."""
    rule = Filter.open("gdp_rdp", Privacy(1.0, 1e-3), 5e-4)
    curve = tuple(t // 2 for t in rule.curve(rule.thresholds))
    with mpmath.workdps(30):
        for units in (0, UNIT // 2, UNIT):
            d = 5e-4 * units / UNIT
            mu = mpmath.sqrt(mpmath.mpf(curve[0]) / UNIT)
            by_mu = mpmath.findroot(
                lambda e, mu=mu, d=d: (
                    mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu) - 1e-3 + d
                ),
                0.5,
            )
            rhos = [(a, mpmath.mpf(c) / UNIT) for a, c in zip(rule.orders, curve[1:], strict=True)]
            by_order = min(r + mpmath.log(1 - 1 / a) - mpmath.log(a * (1e-3 - d)) / (a - 1) for a, r in rhos)
            exact = float(min(by_mu, by_order) - mpmath.log(1 - d))
            assert exact <= rule.spent_epsilon((*curve, units)) <= exact * (1 + 1e-6)
