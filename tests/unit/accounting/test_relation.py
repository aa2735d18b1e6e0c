"""Curves under zero_out, compared with closed forms, dp-accounting, quadrature and simulation.

They are also compared with replace_one, because a replacement is two steps through the null record.
"""

import math
from typing import get_args

import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import PldAccountant, guard
from accounting.calibration import calibrate, certify
from accounting.divergences import allocation, sampled_gaussian, slot_law
from accounting.divergences.allocation import hockey_stick, knots
from accounting.divergences.gaussian import gauss_epsilon
from accounting.divergences.losses import GaussianLoss
from accounting.divergences.sampled_gaussian import SampledLoss
from accounting.errors import CodecError
from accounting.mechanisms import (
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    ObjectivePerturbation,
    PoissonGaussian,
    RandomAllocation,
    Resampled,
    SvrgStep,
    WithoutReplacement,
)
from accounting.mechanisms.mechanism import Curves
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import Relation
from accounting.records.codec import plan_from_json, plan_to_json
from accounting.records.receipt import recompute
from tests.reference.allocation import of_two
from tests.support.receipts import make

RELATIONS = get_args(Relation)
SAMPLED = [(0.01, 0.5), (0.3, 1.0), (0.9, 0.05), (1e-4, 2.0), (1e-6, 0.02)]


def ratio(q: float, c: float, x: np.ndarray) -> np.ndarray:
    return np.asarray(1 - q + q * np.exp(c * x - c * c / 2))


def normal(points: int = 400_001, reach: float = 14.0) -> tuple[np.ndarray, np.ndarray]:
    """Points of the line and their weights under N(0, 1)."""
    x = np.linspace(-reach, reach, points)
    return x, np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])


@pytest.mark.parametrize(("q", "c"), SAMPLED)
def test_the_sampled_pair_has_the_moments_of_whole_orders(q: float, c: float) -> None:
    """E r^a = sum over k of C(a, k) (1-q)^(a-k) q^k e^(k (k-1) c^2 / 2) (Mironov, Talwar and Zhang 2019)."""
    import mpmath

    for order in (2, 3, 8, 20):
        with mpmath.workdps(60):
            terms = [
                mpmath.binomial(order, k) * (1 - mpmath.mpf(q)) ** (order - k) * mpmath.mpf(q) ** k
                * mpmath.exp(k * (k - 1) * mpmath.mpf(c) ** 2 / 2) for k in range(order + 1)
            ]  # fmt: skip
            expected = float(mpmath.log(mpmath.fsum(terms)) / (order - 1))
        assert expected <= sampled_gaussian.sampled_renyi(q, c, [order])[0] <= expected * (1 + 3e-6)


@pytest.mark.parametrize(("q", "c"), [(0.3, 1.0), (0.9, 0.5), (0.05, 2.0)])
def test_both_orders_of_the_sampled_pair_by_quadrature(q: float, c: float) -> None:
    x, weight = normal()
    r = ratio(q, c, x)
    for order in (1.5, 4.0):
        both = [math.log(float(weight @ r**power)) / (order - 1) for power in (order, 1 - order)]
        assert sampled_gaussian.sampled_renyi(q, c, [order])[0] == pytest.approx(max(both), rel=3e-6)
    for epsilon in (0.0, 0.1, 0.4, 1.0):
        gamma = math.exp(epsilon)
        orders = [float(weight @ np.maximum(values, 0)) for values in (r - gamma, 1 - gamma * r)]
        assert sampled_gaussian.hockey_stick(q, c, epsilon) == pytest.approx(max(orders), abs=1e-9)
        for mirrored, expected in zip((False, True), orders, strict=True):
            interval, lowest, masses, infinity = SampledLoss(q, c, mirrored).masses(1e-3)
            losses = (lowest + np.arange(len(masses))) * interval
            delta = infinity + float(masses @ np.maximum(-np.expm1(epsilon - losses), 0.0))
            assert expected * (1 - 1e-9) - 1e-12 <= delta <= expected + 1e-6
            assert float(masses.sum()) + infinity == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
def test_dp_accounting_agrees_where_it_adds_or_removes() -> None:
    """Its classical reading of one event tree, in both orders of the neighbors."""
    import dp_accounting
    from dp_accounting import pld

    plan = Plan(
        (PlannedQuery("a", 5, Gaussian(), 30.0), PlannedQuery("b", 200, PoissonGaussian(0.05), 2.0)), "zero_out"
    )
    event = dp_accounting.ComposedDpEvent(
        [
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(30.0), 5),
            dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(2.0)), 200
            ),
        ]
    )
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    theirs = pld.PLDAccountant(relation, 1e-3).compose(event).get_epsilon(1e-6)
    assert PldAccountant().epsilon(plan, 1e-6) == pytest.approx(theirs, rel=5e-3)
    assert certify(plan, 1e-6)[0] == PldAccountant().epsilon(plan, 1e-6)


