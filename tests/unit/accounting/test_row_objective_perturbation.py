"""A perturbed objective of rows, compared with quadrature and with the worst adversaries of its proof."""

import math
from collections.abc import Callable
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from scipy import special
from scipy.stats import norm

from accounting import Privacy, Unit
from accounting.accountants import RdpAccountant, SingleUseAccountant
from accounting.calibration import calibrate, certify
from accounting.divergences.gaussian import gauss_delta
from accounting.errors import ReceiptInvalid
from accounting.mechanisms import Gaussian, ObjectivePerturbation, RowObjectivePerturbation
from accounting.mechanisms.objective_perturbation import AbstractPerturbedObjective
from accounting.mechanisms.row_objective_perturbation import LossProfile
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor
from accounting.records import receipt
from accounting.records.codec import plan_from_json, plan_to_json
from tests.support.receipts import make
from tests.support.seeded import SeededBits

Bound = Callable[[float], float]
RELATIONS: tuple[Relation, ...] = ("replace_one", "zero_out")


def _plan(ratio: float, z: float, *companions: PlannedQuery, relation: Relation = REPLACE_ONE) -> Plan:
    return Plan((PlannedQuery("minimizer", 1, RowObjectivePerturbation(ratio), z), *companions), relation)


def _of(ratio: float, z: float, relation: Relation) -> Bound:
    profile = LossProfile(math.log1p(ratio), z, relation)
    return lambda epsilon: min(1.0, profile.delta(epsilon - profile.shift)) if epsilon >= profile.shift else 1.0


def _forgetful(**wrong: float) -> Callable[[float, float, Relation], Bound]:
    """Mutants: the determinant forgotten, one record's gradient instead of two, one sign of its slope alone."""

    def of(ratio: float, z: float, relation: Relation) -> Bound:
        good = _of(ratio * wrong.get("ratio", 1), z * wrong.get("z", 1), relation)
        return lambda epsilon: good(epsilon) * wrong.get("delta", 1)

    return of


def _hockey_stick(p: np.ndarray, q: np.ndarray, cell: float, epsilon: float) -> float:
    return float(np.maximum(np.exp(p) - math.exp(epsilon) * np.exp(q), 0.0).sum()) * cell


def _log_density(theta: np.ndarray, records: list[tuple[np.ndarray, float]], strong: float, z: float) -> np.ndarray:
    """Of the minimizer over logistic losses, at points of shape (d, ..), normalized on the grid of cell 1."""
    b, d = -strong * theta, len(theta)
    hessian = np.zeros((d, d, *theta.shape[1:])) + np.eye(d).reshape(d, d, *(1,) * (theta.ndim - 1)) * strong
    for x, y in records:
        margin = np.tensordot(x, theta, 1)
        b = b + y * np.multiply.outer(x, special.expit(-y * margin))
        hessian = hessian + np.multiply.outer(np.outer(x, x), special.expit(margin) * special.expit(-margin))
    det = hessian[0, 0] if d == 1 else hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
    log = -(b**2).sum(axis=0) / (2 * z * z) + np.log(det)
    return np.asarray(log - special.logsumexp(log))


def _neighbors(d: int, angle: float, relation: Relation) -> list[tuple[list[tuple[np.ndarray, float]], ...]]:
    """Return neighbors: opposite labels, with and without company, rows at an angle, a shorter row, or no row."""
    row = np.eye(d)[0]
    angled_row = row if d == 1 else np.array([math.cos(angle), math.sin(angle)])
    company = [(row, 1.0), (angled_row, -1.0), (-row, 1.0)]
    if relation == "zero_out":
        return [([(row, 1.0)], []), ([*company, (angled_row, 1.0)], company)]
    return [
        ([(row, 1.0)], [(angled_row, -1.0)]),
        ([*company, (row, 1.0)], [*company, (angled_row, -1.0)]),
        ([(row, -1.0)], [(angled_row * 0.3, 1.0)]),
    ]


def _covers(of: Callable[[float, float, Relation], Bound], d: int, ratio: float, z: float, relation: Relation) -> bool:
    """Return whether the bound covers the exact profiles of logistic minimizers (G = 1, beta = 1/4), in both orders."""
    strong = 0.25 / ratio
    width = (6 * z + 4) / strong
    line = np.linspace(-width, width, 40_001 if d == 1 else 301)
    theta = line[None] if d == 1 else np.stack(np.meshgrid(line, line, indexing="ij"))
    bound = of(ratio, z, relation)
    for angle in (0.0,) if d == 1 else (0.0, 0.7, math.pi / 2, 2.6):
        for sides in _neighbors(d, angle, relation):
            p, q = (_log_density(theta, records, strong, z) for records in sides)
            for epsilon in (0.05, 0.3, 0.7, 1.5):
                for first, second in ((p, q), (q, p)):
                    if _hockey_stick(first, second, 1.0, epsilon) > bound(epsilon) * (1 + 1e-6) + 1e-9:
                        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("ratio", "z"), [(0.25, 2.0), (0.05, 5.0), (2.0, 1.0), (0.01, 3.0)])
