"""The best of several runs: its curve, compared with exact sums over all outcomes, its coins and its costs."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_mu
from accounting.divergences.selection import _log_factor
from accounting.errors import FilterMismatch, OutOfRange
from accounting.filter import Filter, Kind
from accounting.mechanisms import Gaussian, Selection
from accounting.noise import Noise
from accounting.noise.coins import heads
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import Privacy, Relation
from tests.support.seeded import SeededBits

Law = NDArray[np.float64]
ORDERS = [1.5, 2.0, 4.0, 10.0, 30.0, 100.0]
EDGES = np.array([-np.inf, -1.0, 0.0, 0.7, 1.5, 2.2, np.inf])


def cells(mean: float) -> Law:
    """Return the law of the cell of N(mean, 1), a mechanism of six scores that is |difference of means|-GDP."""
    return np.asarray(np.diff(ndtr(EDGES - mean)))


def released(laws: list[Law], states_count: bool = False) -> Law:
    """Return P(run, score, and number of counted runs if stated), summed over the coins and scores of all runs."""
    n = len(laws)
    probabilities = np.zeros((n, len(laws[0]), n + 1))
    for coins in product((False, True), repeat=n):
        if not any(coins):
            continue
        counted = [i for i in range(n) if coins[i]]
        for scores in product(range(len(laws[0])), repeat=len(counted)):
            chance = math.prod(float(laws[i][s]) for i, s in zip(counted, scores, strict=True))
            score, best = max(zip(scores, counted, strict=True))
            probabilities[best, score, len(counted) if states_count else 0] += chance
    return probabilities.ravel() / (2**n - 1)


def renyi(p: Law, q: Law, a: float) -> float:
    here = p > 0
    assert (q[here] > 0).all()
    return float(logsumexp(a * np.log(p[here]) + (1 - a) * np.log(q[here]))) / (a - 1)


def laws(mu: float, runs: int) -> tuple[list[Law], list[Law]]:
    """Of unlike runs on two neighbors: each moved by mu or less, up or down."""
    starts, moves = [0.0, 0.4, -0.3, 0.1], [mu, -mu, mu / 2, mu]
    return [cells(s) for s in starts[:runs]], [cells(s + m) for s, m in zip(starts, moves, strict=True)][:runs]


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("runs", [2, 4])
def test_the_curve_is_above_the_exact_divergence_of_unlike_runs_in_both_orders(mu: float, runs: int) -> None:
    first, second = (released(own) for own in laws(mu, runs))
    bound = Selection(runs).curves(2 / mu).rdp(ORDERS)
    for a, rho in zip(ORDERS, bound, strict=True):
        assert max(renyi(first, second, a), renyi(second, first, a)) <= rho


def test_values_between_the_points_of_the_grid_are_within_the_bound() -> None:
    """The maximum over a grid 64 times as fine lies between the maximum of the coarse grid and the stated bound."""
    x, orders = np.linspace(-12.0, 12.0, 64 * 4096 + 1), (2.0, 8.0, 200.0)
    for mu in (0.7, 3.0):
        log_shifted, log_base = np.log1p(-ndtr(-x - mu) / 2), np.log1p(-ndtr(-x) / 2)
        for b, bound in zip(orders, _log_factor(mu, orders), strict=True):
            values = b * log_shifted - (b - 1) * log_base
            assert values[::64].max() < values.max() <= bound
            assert bound <= values.max() + 5e-6 * (1 + b * mu)


def alike(mu: float, runs: int) -> tuple[Law, Law]:
    """Of runs alike, in which the score of the worst cell is all that a neighbor moves: (1 + q)^n, by formula."""

    def best(p: Law) -> Law:
        below = np.concatenate(([0.0], np.cumsum(p)))
        whole = ((1 + below) / 2) ** runs
        return np.asarray(np.diff(whole) / (1 - 0.5**runs))

    return best(cells(0.0)), best(cells(mu))


@pytest.mark.parametrize(("runs", "mu", "a"), [(4, 0.2, 4.0), (40, 0.5, 10.0)])
def test_neither_half_the_noise_nor_the_price_of_one_run_would_do(runs: int, mu: float, a: float) -> None:
    p, q = alike(mu, runs)
    exact = max(renyi(p, q, a), renyi(q, p, a))
    assert exact <= Selection(runs).curves(2 / mu).rdp([a])[0]
    assert exact > 1.1 * a * mu**2 / 2  # the price of one run
    p, q = alike(2 * mu, runs)
    assert max(renyi(p, q, a), renyi(q, p, a)) > Selection(runs).curves(2 / mu).rdp([a])[0]


def test_stating_how_many_runs_counted_would_break_the_guarantee() -> None:
    """If k is stated, the law is a mixture of the best of k over all k. It exceeds the curve for 40 runs."""
    mu, runs, a = 0.5, 40, 10.0
    p, q = cells(0.0), cells(mu)

    def best(law: Law, k: int) -> Law:
        return np.asarray(np.diff(np.concatenate(([0.0], np.cumsum(law))) ** k))

    chances = [math.comb(runs, k) / (2**runs - 1) for k in range(1, runs + 1)]
    stated_laws = [np.concatenate([c * best(law, k) for k, c in enumerate(chances, 1)]) for law in (p, q)]
    bound = Selection(runs).curves(2 / mu).rdp([a])[0]
    assert max(renyi(stated_laws[0], stated_laws[1], a), renyi(stated_laws[1], stated_laws[0], a)) > bound


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_it_costs_more_than_one_run_and_never_more_than_all(relation: Relation) -> None:
    for runs in (2, 8, 64):
        for z in (0.5, 5.0, 100.0):
            curve = Selection(runs).curves(z, relation).rdp(ORDERS)
            single = Gaussian().curves(z, relation).rdp(ORDERS)
            assert (curve > single).all()
            assert (curve <= runs * single * (1 + 1e-9)).all()


def test_the_figures_that_pages_state() -> None:
    """The pages state the ratio of a run's noise to a single job's noise at epsilon 1 and delta 1e-6."""
    mu = gauss_mu(1.0, 1e-6)
    pages = [(Path("docs") / page).read_text() for page in ("jobs.md", "decisions/0033-tunings.md")]
    for runs, places in ((4, (0,)), (8, (0, 1)), (16, (0, 1))):
        plan = calibrate((Query("selection", 1, Selection(runs)),), Privacy(1.0, 1e-6)).plan
        figure = f"{plan.queries[0].noise_multiplier * mu / 2:.2f}"
        assert all(figure in pages[page] for page in places), (runs, figure)


def test_filters_charge_it_or_raise() -> None:
    plan = Plan((PlannedQuery("selection", 1, Selection(8), 20.0),))
    assert plan.gdp() is None
    assert plan.pure() is None
    rule = Filter.open("rdp", Privacy(3.0, 1e-6))
    assert rule.admits(rule.zero_cost, rule.cost(plan))
    kinds: tuple[tuple[Kind, float], ...] = (("gdp", 1e-6), ("pure", 0.0))
    for kind, delta in kinds:
        with pytest.raises(FilterMismatch):
            Filter.open(kind, Privacy(3.0, delta)).cost(plan)


def test_coins_are_fair_and_never_all_tails() -> None:
    """Of 6,000 draws of three coins each of the seven outcomes has its share, within 6 of its stds."""
    noise, drawn = Noise(SeededBits(5)), 6000
    outcomes = np.array([heads(noise, 3) for _ in range(drawn)]) @ np.array([1, 2, 4])
    shares = np.bincount(outcomes, minlength=8) / drawn
    assert shares[0] == 0
    assert np.abs(shares[1:] - 1 / 7).max() < 6 * math.sqrt(1 / 7 * 6 / 7 / drawn)
    assert heads(noise, 200).shape == (200,)
    with pytest.raises(OutOfRange):
        heads(noise, 0)


def test_the_best_that_counts_is_chosen_and_the_last_of_several_alike() -> None:
    noise, scores = Noise(SeededBits(3)), np.array([1.0, 3.0, 3.0, -np.inf])
    chosen = [int(Selection(4).perturb(scores, 1.0, 1.0, noise)[0]) for _ in range(3000)]
    shares = np.bincount(chosen, minlength=4) / len(chosen)
    assert shares == pytest.approx([2 / 15, 4 / 15, 8 / 15, 1 / 15], abs=6 * 0.5 / math.sqrt(3000))
    for wrong in (np.array([np.nan, 1.0]), np.zeros((2, 2)), np.zeros(0)):
        with pytest.raises(OutOfRange):
            Selection(2).perturb(wrong, 1.0, 1.0, noise)
