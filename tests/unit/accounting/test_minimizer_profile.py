"""The profile of a minimizer alone, compared with exact minimizers and with the adversaries of its proof."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from accounting import Privacy
from accounting.accountants import PldAccountant, RdpAccountant, SingleUseAccountant
from accounting.calibration import calibrate, certify
from accounting.charges import EarlierPlan
from accounting.divergences.gaussian import gauss_delta
from accounting.filter import Filter
from accounting.mechanisms import Gaussian, ObjectivePerturbation, RowObjectivePerturbation
from accounting.mechanisms.row_objective_perturbation import LossProfile, MinimizerProfile
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor
from accounting.records import receipt
from tests.support.receipts import make

ZERO_OUT: Relation = "zero_out"
RELATIONS = (REPLACE_ONE, ZERO_OUT)


def _bound(ratio: float, m: float, relation: Relation, epsilon: float) -> float:
    return float(MinimizerProfile(ratio, 1 / m, relation)(np.array([epsilon]))[0])


def _gaussian(m: float, relation: Relation, e: float) -> float:
    """Return D(e, T), the bound without any corners."""
    return gauss_delta(sensitivity_factor(relation) * m, e)


def _larger_order(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in ((p, q), (q, p)))


def _of_one_number(m: float, ratio: float, offset: float, epsilon: float) -> float:
    """Return delta of a record against none, if its slope is a ramp and all else is the ridge, by quadrature."""
    b, cell = np.linspace(-14 - m, 14 + m, 200_001, retstep=True)
    a = np.clip(offset + ratio * b, -m, m)
    without = norm.pdf(b) * cell
    with_record = norm.pdf(b + a) * np.where(abs(a) < m, 1 + ratio, 1.0) * cell
    return _larger_order(without, with_record, epsilon)


ONE_NUMBER = [
    (m, ratio, offset, share)
    for m in (0.1, 1.0, 5.0)
    for ratio in (0.01 * m, 0.3 * m, 2 * m, 20 * m)
    for offset in (0.0, 1.0)
    for share in (0.2, 2.0)
]


def test_it_covers_a_record_of_one_number_and_needs_the_second_corner() -> None:
    """A steep slope reaches both corners. Then delta is twice D(epsilon, T), and the bound is exact."""
    excess, without_second = 0.0, 0.0
    for m, ratio, offset, share in ONE_NUMBER:
        epsilon = m * m / 2 + share * m + math.log1p(ratio)
        exact = _of_one_number(m, ratio, offset * m, epsilon)
        excess = max(excess, exact / _bound(ratio, m, ZERO_OUT, epsilon) - 1)
        without_second = max(without_second, exact / _gaussian(m, ZERO_OUT, epsilon - math.log1p(ratio)) - 1)
    assert -1e-3 < excess < 1e-5
    assert without_second > 0.1


def test_two_corners_of_one_row_need_the_slope() -> None:
    """The slope is a ramp of slope K at most, and the determinants are left out, as in the second order's proof."""
    y, cell = np.linspace(-14, 14, 20_001, retstep=True)
    excess, without_slope = 0.0, 0.0
    for m, ratio, start, share in itertools.product(
        (0.1, 1.0), (0.03, 0.1, 0.3, 1.0, 3.0), (0.0, 0.3, 1.0), (0.3, 2.0)
    ):
        epsilon = np.array([m * m / 2 + share * m])
        a = np.clip((start + ratio * y) * m, -m, m)
        exact = float(np.maximum(-np.expm1(epsilon - a * y - a * a / 2), 0.0) @ norm.pdf(y)) * cell
        bound = float(MinimizerProfile(ratio * m, 1 / m, ZERO_OUT).without_record(epsilon)[0])
        excess = max(excess, exact / bound - 1)
        without_slope = max(without_slope, exact / _gaussian(m, ZERO_OUT, float(epsilon[0])) - 1)
    assert excess < 1e-5
    assert without_slope > 0.5