def test_the_order_that_costs_more_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan((PlannedQuery("b", 3, PoissonGaussian(0.9), 2.0),), "zero_out")
    both, loss = PldAccountant().epsilon(plan, 1e-3), SampledLoss(0.9, 0.5)
    orders = []
    for mirrored in (False, True):
        pmf = guard.pessimistic_pmf(*SampledLoss(0.9, 0.5, mirrored).masses(min(1e-2, loss.deviation / 12)))
        orders.append(guard.epsilon(guard.compose([(pmf, 3)]), 1e-3))
    assert orders[0] != orders[1]
    assert both == pytest.approx(max(orders), rel=1e-6)
    for forward_mu, backward_mu in ((0.1, 0.3), (0.3, 0.1)):
        curves = Curves(
            plan.queries[0].curves().rdp, losses=(GaussianLoss(forward_mu),), mirrored=(GaussianLoss(backward_mu),)
        )
        monkeypatch.setattr(PoissonGaussian, "curves", lambda *_, curves=curves: curves)
        expected = gauss_epsilon(0.3 * math.sqrt(3), 1e-3)
        assert PldAccountant().epsilon(plan, 1e-3) == pytest.approx(expected, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "c"), [(0.5, 1.0), (1.0, 0.7), (0.05, 0.8)])
def test_hidden_slots_by_quadrature(q: float, c: float) -> None:
    """Compare one slot with a sample and two slots with an integral over the plane, in both orders of the neighbors."""
    x, weight = normal(28_001, 10.0)
    a = np.exp(c * x - c * c / 2)
    for epsilon in (0.0, 0.2, 0.7, 1.5):
        gamma = math.exp(epsilon)
        single, pair = RandomAllocation(q, 1), RandomAllocation(q, 2)
        assert hockey_stick(single, 1 / c, epsilon, "zero_out") == sampled_gaussian.hockey_stick(
            min(1.0, math.nextafter(q, 2)), c, epsilon
        )
        above, below = (gamma - 1 + q) / q, (1 / gamma - 1 + q) / q  # means of two a's where r is gamma, and 1 / gamma
        orders = [q * of_two(a, weight, above), gamma * q * of_two(-a[::-1], weight, -below)]
        delta = hockey_stick(pair, 1 / c, epsilon, "zero_out")
        assert max(orders) - 2e-6 <= delta <= max(orders) * 1.02 + 2e-6


@pytest.mark.slow
@pytest.mark.parametrize(("slots", "c", "epsilon"), [(20, 0.5, 0.15), (100, 1.0, 0.2), (300, 1.5, 0.4)])
def test_hidden_slots_by_simulation(slots: int, c: float, epsilon: float) -> None:
    q, gamma, rng = 0.5, math.exp(epsilon), np.random.default_rng(7)
    estimates: list[list[float]] = [[], []]
    for _ in range(10):
        a = np.exp(c * rng.standard_normal((20_000, slots), dtype=np.float32) - c * c / 2)
        r = 1 - q + q * a.mean(axis=1)
        inside = r + q * math.expm1(c * c) * a[:, 0] / slots  # the record in the first slot, which is any
        estimates[1].append(float(np.maximum(1 - gamma * r, 0.0).mean()))
        estimates[0].append(float(np.maximum(1 - gamma / np.array([r, inside]), 0.0).mean(axis=1) @ [1 - q, q]))
    mean, error = max((float(np.mean(each)), float(np.std(each)) / math.sqrt(10)) for each in estimates)
    bound = hockey_stick(RandomAllocation(q, slots), 1 / c, epsilon, "zero_out")
    assert mean - 5 * error <= bound <= mean * 1.05 + 5 * error


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_law_of_a_slot_is_one_with_its_mean(mirrored: bool) -> None:
    for c in (0.05, 0.5, 2.0, 7.0):
        law = slot_law.single(c, mirrored)
        assert (np.diff(law.points) > 0).all()
        assert law.masses.min() >= 0
        assert float(law.masses.sum()) == pytest.approx(1.0, abs=1e-12)
        mean = float(law.masses @ law.points) + law.cut
        assert mean >= (-1 if mirrored else 1) - 1e-12 * (1 + law.conditioning)
        assert mean <= (-1 if mirrored else 1) + 1e-9


