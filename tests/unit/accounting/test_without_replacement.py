"""Sampling without replacement: its curve, its loss, its batches, and the printed step of SVRG."""

import math
from collections import Counter
from itertools import combinations

import mpmath
import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import guard
from accounting.accountants.tight import PldAccountant
from accounting.calibration import calibrate, certify
from accounting.divergences.gaussian import gauss_delta
from accounting.divergences.null_batches import spread
from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian, SvrgStep, WithoutReplacement
from accounting.mechanisms.without_replacement import WithoutReplacementLoss, shift_of
from accounting.noise import Noise
from accounting.noise.draws import distinct_rows
from accounting.noise.lattice import Lattice
from accounting.plan import Plan, PlannedQuery, Query
from accounting.records.codec import MAX_QUERIES, plan_from_json, plan_to_json
from tests.reference import losses
from tests.support.seeded import SeededBits

ROWS = 200_000


def delta_of(q: float, mu: float, epsilon: float) -> float:
    """T4's bound itself."""
    return q * gauss_delta(mu, math.log1p(math.expm1(epsilon) / q))


def test_composed_masses_agree_with_the_reference() -> None:
    ours = guard.pessimistic_pmf(*WithoutReplacementLoss(0.01, 1.0).masses(1e-3)).self_compose(100)
    reference = losses.without_replacement(0.01, 1.0, 1e-3).self_compose(100)
    for delta in (1e-3, 1e-6):
        assert ours.get_epsilon_for_delta(delta) == pytest.approx(reference.get_epsilon_for_delta(delta), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "z", "order"),
    [(40_000, 1.4, 1.1), (40_000, 1.4, 7.0), (1000, 1.0, 9.0), (1, 0.9, 5.0), (10**5, 20, 64)],
)
def test_the_curve_by_high_precision_integration(batch: int, z: float, order: float) -> None:
    q, mu = mpmath.mpf(batch) / ROWS, 2 / mpmath.mpf(z)

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        r = 1 - q + q * mpmath.exp(mu * x - mu * mu / 2)
        return (r**order + r ** (1 - order) - 1 - r) * mpmath.npdf(x)

    with mpmath.workdps(30):
        ends = [mu / 2, *(mu / 2 + distance for distance in range(2, int(order * mu) + 18, 2))]
        exact = mpmath.log1p(mpmath.quad(integrand, ends)) / (order - 1)
    actual = WithoutReplacement(batch, ROWS).curves(z).rdp([order])[0]
    assert exact < actual < exact * (1 + 2e-6)


def test_the_curve_is_a_number_grows_with_the_order_and_stays_below_the_unsampled_one() -> None:
    orders = [1.01, 1.5, 2.0, 20.0, 64.0, 300.0, 1e4, 1e5]
    for batch in (1, 7, 5000, 199_999, 200_000):
        for z in (1e-3, 0.05, 0.3, 1.0, 30.0, 1e6):
            curve = WithoutReplacement(batch, ROWS).curves(z).rdp(orders)
            assert np.isfinite(curve).all()
            assert (curve > 0).all()
            assert (np.diff(curve) >= -1e-5 * curve[1:]).all()
            assert (curve <= Gaussian().curves(z).rdp(orders) * (1 + 1e-12)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("q", "mu"), [(0.01, 1.0), (0.3, 0.2), (1e-5, 2.5)])
def test_the_profile_of_one_answer_is_the_theorems(q: float, mu: float) -> None:
    """The masses only raise the profile, and by little. Both orders of the neighbors have one profile."""
    loss = WithoutReplacementLoss(q, mu)
    pmf = guard.pessimistic_pmf(*loss.masses(loss.deviation / 100))
    for epsilon in (0.0, 0.3 * loss.deviation, 2 * loss.deviation):
        exact, delta = delta_of(q, mu, epsilon), float(pmf.get_delta_for_epsilon(epsilon))
        assert exact * (1 - 1e-9) - 1e-16 <= delta <= exact * 1.02 + 1e-16
        expected = 1 - math.exp(-epsilon) + math.exp(-epsilon) * exact  # H at e^-epsilon, from the symmetry
        assert float(pmf.get_delta_for_epsilon(-epsilon)) == pytest.approx(expected, rel=1e-3)