def _two_numbers(rng: np.random.Generator, relation: Relation) -> tuple[float, float, list[tuple[float, float]]]:
    """Return m, K and (epsilon, exact delta) of random records with ramps as slopes, beside a random quadratic."""
    m, ratio = 10 ** rng.uniform(-1, 0.7), 10 ** rng.uniform(-2, 1)
    turn, stretch = rng.uniform(0, math.pi), 10 ** rng.uniform(0, 2)
    axes = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    inverse = axes @ np.diag([1.0, 1 / stretch]) @ axes.T
    line, cell = np.linspace(-8 - m, 8 + m, 401, retstep=True)
    b = np.stack(np.meshgrid(line, line, indexing="ij"))

    def law(angle: float | None, offset: float) -> np.ndarray:
        if angle is None:
            return np.asarray(np.prod(norm.pdf(b), axis=0) * cell**2)
        row = np.array([math.cos(angle), math.sin(angle)])
        a = np.clip(offset + ratio * np.tensordot(inverse @ row, b, 1), -m, m)
        shifted = np.prod(norm.pdf(b + np.multiply.outer(row, a)), axis=0)
        law = shifted * np.where(abs(a) < m, 1 + ratio * (row @ inverse @ row), 1.0) * cell**2
        assert float(law.sum()) == pytest.approx(1, abs=0.02)
        return np.asarray(law)

    first, second = rng.uniform(0, math.pi, 2)
    p = law(first, rng.uniform(-m, m))
    q = law(second, rng.uniform(-m, m)) if relation == REPLACE_ONE else law(None, 0.0)
    mu = sensitivity_factor(relation) * m
    epsilons = [math.log1p(ratio) * part + mu * mu / 2 + share * mu for part in (0, 1) for share in (0.1, 1.0, 2.0)]
    return m, ratio, [(epsilon, _larger_order(p, q, epsilon)) for epsilon in epsilons]


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_covers_random_minimizers_of_two_numbers(relation: Relation) -> None:
    rng = np.random.default_rng(20261127)
    for _ in range(30):
        m, ratio, deltas = _two_numbers(rng, relation)
        for epsilon, exact in deltas:
            assert exact <= _bound(ratio, m, relation, epsilon) * (1 + 1e-3) + 1e-9


def _adversary(m: float, ratio: float, c: float, e: float) -> float:
    """Return the largest mean of the proof's corners, if a may fall along s at the slope K (1 - c) / 2."""
    q, slope = math.sqrt(1 - c * c), ratio * (1 - c) / 2
    s = np.linspace(-9, 9, 721)
    weights = norm.pdf(s) / norm.pdf(s).sum()
    side = abs(s)

    def value(along: np.ndarray | float, across: np.ndarray | float, n: float) -> np.ndarray:
        loss = along * side + across * n + (np.square(along) + np.square(across)) / 2
        return np.asarray(np.maximum(-np.expm1(e - loss), 0.0))

    mean = 0.0
    for n, weight in zip(s[::12], norm.pdf(s[::12]) / norm.pdf(s[::12]).sum(), strict=True):
        across = np.maximum(value(0.0, 2 * m * q, n), value(0.0, -2 * m * q, n))
        worst = 0.0
        for start in np.linspace(-m, m, 9):
            a = np.clip(start - slope * s, -m, m)  # by reflection, the half s < 0 has the opposite corner
            own = np.where(s > 0, value((m - a) * c, (m + a) * q, n), value((m + a) * c, -(m - a) * q, n))
            worst = max(worst, float(weights @ np.maximum(own, across)))
        mean += float(weight) * worst
    return mean


ADVERSARIES = [
    (m, ratio, c, share)
    for m in (0.1, 1.0)
    for ratio in (0.1 * m, 3 * m, 300 * m)
    for c in (1.0, 0.99, 0.9, math.sqrt(0.5))
    for share in (0.3, 1.5, 3.0)
]


@pytest.mark.slow
def test_the_corners_of_two_rows_are_covered_and_need_the_slope() -> None:
    excess, without_slope = 0.0, 0.0
    for m, ratio, c, share in ADVERSARIES:
        e = 2 * m * m + share * 2 * m
        worst = _adversary(m, ratio, c, e)
        excess = max(excess, worst / _bound(ratio, m, REPLACE_ONE, e + math.log1p(ratio) * (1 + 1e-9)) - 1)
        without_slope = max(without_slope, worst / _bound(1e-12, m, REPLACE_ONE, e + 1e-12) - 1)
    assert excess < 1e-3
    assert without_slope > 0.2


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_lies_between_one_gaussian_answer_and_the_first_profile(relation: Relation) -> None:
    for m in (1e-7, 0.01, 0.3, 3.0):
        for ratio in (1e-12, 0.01, 1.0, 1e6):
            shift = math.log1p(ratio) * (1 + 1e-9)
            first = LossProfile(shift, 1 / m, relation)
            previous = 1.0
            for share in (0.0, 0.1, 1.0, 3.0, 6.0):
                e = share * sensitivity_factor(relation) * max(m, 1e-5)
                bound = _bound(ratio, m, relation, shift + e)
                assert _gaussian(m, relation, e * (1 + 1e-9)) * (1 - 1e-9) <= bound <= min(previous, 1.0)
                assert bound <= first.delta(e) * (1 + 1e-6) + 1e-15 or bound == previous == 1.0
                previous = bound
            below = _bound(ratio, m, relation, shift * 0.99)
            assert below == 1.0
            noisier = _bound(ratio, m / 1.1, relation, shift + m)
            assert noisier <= _bound(ratio, m, relation, shift + m) * (1 + 1e-9)
    assert _bound(0.01, 0.1, relation, 0.01 + 0.6) < 1.02 * _gaussian(0.1, relation, 0.6 + 0.01 - math.log1p(0.01))