def test_the_profile_covers_exact_minimizers_in_one_and_two_dimensions(
    ratio: float, z: float, relation: Relation
) -> None:
    assert _covers(_of, 1, ratio, z, relation)
    assert _covers(_of, 2, ratio, z, relation)


def test_exact_minimizers_catch_a_forgotten_gradient() -> None:
    """Labels that stay on one side have slopes near 1/2 each: two records move b by about G together, and more."""
    assert _covers(_of, 1, 0.01, 1.0, "replace_one")
    assert not _covers(_forgetful(z=2.5), 1, 0.01, 1.0, "replace_one")
    assert _covers(_of, 1, 4.0, 20.0, "zero_out")
    assert not _covers(_forgetful(ratio=0.05), 1, 4.0, 20.0, "zero_out")


@lru_cache
def _corners(z: float, angle: float, epsilon: float) -> float:
    """E max_k (1 - e^(epsilon - l_k))_+: slopes that follow b, by quadrature over the plane that two rows span."""
    b = np.linspace(-9, 9, 801)
    weights = norm.pdf(b)
    weights /= weights.sum()
    sum_norm, difference_norm = 2 * math.cos(angle / 2) / z, 2 * math.sin(angle / 2) / z
    loss = np.maximum(
        (sum_norm * abs(b) + sum_norm**2 / 2)[:, None], (difference_norm * abs(b) + difference_norm**2 / 2)[None]
    )
    return float(weights @ np.maximum(-np.expm1(epsilon - loss), 0.0) @ weights)


def _covers_corners(of: Callable[[float, float, Relation], Bound]) -> bool:
    cells = [(z, angle, share) for z in (1.0, 3.0, 30.0) for angle in (0.0, 0.3, 1.0, 1.57) for share in (0.3, 1, 2, 4)]
    return all(
        _corners(z, a, share * 2 / z) <= of(1e-12, z, "replace_one")(share * 2 / z) * 1.001 for z, a, share in cells
    )


@pytest.mark.slow
def test_the_worst_rows_are_parallel_and_the_profile_is_theirs() -> None:
    assert _covers_corners(_of)
    for wrong in ({"z": 2.0}, {"z": 1.05}, {"delta": 0.5}):
        assert not _covers_corners(_forgetful(**wrong))
    for z, epsilon in ((1.0, 4.0), (3.0, 1.5), (30.0, 0.2)):
        assert _of(1e-12, z, "replace_one")(epsilon) == pytest.approx(_corners(z, 0.0, epsilon), rel=1e-3)


@pytest.mark.parametrize(("z", "other_mu_squared"), [(3.0, 0.04), (3.0, 0.4), (1.0, 0.2), (30.0, 0.0005), (30.0, 0.02)])
def test_an_angle_that_follows_earlier_answers_is_covered(z: float, other_mu_squared: float) -> None:
    """All other answers come before the minimizer, and the angle is the worst one for their losses."""
    own = 4 / z**2
    x = np.linspace(-9, 9, 1501)
    weights = norm.pdf(x)
    weights /= weights.sum()
    profile = LossProfile(0.0, z, "replace_one")
    for epsilon in np.array([0.5, 1.5, 3.0, 4.5]) * math.sqrt(own + other_mu_squared):
        remaining = epsilon - math.sqrt(other_mu_squared) * x - other_mu_squared / 2
        splits = [own * share for share in (1.0, 0.95, 0.8, 0.6, 0.5)]
        worst = [
            max(2 * sum(gauss_delta(math.sqrt(t), e) for t in (split, own - split)) for split in splits)
            for e in remaining
        ]
        assert float(weights @ np.array(worst)) <= profile.delta(float(epsilon), other_mu_squared)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("z", "ratio", "other_mu_squared"), [(3.0, 0.1, 0.0), (12.0, 0.01, 0.003), (0.9, 1.0, 0.5), (10.0, 0.05, 0.04)]
)
def test_the_stated_epsilon_to_fifty_digits(
    z: float, ratio: float, other_mu_squared: float, relation: Relation
) -> None:
    companions = (
        ()
        if other_mu_squared == 0
        else (PlannedQuery("o", 1, Gaussian(), sensitivity_factor(relation) / math.sqrt(other_mu_squared)),)
    )
    epsilon = SingleUseAccountant().epsilon(_plan(ratio, z, *companions, relation=relation), 1e-7)
    with mpmath.workdps(50):
        e = mpmath.mpf(epsilon) - mpmath.log1p(mpmath.mpf(ratio))
        own = (4 if relation == REPLACE_ONE else 1) / mpmath.mpf(z) ** 2
        both = own + mpmath.mpf(other_mu_squared)

        def straight(t: mpmath.mpf) -> mpmath.mpf:
            mu = mpmath.sqrt(t)
            return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)

        delta = 2 * straight(both)
        if relation == REPLACE_ONE and other_mu_squared:
            threshold = e - mpmath.sqrt(both + both**2 / 4) - mpmath.mpf(other_mu_squared) / 2
            early = straight(mpmath.mpf(other_mu_squared)) + 2 * mpmath.ncdf(-threshold / mpmath.sqrt(other_mu_squared))
            delta += 2 * min(straight(both), early)
        assert mpmath.mpf("0.9999") * 1e-7 < delta <= 1e-7