def test_the_moments_of_the_loss_are_bounded() -> None:
    for q, mu in ((0.01, 1.0), (0.3, 0.2), (1e-4, 2.5), (0.5, 4.0)):
        x = np.linspace(mu / 2, mu + 12, 200_001)
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
        ratio = 1 - q + q * np.exp(mu * x - mu * mu / 2)
        mean, square = ((np.log(ratio) ** k * (ratio + (-1) ** k) * density).sum() for k in (1, 2))
        bounds = WithoutReplacementLoss(q, mu).moments(3)
        assert 3 * mean <= bounds[0] * 1.001
        assert 3 * square <= bounds[1] * 1.001


def test_many_answers_are_nearly_gaussian() -> None:
    """Dong, Roth and Su 2022: mu^2 -> K 2 q^2 spread(mu_1)."""
    mechanism = WithoutReplacement(1000, ROWS)
    z = mechanism.multiplier(0.25 / 10_000)
    limit = Plan((PlannedQuery("one", 1, Gaussian(), 4.0),))  # mu = 1/2
    assert certify(Plan((PlannedQuery("k", 10_000, mechanism, z),)), 1e-4)[0] == pytest.approx(
        certify(limit, 1e-4)[0], rel=0.02
    )


def test_the_spread_and_its_inverse() -> None:
    for mu in (1e-6, 1e-3, 0.5, 3.0, 20.0):
        assert shift_of(spread(mu)) == pytest.approx(mu, rel=1e-6)
    assert spread(1e-4) == pytest.approx(1e-8 / 2, rel=1e-3)


def test_without_sampling_it_is_the_gaussian_mechanism() -> None:
    whole = WithoutReplacement(50, 50)
    assert whole.curves(3.0).gdp == Gaussian().curves(3.0).gdp
    assert whole.multiplier(0.01) == Gaussian().multiplier(0.01)
    assert list(whole.curves(3.0).rdp([2.0, 9.0])) == pytest.approx(list(Gaussian().curves(3.0).rdp([2.0, 9.0])))


@pytest.mark.parametrize(("batch", "rows"), [(0, 5), (6, 5), (1, 0), (1.0, 5), (True, 5), (1, 10**10 + 1)])
def test_sizes_out_of_range_are_refused(batch: int, rows: int) -> None:
    for mechanism in (WithoutReplacement, SvrgStep):
        with pytest.raises(OutOfRange):
            mechanism(batch, rows)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "count"), [(6, 2), (20, 2)])
def test_every_batch_is_as_likely(n: int, count: int) -> None:
    """Both ways of drawing: by keys, and by rejection (20 rows, 2 of them). Chi-square, a false alarm below 1e-9."""
    noise, runs = Noise(SeededBits(3)), 20_000
    counts = Counter(tuple(distinct_rows(noise, n, count).tolist()) for _ in range(runs))
    sets = list(combinations(range(n), count))
    assert set(counts) <= set(sets)
    expected = runs / len(sets)
    chi = sum((counts[s] - expected) ** 2 / expected for s in sets)
    assert chi < len(sets) + 9 * math.sqrt(2 * len(sets)) + 40


def test_rows_are_distinct_and_all_there() -> None:
    noise = Noise(SeededBits(1))
    for n, count in ((1, 1), (5, 0), (5, 5), (1000, 3), (100_000, 10_000), (100_000, 20_000)):
        rows = distinct_rows(noise, n, count)
        assert len(set(rows.tolist())) == count
        assert ((rows >= 0) & (rows < n)).all()
    with pytest.raises(OutOfRange):
        distinct_rows(noise, 3, 4)