def _plan(ratio: float, z: float, share: float, relation: Relation) -> Plan:
    """Return a plan in which other answers have this share of the mu^2 of the minimizer's linear term."""
    companion = PlannedQuery("other", 3, Gaussian(), z * math.sqrt(3 / share))
    return Plan((PlannedQuery("minimizer", 1, RowObjectivePerturbation(ratio), z), companion), relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("ratio", "z", "share"), [(0.02, 20.0, 0.02), (0.1, 9.0, 0.5), (0.5, 2.0, 0.3)])
def test_the_composed_epsilon_is_that_of_a_quadrature(ratio: float, z: float, share: float, relation: Relation) -> None:
    delta, mu = 1e-6, sensitivity_factor(relation) / z
    epsilon = PldAccountant().epsilon(_plan(ratio, z, share, relation), delta)
    companion_mu = mu * math.sqrt(share)
    losses, cell = np.linspace(
        companion_mu**2 / 2 - 12 * companion_mu, companion_mu**2 / 2 + 12 * companion_mu, 4001, retstep=True
    )
    weights = norm.pdf(losses, companion_mu**2 / 2, companion_mu) * cell
    e = epsilon - losses
    profile = MinimizerProfile(ratio, z, relation)(np.maximum(abs(e), 1e-300))
    both_orders = np.where(e >= 0, profile, 1 - np.exp(np.minimum(e, 0)) * (1 - profile))
    assert 0.98 * delta <= float(weights @ both_orders) <= delta
    assert epsilon < SingleUseAccountant().epsilon(_plan(ratio, z, share, relation), delta)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("privacy", [Privacy(0.2, 1e-5), Privacy(1.0, 1e-6), Privacy(8.0, 1e-6)])
def test_jobs_need_the_noise_of_one_gaussian_answer(privacy: Privacy, relation: Relation) -> None:
    """A tenth of epsilon is for the determinants, as by default, and the Gaussian answer gets the rest."""
    shift = 0.1 * privacy.epsilon
    row = RowObjectivePerturbation(math.expm1(shift))
    queries = (Query("minimizer", 1, row, 0.9), Query("other", 2, Gaussian(), 0.1))
    release = calibrate(queries, privacy, relation)
    assert release.accountant == "pld"
    assert privacy.epsilon * 0.9997 < release.epsilon <= privacy.epsilon
    single = calibrate((Query("a", 1, Gaussian()),), Privacy(privacy.epsilon - shift, privacy.delta), relation)
    spent = release.plan.queries[0].noise_multiplier * math.sqrt(0.9)
    assert 1 <= spent / single.plan.queries[0].noise_multiplier < 1.002


