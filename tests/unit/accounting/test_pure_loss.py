"""Losses of pure answers, alone and composed, compared with exact profiles and laws on other grids."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from accounting import Privacy
from accounting.accountants import GaussianAccountant, PldAccountant, PureAccountant, RdpAccountant
from accounting.accountants.tight import composed_loss
from accounting.calibration import calibrate, certify
from accounting.charges import UNIT, EarlierPlan, smallest_share
from accounting.divergences import laplace, randomized_response
from accounting.divergences.losses import GaussianLoss
from accounting.divergences.pure_loss import PureLoss
from accounting.filter import Filter
from accounting.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonGaussian,
    RandomAllocation,
    Resampled,
)
from accounting.mechanisms.mechanism import Curves
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import Relation
from accounting.records.recomputation import recompute_plan

Vector = NDArray[np.floating[Any]]
Law = tuple[Vector, Vector]
"""Losses and their probabilities under P."""

EPSILONS = [1e-5, 9e-4, 0.02, 0.4, 1.0, 6.0, 30.0]
SHARES = [-0.999, -0.6, -0.1, 0.0, 0.07, 0.5, 0.93, 0.9999]
DELTA = 1e-6


def profile(kind: str, epsilon: float, s: float) -> mpmath.mpf:
    """H_(e^s) of the pair for |s| <= epsilon, as the pages of proofs define it."""
    e, s = mpmath.mpf(epsilon), mpmath.mpf(s)
    if kind == "any":
        return (mpmath.exp(e) - mpmath.exp(s)) / (1 + mpmath.exp(e))
    if kind == "laplace":
        return 1 - mpmath.exp((s - e) / 2)
    return (mpmath.exp(e / 2) - mpmath.exp(s / 2)) ** 2 / (mpmath.exp(e) - 1)


LOSSES: dict[str, Callable[[float], PureLoss]] = {
    "any": lambda epsilon: PureLoss(epsilon, 1.0),
    "laplace": lambda epsilon: PureLoss(epsilon, (1 + math.exp(-epsilon)) / 2),
    "choice": lambda epsilon: PureLoss(epsilon, 0.0),
}


def test_mechanisms_have_the_loss_of_their_pair() -> None:
    for kind, mechanism in (("laplace", Laplace()), ("choice", Exponential())):
        assert mechanism.curves(1.0, "zero_out").losses == (LOSSES[kind](1.0),)


def hockey_stick(losses: Vector, masses: Vector, s: float) -> float:
    return float(np.sum(masses * np.maximum(0.0, -np.expm1(s - losses))))


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("fineness", [3.0, 12.0, 41.7])
def test_masses_lie_above_the_exact_profile_and_close(kind: str, epsilon: float, fineness: float) -> None:
    loss = LOSSES[kind](epsilon)
    interval, lowest, masses, infinity = loss.masses(epsilon / fineness)
    losses = interval * (lowest + np.arange(len(masses)))
    assert infinity == 0.0
    assert masses.min() >= 0.0
    assert masses.sum() == pytest.approx(1.0, abs=1e-13)
    assert masses @ np.exp(-losses) == pytest.approx(1.0, abs=1e-12)
    with mpmath.workdps(40):
        for share in SHARES:
            delta, truth = hockey_stick(losses, masses, share * epsilon), profile(kind, epsilon, share * epsilon)
            assert delta >= truth * (1 - 1e-9) - 1e-15
            # Between two points of the grid the profile follows a chord, over a kink by a quarter of the interval.
            assert delta <= truth + 0.3 * interval * math.exp(interval)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_excess_falls_with_the_interval(kind: str) -> None:
    epsilon = 0.7
    excess = []
    for fineness in (5.3, 50.3, 500.3):
        interval, lowest, masses, _ = LOSSES[kind](epsilon).masses(epsilon / fineness)
        losses = interval * (lowest + np.arange(len(masses)))
        excess.append(
            max(
                hockey_stick(losses, masses, share * epsilon) - float(profile(kind, epsilon, share * epsilon))
                for share in np.linspace(-1, 1, 101)
            )
        )
    assert excess[2] <= excess[1] <= excess[0]
    assert excess[2] < 1e-3


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_moments_are_those_of_the_masses(kind: str, epsilon: float) -> None:
    loss = LOSSES[kind](epsilon)
    interval, lowest, masses, _ = loss.masses(epsilon / 1000)
    losses = interval * (lowest + np.arange(len(masses)))
    mean, square = loss.moments(3)
    assert mean == pytest.approx(3 * float(masses @ losses), rel=2e-3)
    assert square == pytest.approx(3 * float(masses @ losses**2), rel=2e-3)
    assert loss.deviation**2 == pytest.approx(square / 3)


def trade_off(kind: str, epsilon: float) -> Law:
    """Points of the trade-off curve: the probability of loss > e under Q, and of its complement under P."""
    e = np.linspace(-epsilon, epsilon, 20_001)[1:-1]
    if kind == "laplace":
        return np.exp(-(epsilon + e) / 2) / 2, np.exp(-(epsilon - e) / 2) / 2
    return np.expm1((epsilon - e) / 2) / math.expm1(epsilon), np.expm1((epsilon + e) / 2) / math.expm1(epsilon)


@pytest.mark.parametrize("epsilon", [1e-6, 9.9e-4, 1e-3, 0.1, 1.0, 5.0, 20.0, 60.0])
@pytest.mark.parametrize("kind", ["laplace", "choice"])
def test_mu_is_the_least_of_a_gaussian_pair_that_dominates(kind: str, epsilon: float) -> None:
    mechanism: Mechanism = Laplace() if kind == "laplace" else Exponential()
    mu = mechanism.curves(2 / epsilon).gdp
    assert mu is not None
    assert mu == mechanism.curves(2 / epsilon).gdp_bound
    assert mu <= randomized_response.gdp(epsilon)
    first, second = trade_off(kind, epsilon)
    needed = stats.norm.isf(first) + stats.norm.isf(second)
    assert mu >= needed.max() * (1 - 1e-10) - 1e-15
    assert mu <= needed.max() * (1 + 1e-6) + 1e-12


def test_the_epsilon_of_a_mu_of_laplace_noise_keeps_its_digits() -> None:
    with mpmath.workdps(60):
        for mu in (1e-30, 1e-9, 1e-3, 0.5, 0.999, 1.0, 5.0, 30.0):
            exact = -2 * mpmath.log(2 * mpmath.ncdf(-mpmath.mpf(mu) / 2))
            assert laplace.epsilon_of_gdp(mu) == pytest.approx(float(exact), rel=1e-13)
            if mu < 5:
                assert laplace.gdp(laplace.epsilon_of_gdp(mu)) == pytest.approx(mu, rel=1e-6)


def epsilon_of(losses: Vector, masses: Vector, delta: float) -> float:
    low, high = 0.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(losses, masses, middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.0), (7, 0.5), (60, 0.1), (300, 0.02)])
def test_composed_randomized_response_is_binomial(count: int, epsilon: float) -> None:
    heads = np.arange(count + 1)
    truth = epsilon_of(
        epsilon * (2.0 * heads - count), stats.binom.pmf(heads, count, 1 / (1 + math.exp(-epsilon))), DELTA
    )
    composed = composed_loss(((PureLoss(epsilon, 1.0), count),))
    assert composed is not None
    (interval, lowest, masses, infinity), error = composed
    actual = epsilon_of(interval * (lowest + np.arange(len(masses))), masses, DELTA - infinity - error)
    assert truth * (1 - 1e-9) <= actual <= truth * 1.01 + 1e-9


def optimistic(kind: str, epsilon: float, count: int) -> Law:
    """The losses and masses of `count` pairs that reveal less: each shows only the cell that holds its loss."""
    cells = 400
    edges = np.linspace(-epsilon, epsilon, cells + 1)
    density = math.exp(-epsilon / 2) / 2 if kind == "laplace" else 1 / (2 * math.sinh(epsilon / 2))
    p = density * np.diff(np.exp(edges / 2))
    q = density * -np.diff(np.exp(-edges / 2))
    ratio = np.log(p / q)  # the loss of a whole cell
    values, masses = np.round((ratio + epsilon) / (edges[1] - edges[0]) - 0.5).astype(int), p
    assert np.allclose(ratio, edges[:-1] + (edges[1] - edges[0]) / 2, atol=1e-9)  # e^(l/2) makes them cell centers
    law = np.zeros(2 * cells + 1)  # in half cells from -epsilon
    law[2 * values + 1] += masses
    if kind == "laplace":
        law[0] += math.exp(-epsilon) / 2
        law[-1] += 0.5
    total = np.ones(1)
    for bit in bin(count)[2:]:
        total = np.convolve(total, total)
        total = np.convolve(total, law) if bit == "1" else total
    return (edges[1] - edges[0]) / 2 * np.arange(len(total)) - epsilon * count, total


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.0), (5, 0.4), (40, 0.15), (4, 3.0)])
@pytest.mark.parametrize("mechanism", [Laplace(), Exponential()], ids=lambda m: m.name)
def test_a_certificate_is_between_the_truth_and_one_percent_above(
    mechanism: Mechanism, count: int, epsilon: float
) -> None:
    kind = "laplace" if mechanism.name == "laplace" else "choice"
    plan = Plan((PlannedQuery("a", count, mechanism, 2 / epsilon),))
    truth, certified = epsilon_of(*optimistic(kind, epsilon, count), DELTA), PldAccountant().epsilon(plan, DELTA)
    assert truth * (1 - 1e-9) <= certified <= truth * 1.01


@pytest.mark.parametrize("mechanism", [Laplace(), Exponential()], ids=lambda m: m.name)
def test_pure_and_gaussian_answers_compose_in_one_certificate(mechanism: Mechanism) -> None:
    """The exact delta is the mean, over the losses of the pure answers, of the Gaussian profile at the remainder."""
    kind, count, epsilon, mu = "laplace" if mechanism.name == "laplace" else "choice", 12, 0.2, 0.4
    losses, masses = optimistic(kind, epsilon, count)

    def delta(s: float) -> float:
        remaining = s - losses
        gaussian = stats.norm.cdf(mu / 2 - remaining / mu) - np.exp(remaining) * stats.norm.cdf(
            -mu / 2 - remaining / mu
        )
        return float(masses @ gaussian)

    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > DELTA else (low, middle)
    plan = Plan((PlannedQuery("a", count, mechanism, 2 / epsilon), PlannedQuery("g", 4, Gaussian(), 4 / mu)))
    certified, accountant = certify(plan, DELTA)
    assert high * (1 - 1e-9) <= certified <= high * 1.005
    assert accountant.name == "pld"
    sampled = Plan((*plan.queries, PlannedQuery("p", 50, PoissonGaussian(0.01), 2.0)))
    assert certified < PldAccountant().epsilon(sampled, DELTA) < RdpAccountant().epsilon(sampled, DELTA)


@pytest.mark.parametrize("count", [30, 100, 2000])
@pytest.mark.parametrize("privacy", [Privacy(1.0, 1e-6), Privacy(0.2, 1e-4)], ids=str)
def test_many_laplace_answers_need_less_noise_than_their_renyi_curves_allow(count: int, privacy: Privacy) -> None:
    release = calibrate((Query("a", count, Laplace()),), privacy)
    noise = release.plan.queries[0].noise_multiplier
    assert release.accountant == "pld"
    assert release.epsilon <= privacy.epsilon
    low, high = noise, 2 * noise
    for _ in range(30):
        middle = (low + high) / 2
        plan = Plan((PlannedQuery("a", count, Laplace(), middle),))
        fits = min(a.epsilon(plan, privacy.delta) for a in (RdpAccountant(), GaussianAccountant(), PureAccountant()))
        low, high = (low, middle) if fits <= privacy.epsilon else (middle, high)
    assert noise < 0.96 * high


@pytest.mark.parametrize("mechanism", [Laplace(), Exponential()], ids=lambda m: m.name)
def test_certificates_grow_with_answers_and_fall_with_noise(mechanism: Mechanism) -> None:
    noises, counts = (5.0, 7.0, 30.0, 31.0, 400.0), (1, 2, 3, 20, 21, 500)
    epsilons = np.array(
        [[certify(Plan((PlannedQuery("a", c, mechanism, z),)), DELTA)[0] for c in counts] for z in noises]
    )
    assert (np.diff(epsilons, axis=0) <= 0).all()
    assert (np.diff(epsilons, axis=1) >= 0).all()


@pytest.mark.parametrize("mechanism", [Laplace(), Exponential()], ids=lambda m: m.name)
@pytest.mark.parametrize("count", [1, 400])
def test_the_default_filter_charges_many_pure_answers_of_one_job_by_their_composed_loss(
    mechanism: Mechanism, count: int
) -> None:
    """One answer is charged exactly. Many come near the mu^2 of their variance, with a part of the slack."""
    rule = Filter.open("gdp_rdp", Privacy(1.0, DELTA))
    plan = Plan((PlannedQuery("a", count, mechanism, 300.0),))
    cost, mu = rule.cost(plan), mechanism.curves(300.0).gdp
    assert mu is not None
    assert rule.pays(cost, plan)
    assert (cost[-1] > 0) == (count > 1)
    if count == 1:
        assert cost[0] / UNIT == pytest.approx(mu**2, rel=1e-6)
    else:
        assert cost[0] / UNIT < 0.9 * count * mu**2
        assert cost[-1] <= UNIT * smallest_share(cost[:-1], rule.thresholds[:-1])


def test_an_unknown_pure_answer_has_the_loss_of_randomized_response() -> None:
    resampled = Resampled(Laplace(), 1000).curves(100.0)
    assert resampled.pure is not None
    assert resampled.losses == (PureLoss(resampled.pure, 1.0),)
    plan = Plan((PlannedQuery("a", 100, Resampled(Laplace(), 1000), 100.0), PlannedQuery("g", 1, Gaussian(), 50.0)))
    heads = np.arange(101)
    tosses = stats.binom.pmf(heads, 100, 1 / (1 + math.exp(-resampled.pure)))
    losses, mu = resampled.pure * (2.0 * heads - 100), 2 / 50.0
    gap = PldAccountant().epsilon(plan, DELTA) * (1 - 1e-3) - losses
    gaussian = stats.norm.cdf(mu / 2 - gap / mu) - np.exp(gap) * stats.norm.cdf(-mu / 2 - gap / mu)
    assert DELTA < tosses @ gaussian < 2 * DELTA


@pytest.mark.parametrize("mechanism", [Laplace(), Exponential()], ids=lambda m: m.name)
def test_losses_too_small_for_a_grid_are_replaced_by_their_gaussian_bounds(mechanism: Mechanism) -> None:
    """A million-fold range of losses: 1,000 pure answers of epsilon 1e-6 beside a jump."""
    plan = Plan((PlannedQuery("a", 1000, mechanism, 2e6), PlannedQuery("b", 1, RandomAllocation(0.5, 100), 1.5)))
    bounded = EarlierPlan(plan).parts()[0][1].losses
    assert bounded == (GaussianLoss(randomized_response.gdp(1e-6)),)
    assert PldAccountant().epsilon(plan, DELTA) == PldAccountant(earlier=True).epsilon(plan, DELTA)


def gaussian_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charge pure answers as earlier versions did: by the Gaussian pair over randomized response."""
    for kind in (Laplace, Exponential):

        def curves(
            self: Mechanism, z: float, relation: Relation = "replace_one", now: Callable[..., Curves] = kind.curves
        ) -> Curves:
            curves = now(self, z, relation)
            assert curves.pure is not None
            mu = randomized_response.gdp(curves.pure)
            return replace(curves, gdp=mu, gdp_bound=mu, losses=(GaussianLoss(mu),))

        monkeypatch.setattr(kind, "curves", curves)