class TestPrintedStep:
    @pytest.mark.slow
    def test_the_split_is_near_the_best(self) -> None:
        """No fixed split of a scan meets the target with 5 % less noise."""
        for batch, rows, count in ((50, 1000, 40), (1, 200, 75)):
            step = SvrgStep(batch, rows)
            z = 0.95 * calibrate((Query("step", count, step),), Privacy(1.0, 1e-5)).plan.queries[0].noise_multiplier
            for s in (0.5, 2 / 3, 0.75, 0.85, 0.9, 0.95, 0.97, 0.99, 0.998):
                parts = (
                    PlannedQuery("a", count, WithoutReplacement(batch, rows), z * math.sqrt(s)),
                    PlannedQuery("b", count, Gaussian(), 2 * z * math.sqrt(1 - s) * rows / batch),
                )
                assert PldAccountant().epsilon(Plan(parts), 1e-5) > 1.0

    def test_the_split_shares_the_noise(self) -> None:
        """sigma_1^2 + sigma_2^2 = sigma^2: mu_1 = 4G / (b sigma_1), mu_2 = 2G / (n sigma_2), with G = 1."""
        for batch, z in ((1, 0.9), (30, 3.0), (1000, 40.0)):
            (_, change_multiplier), (_, anchor_multiplier) = SvrgStep(batch, 1000).parts(z)
            sigma, sigma_1, sigma_2 = (
                z * 2 / batch,
                4 / (batch * 2 / change_multiplier),
                2 / (1000 * 2 / anchor_multiplier),
            )
            assert math.hypot(sigma_1, sigma_2) == pytest.approx(sigma)

    def test_all_rows_cost_three_gradients(self) -> None:
        """b = n: 2 G/n for the anchor and 4 G/n for the changes, nothing hidden."""
        assert SvrgStep(100, 100).curves(6.0).gdp == pytest.approx(3 / 6.0)
        assert SvrgStep(100, 100).multiplier(0.25) == pytest.approx(6.0)
        assert SvrgStep(99, 100).curves(6.0).gdp is None

    def test_the_split_leaves_noise_for_both_parts(self) -> None:
        for z in (1e-3, 0.05, 0.5, 5.0, 1e9):
            for batch in (1, 50, 1000):
                step = SvrgStep(batch, 1000)
                assert 0.66 < step.split(z) < 1
                bound = step.curves(z).gdp_bound
                assert bound is not None
                assert math.isfinite(bound)
                assert np.isfinite(step.curves(z).rdp([1.5, 8.0, 200.0])).all()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("epsilon", "delta", "batch", "std"),
        [(1.0, 1e-3, 1000, 0.02254), (1.0, 1e-6, 100, 0.04963), (1.0, 1e-6, 1, 1.725)],
    )
    def test_the_papers_sizes_against_the_reference(self, epsilon: float, delta: float, batch: int, std: float) -> None:
        """Compare sigma / G at n = 200,000 and K = 75,000. The paper tried five splits, to within 0.6 %."""
        release = calibrate((Query("step", 75_000, SvrgStep(batch, ROWS)),), Privacy(epsilon, delta))
        z = release.plan.queries[0].noise_multiplier
        assert 0.97 * std < z * 2 / batch < 1.015 * std

    def test_its_event_is_both_parts_and_recomputes(self) -> None:
        release = calibrate((Query("step", 50, SvrgStep(20, 1000)), Query("full", 2, Gaussian())), Privacy(1.0, 1e-6))
        tree = release.plan.event()
        kinds = [part["type"] for part in tree["events"][0]["event"]["events"]]
        assert kinds == ["SampledWithoutReplacementDpEvent", "GaussianDpEvent"]
        step, full = release.plan.queries
        parts = [PlannedQuery(m.name, 50, m, z) for m, z in SvrgStep(20, 1000).parts(step.noise_multiplier)]
        assert PldAccountant().epsilon(Plan((*parts, full)), 1e-6) == pytest.approx(release.epsilon, rel=1e-9)
        assert plan_from_json(plan_to_json(release.plan)) == release.plan

    def test_the_largest_plan_of_printed_steps_reads_back(self) -> None:
        for step in (SvrgStep(7, 1000), SvrgStep(1, 10**10)):
            largest = Plan(tuple(PlannedQuery(f"q{i}", 2, step, 1e3) for i in range(MAX_QUERIES)))
            assert plan_from_json(plan_to_json(largest)) == largest
            assert len(largest.event()["events"]) == MAX_QUERIES

    def test_both_parts_are_rounded_apart(self) -> None:
        """The answer is a multiple of the lattice, which is so fine that n/b steps are little beside the bound."""
        step, z, bound = SvrgStep(2, 1000), 0.8, 0.5
        lattice = Lattice.fit(z, bound, 3, weight=1000.0)
        assert step.std(z, bound, 3) == lattice.std >= z * (bound + 500 * math.sqrt(3) * lattice.spacing)
        value = np.array([[0.1, 0.2, 0.3], [1.0, -2.0, 3.0]])
        answer = step.perturb(value, z, bound, Noise(SeededBits(5)))
        assert answer.shape == (3,)
        assert np.array_equal(np.rint(answer / lattice.spacing) * lattice.spacing, answer)
        assert np.abs(answer - value.sum(axis=0)).max() < 9 * lattice.std
        huge = lattice.rounded(np.array([1e300, -1e300, 0.0]))
        assert np.abs(huge + huge).max() <= 2.0**51 * lattice.spacing


def test_the_split_has_its_limits_at_the_ends() -> None:
    """Two thirds for much noise; where there is next to none, nearly all of it is the batch's."""
    step = SvrgStep(10, 1000)
    assert step.split(1e12) == pytest.approx(2 / 3, rel=1e-6)
    assert 0.999 < step.split(1e-3) < 1