@pytest.mark.parametrize("z", [0.9, 3.0, 30.0])
def test_rows_at_an_angle_count_where_the_profile_is_not_convex(z: float) -> None:
    """Below h four corners are counted, each as far as it can be: two rows at a right angle cost more than parallel."""
    t, profile = 4 / z**2, LossProfile(0.0, z, "replace_one")
    h = math.sqrt(t + t**2 / 4)
    for share, corners in ((0.1, 4), (1 - 1e-9, 4), (1 + 1e-9, 2), (3.0, 2)):
        assert profile.delta(share * h) == pytest.approx(corners * gauss_delta(math.sqrt(t), share * h))
    assert 4 * gauss_delta(math.sqrt(t / 2), h / 3) > 2 * gauss_delta(math.sqrt(t), h / 3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("privacy", [Privacy(0.1, 1e-5), Privacy(1.0, 1e-6), Privacy(8.0, 1e-6), Privacy(0.01, 1e-2)])
def test_it_takes_less_noise_than_the_curve_and_more_than_one_answer(privacy: Privacy, relation: Relation) -> None:
    multipliers = {}
    for mechanism in (ObjectivePerturbation(0.01), RowObjectivePerturbation(0.01), Gaussian()):
        queries = (Query("minimizer", 1, mechanism, 0.9), Query("other", 2, Gaussian(), 0.1))
        release = calibrate(queries, privacy, relation)
        assert privacy.epsilon * 0.99 < release.epsilon <= privacy.epsilon
        assert certify(release.plan, privacy.delta)[0] <= release.epsilon * (1 + 1e-9)
        multipliers[mechanism.name] = release.plan.queries[0].noise_multiplier
    assert (
        multipliers["gaussian"]
        < multipliers["row_objective_perturbation"]
        <= multipliers["objective_perturbation"] * 1.005
    )
    if privacy.delta < 1e-3:
        assert multipliers["row_objective_perturbation"] < 0.95 * multipliers["objective_perturbation"]


def test_epsilon_beyond_the_profile_is_infinite_or_that_of_the_curve() -> None:
    assert LossProfile(0.1, 3.0, "replace_one").epsilon(1e-13) == math.inf
    assert LossProfile(0.1, 1e-7, "replace_one").epsilon(1e-6) == math.inf
    assert LossProfile(0.1, 1e9, "replace_one").epsilon(1e-3) == 0.1  # what the determinants may cost remains
    plan = _plan(0.01, 150.0)
    assert SingleUseAccountant().epsilon(plan, 1e-2) == pytest.approx(RdpAccountant().epsilon(plan, 1e-2), rel=0.02)
    twice = Plan((PlannedQuery("minimizer", 2, RowObjectivePerturbation(0.01), 9.0),))
    assert SingleUseAccountant().epsilon(twice, 1e-6) == math.inf


@pytest.mark.parametrize("mechanism", [ObjectivePerturbation(0.5), RowObjectivePerturbation(0.5)])
def test_b_has_the_accounted_noise(mechanism: AbstractPerturbedObjective) -> None:
    """The std s is z G and no less. Every mechanism's contract is to draw noise of its stated std."""
    for z, bound in ((1e-3, 1e-6), (3.0, 0.7), (1e12, 1e6)):
        assert 1 <= mechanism.std(z, bound, 5) / (z * bound) < 1 + 1e-9
    for relation in RELATIONS:  # for the multiplier at which mu = k G / s
        assert mechanism.multiplier(0.25, relation) == pytest.approx(sensitivity_factor(relation) / 0.5)
    drawn = mechanism.perturb(np.zeros(4000), 3.0, 0.7, Noise(SeededBits(7)))
    assert float(np.mean(drawn**2)) == pytest.approx(2.1**2, rel=0.15)  # 6.7 standard deviations


def test_documents_state_that_a_record_is_one_row() -> None:
    plan = _plan(0.5, 3.0)
    assert plan.event() == {
        "type": "RowObjectivePerturbationDpEvent",
        "curvature_ratio": 0.5,
        "event": {"type": "GaussianDpEvent", "noise_multiplier": 3.0},
    }
    assert plan_from_json(plan_to_json(plan)) == plan
    old = Plan((PlannedQuery("minimizer", 1, ObjectivePerturbation(0.5), 3.0),))
    assert certify(old, 1e-6)[0] > certify(plan, 1e-6)[0]  # an older document keeps its price


def test_a_receipt_of_persons_of_several_rows_is_not_accounted_for_by_it() -> None:
    """The proof is for a record of one term."""
    planned = (Query("minimizer", 1, RowObjectivePerturbation(0.1)),)
    for unit in (Unit(), Unit("person", 1)):
        assert receipt.recompute(make(planned, unit=unit)).accountant == "pld"
    with pytest.raises(ReceiptInvalid, match="minimizer"):
        receipt.recompute(make(planned, unit=Unit("person", 2)))