MECHANISMS: list[Mechanism] = [
    Gaussian(),
    Laplace(),
    LastIterate(20, 0.9),
    ObjectivePerturbation(0.01),
    PoissonGaussian(0.05),
    RandomAllocation(0.5, 40),
    RandomAllocation(0.5, 20, "ordered"),
    Resampled(Laplace(), 50),
    SvrgStep(5, 50),
    WithoutReplacement(5, 50),
]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_replacement_is_two_steps(mechanism: Mechanism) -> None:
    """epsilon under zero_out is no more than under replace_one, and (2 epsilon, (1 + e^epsilon) delta) is no less.

    A curve that was too low, such as the half of a half, would break the second.
    """
    queries = (Query("q", 1 if isinstance(mechanism, RandomAllocation) else 4, mechanism),)
    null_release = calibrate(queries, Privacy(0.8, 1e-6), "zero_out")
    replacement_plan = Plan(null_release.plan.queries)
    epsilon = certify(null_release.plan, 1e-6)[0]
    assert epsilon <= certify(replacement_plan, 1e-6)[0] * (1 + 1e-9)
    assert certify(replacement_plan, (1 + math.exp(epsilon)) * 1e-6)[0] <= 2 * epsilon * 1.02
    assert calibrate(queries, Privacy(0.8, 1e-6)).plan.queries[0].noise_multiplier >= (
        null_release.plan.queries[0].noise_multiplier * (1 - 1e-3)
    )


def test_a_plan_without_a_grid_costs_no_more_than_under_replace_one() -> None:
    """The slots' losses are wide and the batches' small, so under zero_out no grid holds both."""
    queries = PlannedQuery("a", 1, RandomAllocation(0.5, 10), 0.6), PlannedQuery("b", 200, PoissonGaussian(1e-4), 1.2)
    null_certificate, replacement_certificate = (
        certify(Plan(queries, relation), 1e-6) for relation in ("zero_out", "replace_one")
    )
    assert [null_certificate[1].name, replacement_certificate[1].name] == ["pld", "pld"]
    assert null_certificate[0] <= replacement_certificate[0]


def test_an_allocation_is_accounted_by_its_own_relation() -> None:
    mechanism = RandomAllocation(0.5, 100)
    curves = {relation: mechanism.curves(1.2, relation) for relation in RELATIONS}
    for name, arguments in (("epsilon", (1e-3,)), ("delta", (1e-3, 1e-9))):
        null_value, replacement_value = (
            getattr(curves[relation], name)(*arguments) for relation in ("zero_out", "replace_one")
        )
        assert 0 < null_value < replacement_value
    assert knots(mechanism, 1.2, relation="zero_out")[1][0, 0] != knots(mechanism, 1.2)[1][0, 0]
    rdp_curves = [allocation.conditioned_rdp(mechanism, 1.2, [4.0], 1e-7, relation) for relation in RELATIONS]
    assert rdp_curves[1] is not None
    assert rdp_curves[0] is not None
    assert rdp_curves[1][0] < rdp_curves[0][0]


def test_plans_of_two_relations_never_cover_one_another() -> None:
    query = PlannedQuery("a", 3, Gaussian(), 4.0)
    here, there = Plan((query,)), Plan((query,), "zero_out")
    assert here.covers(here)
    assert there.covers(there)
    assert not here.covers(there)
    assert not there.covers(here)
    assert [there.gdp(), here.gdp()] == [math.sqrt(3) / 4, math.sqrt(3) / 2]
    assert there.event() == here.event()


def test_a_plan_states_its_neighbors_unless_they_are_those_of_replacement() -> None:
    query = PlannedQuery("a", 3, Gaussian(), 4.0)
    assert "neighbors" not in plan_to_json(Plan((query,)))
    document = plan_to_json(Plan((query,), "zero_out"))
    assert plan_from_json(document) == Plan((query,), "zero_out")
    for wrong in ("replace_one", "add_remove", "", None, 1, ["zero_out"]):
        with pytest.raises(CodecError):
            plan_from_json(document | {"neighbors": wrong})


def test_a_receipt_is_recomputed_under_its_own_relation() -> None:
    """A guarantee between zeroed neighbors does not hold between replaced ones, but the converse does."""
    null_release = calibrate((Query("gradient", 9, Gaussian()),), Privacy(0.5, 1e-6), "zero_out")
    built = make(release_plan=null_release, transcript=null_release.plan)
    assert built["neighbors"] == "zero_out"
    assert recompute(built).epsilon == pytest.approx(0.5, rel=1e-6)
    recomputed = recompute(built | {"neighbors": "replace_one"})
    assert recomputed.epsilon == pytest.approx(
        gauss_epsilon(6 / null_release.plan.queries[0].noise_multiplier, 1e-6), rel=1e-9
    )
    assert recomputed.epsilon > 0.9
    assert recompute(make() | {"neighbors": "zero_out"}).epsilon < 0.26