@pytest.mark.parametrize("relation", RELATIONS)
def test_targets_beyond_composed_losses_keep_the_first_profile(relation: Relation) -> None:
    release = calibrate((Query("minimizer", 1, RowObjectivePerturbation(0.01)),), Privacy(1.0, 1e-11), relation)
    assert release.accountant == "single_use"


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_receipt_of_an_earlier_version_is_verified_by_the_first_profile(relation: Relation) -> None:
    planned = (Query("minimizer", 1, RowObjectivePerturbation(0.02)), Query("other", 1, Gaussian(), 0.02))
    release = calibrate(planned, Privacy(0.5, 1e-6), relation)
    document = make(release_plan=release, transcript=release.plan)
    plan = receipt.plan_of(document)
    stated = SingleUseAccountant().epsilon(plan, document["delta"])
    assert stated > document["epsilon"] * 1.01
    earlier = document | {"epsilon": stated, "accountant": "single_use"}
    verified = receipt.recompute(earlier)
    assert (verified.accountant, verified.epsilon) == ("single_use", stated)
    today = receipt.recompute(document)
    assert today.accountant == "pld"
    assert today.is_within(document["epsilon"])
    assert not receipt.recompute(document | {"epsilon": document["epsilon"] * 0.99}).is_within(
        document["epsilon"] * 0.99
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_an_earlier_charge_still_pays_and_todays_is_smaller(relation: Relation) -> None:
    rule = Filter.open("gdp_rdp", Privacy(3.0, 1e-6))
    plan = _plan(0.01, 40.0 if relation == REPLACE_ONE else 20.0, 0.02, relation)
    by_curve = Plan(
        (PlannedQuery("minimizer", 1, ObjectivePerturbation(0.01), plan.queries[0].noise_multiplier), plan.queries[1]),
        relation,
    )
    assert rule.cost(EarlierPlan(plan)) == rule.cost(by_curve)
    assert rule.pays(rule.cost(by_curve), plan)
    assert rule.pays(rule.cost(plan), plan)
    assert not rule.pays(rule.cost(plan), by_curve)
    assert rule.cost(plan)[0] < 0.9 * rule.cost(by_curve)[0]


def test_an_unknown_number_of_rows_keeps_the_curve() -> None:
    plan = _plan(0.05, 10.0, 0.02, REPLACE_ONE)
    first = replace(plan.queries[0], mechanism=ObjectivePerturbation(0.05))
    persons = replace(plan, queries=(first, plan.queries[1]))
    assert PldAccountant().epsilon(persons, 1e-6) == math.inf
    assert certify(persons, 1e-6)[0] == RdpAccountant().epsilon(persons, 1e-6)


FORMULA_CASES = list(itertools.product((0.03, 0.3, 1.5), (0.02, 0.3, 3.0, 30.0), (-0.4, 0.01, 0.05, 0.5, 1.5, 2.5)))


def _divergence(e: float, square: float) -> float:
    """Return D(e, square), also at square = 0."""
    return gauss_delta(math.sqrt(square), e) if square > 0 else max(0.0, -math.expm1(e))


def _mean_excess(r: float) -> float:
    """Return g(r) of the proof."""
    return float(norm.pdf(r)) - r * float(norm.sf(r))


def _distance(density: float) -> float:
    """Return the r in [.1, 30] at which the normal density is nearest to this one."""
    return math.sqrt(min(max(-2 * math.log(max(density, 1e-300) * math.sqrt(2 * math.pi)), 0.01), 900.0))


def _replace_one_of_the_proof(m: float, ratio: float, e: float) -> float:
    """Return the largest B(c, r) over c, at one r, or the corners of the first profile if they are less."""
    square = 4 * m * m
    parallel = _divergence(e, square)
    corners = (2 if e >= math.sqrt(square + square**2 / 4) else 4) * parallel
    if e < square / 2:
        return corners
    r = _distance(parallel / (2 * m))
    tail = float(norm.sf(r)) + (0.8 + 2 * m) * _mean_excess(r)
    values = []
    for c in 1 - (1 - math.sqrt(0.5)) * np.linspace(0.0, 1.0, 200) ** 2:
        q = math.sqrt(max(0.0, 1 - c * c))
        early = 2 * float(norm.sf((e - square / 2) / (2 * m * q))) if q else 0.0
        first = _divergence(e, square * c * c) * (1 + ratio * (1 - c) * r / (2 * m) + early)
        values.append(first + ratio * (1 - c) * tail + 2 * _divergence(e, square * q * q))
    return min(corners, max(values))


def _zero_out_of_the_proof(m: float, ratio: float, e: float, epsilon: float) -> float:
    """Return max(D(e, T), min(2 D(epsilon, T), Z(r))) at one r."""
    without_record = _divergence(epsilon, m * m)
    second = 2 * without_record
    if epsilon >= m * m / 2:
        r = max(_distance(without_record / m), min(m / (2 * ratio), 30.0))
        remainder = 2 * ratio * (float(norm.sf(r)) + m * _mean_excess(r))
        second = min(second, without_record * max(1.0, 2 * ratio * r / m) + remainder)
    return max(_divergence(e, m * m), second)


@pytest.mark.parametrize(("m", "ratio", "share"), FORMULA_CASES)
def test_the_profile_is_the_formula_of_the_proof(m: float, ratio: float, share: float) -> None:
    """The grid of c adds at most a tenth. Every term counts, also those that no known adversary reaches."""
    determinants = math.log1p(ratio)
    e = 2 * m * m + share * 2 * m
    if e >= 0:
        bound, exact = _bound(ratio, m, REPLACE_ONE, e + determinants), _replace_one_of_the_proof(m, ratio, e)
        assert 0.9 * bound <= min(exact, 1.0) <= bound * (1 + 1e-6)
    epsilon = m * m / 2 + share * m
    if epsilon >= determinants:
        bound = _bound(ratio, m, ZERO_OUT, epsilon)
        exact = _zero_out_of_the_proof(m, ratio, epsilon - determinants, epsilon)
        assert min(exact, 1.0) == pytest.approx(bound, rel=1e-6)