@pytest.mark.parametrize("mechanism", [Laplace(), Exponential()], ids=lambda m: m.name)
@pytest.mark.parametrize(
    "companion",
    [PlannedQuery("b", 1000, PoissonGaussian(0.01), 4.0), PlannedQuery("b", 1, RandomAllocation(0.5, 100), 2.0)],
    ids=lambda query: query.mechanism.name,
)
@pytest.mark.parametrize(("count", "epsilon"), [(1, 1e-5), (1, 0.4), (30, 0.03), (5000, 1e-3), (100_000, 3e-5)])
def test_an_earlier_charge_and_certificate_hold_for_the_same_plan_now(
    monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism, companion: PlannedQuery, count: int, epsilon: float
) -> None:
    rule = Filter.open("gdp_rdp", Privacy(3.0, DELTA))
    plan = Plan((PlannedQuery("a", count, mechanism, 2 / epsilon), companion))
    with monkeypatch.context() as earlier:
        gaussian_bounds(earlier)
        paid, (then, _), by_losses = rule.cost(plan), certify(plan, DELTA), PldAccountant().epsilon(plan, DELTA)
    assert rule.pays(paid, plan)
    assert certify(plan, DELTA)[0] <= then * (1 + 1e-3)
    assert PldAccountant(earlier=True).epsilon(plan, DELTA) == pytest.approx(by_losses, rel=1e-12)
    recomputed = recompute_plan(plan, then, DELTA)
    assert recomputed is not None
    assert recomputed.is_within(then)
