"""Pure privacy (delta = 0): curves, calibration, codec, integer weights and receipts."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar

from accounting import Privacy
from accounting.calibration import calibrate, certify
from accounting.divergences import laplace, randomized_response
from accounting.errors import BudgetExhausted, CalibrationFailed, OutOfRange, Unsupported
from accounting.filter import UNIT, Filter
from accounting.mechanisms import Exponential, Gaussian, Laplace, Mechanism
from accounting.mechanisms.exponential import chosen_index, weights
from accounting.noise import Noise
from accounting.noise.draws import uniform_below
from accounting.noise.lattice import Lattice
from accounting.plan import Plan, PlannedQuery, Query
from accounting.records.events import Opened
from accounting.records.ledger import LedgerState, advance, remaining_epsilon, spent_epsilon
from tests.support.chains import charge_of
from tests.support.operations import elements, operations
from tests.support.seeded import ScriptedBits, SeededBits

ORDERS = [1.01, 1.5, 2.0, 10.0, 300.0, 1e5]
EPSILONS = [1e-9, 1e-4, 0.01, 0.3, 1.0, 5.0, 50.0, 700.0]
PURE: tuple[Mechanism, ...] = (Laplace(), Exponential())


def exact(epsilon: float, a: float, curve: str) -> mpmath.mpf:
    """The curves to fifty digits, as the pages of proofs define them."""
    e, a = mpmath.mpf(epsilon), mpmath.mpf(a)
    if curve == "laplace":
        moment = a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
    else:
        p, q = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
        moment = p**a * q ** (1 - a) + q**a * p ** (1 - a)
    return mpmath.log(moment) / (a - 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_curves_are_rounded_up_and_close(epsilon: float) -> None:
    with mpmath.workdps(50):
        response_curve = randomized_response.renyi(epsilon, ORDERS)
        laplace_curve = Laplace().curves(2 / epsilon).rdp(ORDERS)
        for i, a in enumerate(ORDERS):
            for value, truth, room in (
                (response_curve[i], exact(epsilon, a, "response"), 2e-9),
                (laplace_curve[i], exact(epsilon, a, "laplace"), 1e-4),
            ):
                assert truth <= value * (1 + 1e-15)
                assert value <= min(truth * (1 + room), epsilon * (1 + 1e-12))


def test_the_epsilon_of_a_mu_keeps_its_digits() -> None:
    with mpmath.workdps(60):
        for mu in (1e-30, 1e-17, 1e-9, 1e-3, 0.5, 0.999, 1.0, 5.0, 30.0):
            exact = mpmath.log(mpmath.ncdf(mpmath.mpf(mu) / 2) / mpmath.ncdf(-mpmath.mpf(mu) / 2))
            assert randomized_response.epsilon_of_gdp(mu) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("a", [1.3, 2.0, 8.0])
@pytest.mark.parametrize("shifts", [(0.5, 0.5), (0.9, 0.1), (0.3, 0.3, 0.4)])
def test_a_vector_costs_no_more_than_one_coordinate_that_moves_by_the_whole(
    a: float, shifts: tuple[float, ...]
) -> None:
    """D_a of independent Laplace coordinates by quadrature, against the curve at the sum of the shifts."""

    def moment(shift: float) -> float:
        def density(y: float) -> float:
            return math.exp(-a * abs(y - shift) - (1 - a) * abs(y)) / 2

        points = [-60.0, 0.0, shift, 60.0]
        return float(sum(mpmath.quad(density, pair) for pair in itertools.pairwise(points)))

    together = sum(math.log(moment(s)) for s in shifts) / (a - 1)
    assert together <= Laplace().curves(2 / sum(shifts)).rdp([a])[0]
    assert math.log(moment(1.0)) / (a - 1) == pytest.approx(Laplace().curves(2.0).rdp([a])[0], rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-6, 9.9e-4, 1e-3, 0.1, 1.0, 5.0, 20.0])
def test_the_gaussian_pair_dominates_randomized_response(epsilon: float) -> None:
    """The trade-off of N(0,1), N(mu,1) is below that of randomized response, and touches it."""
    mu = randomized_response.gdp(epsilon)
    x = np.linspace(1e-6, 1 - 1e-6, 2001)
    gaussian = stats.norm.cdf(stats.norm.isf(x) - mu)
    trade_off = np.maximum(np.maximum(0.0, 1 - np.exp(epsilon) * x), np.exp(-epsilon) * (1 - x))
    assert np.all(gaussian <= trade_off + 1e-12)
    corner = 1 / (1 + math.exp(epsilon))
    assert stats.norm.cdf(stats.norm.isf(corner) - mu) == pytest.approx(corner, rel=1e-6)
    assert randomized_response.epsilon_of_gdp(mu) == pytest.approx(epsilon, rel=1e-6)


def worst_bounded_range(epsilon: float, a: float) -> float:
    """Return the supremum of D_a over pairs with losses t and t - epsilon, the extreme pairs of range epsilon."""

    def divergence(t: float) -> float:
        up, low = math.exp(t), math.exp(t - epsilon)
        share = (1 - low) / (up - low)  # under Q, so that the ratio's mean is 1
        return math.log(share * up**a + (1 - share) * low**a) / (a - 1)

    optimum = minimize_scalar(lambda t: -divergence(t), bounds=(1e-9, epsilon - 1e-9), method="bounded")
    return -float(optimum.fun)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("a", [1.1, 2.0, 5.0, 40.0])
def test_a_choice_costs_a_quarter_of_a_pure_answer_at_most(epsilon: float, a: float) -> None:
    value, worst = Exponential().curves(2 / epsilon).rdp([a])[0], worst_bounded_range(epsilon, a)
    assert worst <= value
    if a * epsilon < 0.3:
        assert value <= worst * 1.05


def test_random_choices_stay_within_their_curve() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        scores, epsilon = rng.uniform(0, 3, 9), float(rng.uniform(0.1, 4.0))
        moved = scores + rng.uniform(-1, 1, 9)
        p, q = (np.exp(-epsilon * s / 2) for s in (scores, moved))
        p, q = p / p.sum(), q / q.sum()
        assert np.abs(np.log(p / q)).max() <= epsilon
        for a in (1.5, 4.0, 20.0):
            divergence = math.log(np.sum(p**a * q ** (1 - a))) / (a - 1)
            assert divergence <= Exponential().curves(2 / epsilon).rdp([a])[0]


@pytest.mark.parametrize("mechanism", PURE, ids=lambda m: m.name)
def test_the_multiplier_is_two_over_epsilon(mechanism: Mechanism) -> None:
    assert mechanism.curves(8.0).pure == 0.25
    for mu in (1e-4, 0.1, 3.0):
        assert mechanism.curves(mechanism.multiplier(mu * mu)).gdp == pytest.approx(mu, rel=1e-6)


@pytest.mark.parametrize("mechanism", PURE, ids=lambda m: m.name)
@pytest.mark.parametrize("epsilon", [1e-3, 0.25, 1.0, 100.0])
def test_delta_zero_shares_epsilon_by_weights(mechanism: Mechanism, epsilon: float) -> None:
    queries = (Query("a", 3, mechanism, 2.0), Query("b", 1, Laplace(), 1.0))
    release = calibrate(queries, Privacy(epsilon))
    assert (release.accountant, release.delta) == ("pure", 0.0)
    assert release.epsilon <= epsilon
    assert release.epsilon == pytest.approx(epsilon, rel=1e-8)
    a, b = release.plan.queries
    assert 3 * 2 / a.noise_multiplier == pytest.approx(epsilon * 2 / 3, rel=1e-8)
    assert 2 / b.noise_multiplier == pytest.approx(epsilon / 3, rel=1e-8)
    assert certify(release.plan, 0.0)[0] == release.epsilon


def test_gaussian_answers_have_no_epsilon_at_delta_zero() -> None:
    with pytest.raises(CalibrationFailed, match="delta"):
        calibrate((Query("a", 1, Gaussian()), Query("b", 1, Laplace())), Privacy(1.0))
    with pytest.raises(Unsupported):
        certify(Plan((PlannedQuery("a", 1, Gaussian(), 3.0),)), 0.0)


def test_at_a_positive_delta_the_accountant_of_least_noise_wins() -> None:
    single, many = (calibrate((Query("a", count, Laplace()),), Privacy(1.0, 1e-6)) for count in (1, 400))
    assert single.accountant == "pure"
    assert single.plan.queries[0].noise_multiplier == pytest.approx(2.0, rel=1e-8)
    assert many.accountant == "pld"
    assert many.plan.queries[0].noise_multiplier < 0.3 * 2 * 400
    assert many.epsilon <= 1.0
    choices = calibrate((Query("a", 400, Exponential()),), Privacy(1.0, 1e-6))
    assert choices.accountant == "rdp"
    assert choices.plan.queries[0].noise_multiplier < 0.6 * many.plan.queries[0].noise_multiplier


def test_the_event_of_a_choice_names_its_epsilon() -> None:
    assert Exponential().event(4.0) == {"type": "ExponentialMechanismDpEvent", "epsilon": 0.5}
    assert Laplace().event(4.0) == {"type": "LaplaceDpEvent", "noise_multiplier": 4.0}


def opened(kind: str, privacy: Privacy) -> LedgerState:
    return advance(None, Opened("ds", 100, Filter.open(kind, privacy)), "now")[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [1, 2, 3, 10])
def test_equal_parts_of_a_pure_budget_fit_it_and_one_more_does_not(parts: int) -> None:
    own = Privacy(1.0 / parts)
    state = opened("pure", Privacy(1.0))
    cost = state.filter.cost(calibrate((Query("a", 5, Laplace()),), own).plan)
    for i in range(parts):
        state, _ = advance(state, charge_of(f"job_{i}", cost, own), "now")
        assert spent_epsilon(state) == pytest.approx((i + 1) / parts, rel=1e-6)
        assert spent_epsilon(state) >= (i + 1) / parts * (1 - 3e-9)
    assert spent_epsilon(state) <= 1.0
    assert remaining_epsilon(state) == 0.0
    with pytest.raises(BudgetExhausted):
        advance(state, charge_of("more", cost, own), "now")


def test_charges_under_the_other_filters() -> None:
    plan = Plan((PlannedQuery("a", 2, Laplace(), 20.0),))
    renyi, gdp = Filter.open("rdp", Privacy(1.0, 1e-6)), Filter.open("gdp", Privacy(1.0, 1e-6))
    for units, a in zip(renyi.cost(plan), renyi.orders, strict=True):
        assert units / UNIT == pytest.approx(2 * Laplace().curves(20.0).rdp([a])[0], rel=1e-9)
    assert gdp.cost(plan)[0] / UNIT == pytest.approx(2 * laplace.gdp(0.1) ** 2, rel=1e-8)


@pytest.mark.parametrize("z", [1e-3, 0.1, 2.0, 1e3, 1e9, 1e12])
def test_weights_are_the_exponentials_to_their_last_digits(z: float) -> None:
    """Weights are within 13 roundings of e^(-r x), and 2^-80 for large x, the steps of a score above the least."""
    scores = np.concatenate([[0.0], np.random.default_rng(3).exponential(z, 300), [60 * z, 1e6 * z]])
    scores = scores[scores < 2.0**20]  # where 2^30 steps a sensitivity are exact in a float
    actual, rate = weights(scores, z, 0.5), ((1 - 2.0**-27) / z - 2.0**-47) / 2.0**30
    with mpmath.workdps(60):
        for score, weight in zip(scores, actual, strict=True):
            exponent = mpmath.mpf(float(np.rint(score * 2.0**30))) * mpmath.mpf(rate)
            if exponent <= 80 * mpmath.log(2):
                assert abs(mpmath.mpf(float(weight)) / mpmath.exp(-exponent) - 1) < 13.01 * 2.0**-53
            else:
                assert abs(weight * 2.0**80 - 1) < 1e-6 * max(1, 1 / z)
    assert actual[0] == 1.0
    assert actual.min() > 2.0**-81


@pytest.mark.slow
def test_a_choice_is_where_the_draw_falls_in_the_exact_sum() -> None:
    """Against fractions: the same place for draws at every edge between two shares, and on both sides of it."""
    shares = np.exp(-np.random.default_rng(4).uniform(0, 55, 80))
    ends = list(itertools.accumulate(Fraction(share) for share in shares))
    for end in [*ends[:-1], Fraction(0), ends[-1] / 3]:
        edge = math.ceil(end / ends[-1] * 2**192)
        for u in (edge - 1, edge, edge + 1):
            if 0 <= u < 2**192:
                words = [u >> 64 * k & 2**64 - 1 for k in range(3)]
                expected = sum(e * 2**133 <= math.floor(ends[-1] * 2**133 * u / 2**192) for e in ends)
                assert chosen_index(shares, Noise(ScriptedBits(words))) == expected
    assert chosen_index(shares, Noise(ScriptedBits([2**64 - 1] * 3))) == 79


def test_the_longest_list_of_the_largest_weights_does_not_overflow() -> None:
    assert chosen_index(np.ones(1 << 18), Noise(ScriptedBits([2**64 - 1] * 3))) == (1 << 18) - 1
    assert chosen_index(np.full(1 << 18, 1 - 2.0**-53), Noise(ScriptedBits([0, 0, 1 << 63]))) == 1 << 17


WORST = (np.zeros(512), np.arange(512.0), np.r_[0.0, np.full(511, 1e200)], np.linspace(0, 1e-5, 512))


@pytest.mark.slow
def test_every_list_of_scores_costs_the_same_operations() -> None:
    """Equal scores, different scores and scores at the floor take the same operations. No operation is skipped."""

    def choose(scores: NDArray[np.float64]) -> None:
        Exponential().perturb(scores, 2.0, 0.5, Noise(ScriptedBits([1, 2, 1 << 63])))

    def place(shares: NDArray[np.float64]) -> None:
        chosen_index(shares, Noise(ScriptedBits([1, 2, 1 << 63])))

    first = WORST[0]
    shares = [weights(scores, 2.0, 0.5) for scores in WORST]
    for scores, other_shares in zip(WORST[1:], shares[1:], strict=True):
        assert operations(lambda s=scores: choose(s)) == operations(lambda: choose(first))  # type: ignore[misc]
        assert elements(choose, scores) == elements(choose, first)
        assert elements(place, other_shares) == elements(place, shares[0])
    assert elements(choose, first)["minimum.reduce"] == elements(place, first + 1)["floor.__call__"] / 3 == 512


def test_a_common_shift_of_the_scores_changes_nothing() -> None:
    scores = np.arange(40) / 8
    assert np.array_equal(weights(scores, 2.0, 0.5), weights(scores + 1000.0, 2.0, 0.5))


@pytest.mark.slow
def test_choices_have_the_law() -> None:
    scores, noise, runs = np.array([0.0, 1.0, 2.0, 3.0, 0.0]), Noise(SeededBits(5)), 10_000
    draws = [int(Exponential().perturb(scores, 1.0, 0.5, noise)[0]) for _ in range(runs)]
    counts = np.bincount(draws, minlength=5)
    for rate, fits in ((1.0, True), (1.2, False), (0.8, False)):  # epsilon = 2, half of it in the exponent
        law = np.exp(-rate * scores)
        assert bool(stats.chisquare(counts, law / law.sum() * runs).pvalue > 1e-9) is fits


@pytest.mark.parametrize("total", [1, 2, 3, 5, 1000, 2**64 + 1])
def test_uniform_integers_below_any_total(total: int) -> None:
    noise = Noise(SeededBits(7))
    draws = [uniform_below(noise, total) for _ in range(3000)]
    assert all(0 <= draw < total for draw in draws)
    tenths = np.bincount([draw * min(total, 10) // total for draw in draws], minlength=min(total, 10))
    if total in (1, 2, 5, 1000, 2**64 + 1):
        assert total == 1 or stats.chisquare(tenths).pvalue > 1e-9
    else:
        assert len(set(draws)) == total


def test_nothing_to_choose_from_is_refused() -> None:
    with pytest.raises(OutOfRange):
        uniform_below(Noise(SeededBits(1)), 0)
    for scores in (np.array([]), np.array([math.nan]), np.array([math.inf, 0.0]), np.zeros((2, 2))):
        with pytest.raises(OutOfRange):
            weights(scores, 2.0, 0.5)


@pytest.mark.parametrize(("z", "bound", "d"), [(2.0, 1.0, 1), (2.0, 3.0, 50), (1e5, 1e-8, 1000), (0.05, 1e6, 10)])
def test_a_lattice_for_l1_pays_for_its_rounding_in_every_coordinate(z: float, bound: float, d: int) -> None:
    lattice = Lattice.fit_l1(z, bound, d)
    assert lattice.std >= z * (bound + lattice.spacing * d)
    assert lattice.std <= z * bound * 1.03
    answer = lattice.perturb_laplace(np.full(d, bound / 3), Noise(SeededBits(2)))
    assert np.array_equal(answer, np.rint(answer / lattice.spacing) * lattice.spacing)


@pytest.mark.parametrize(("z", "bound"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1e15, 1.0)])
def test_a_choice_needs_a_multiplier_and_a_bound(z: float, bound: float) -> None:
    with pytest.raises(OutOfRange, match="must be positive"):
        weights(np.zeros(2), z, bound)


def test_an_answer_without_privacy_diverges() -> None:
    assert randomized_response.renyi(math.inf, [1.5, 9.0]).tolist() == [math.inf, math.inf]
