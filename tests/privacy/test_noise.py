"""Goodness of fit of the noise, with power: each test must also reject noise that is five percent off.

False-alarm rates are below 1e-9 (seeds are fixed besides, so a failure is a change of the code).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from accounting.errors import OutOfRange
from accounting.noise import batch_sizes
from accounting.noise.batches import poisson_batches, poisson_rows, slots
from accounting.noise.draws import ordered_rows, uniform_indices
from accounting.noise.source import Noise, Tails
from tests.support.seeded import ScriptedBits, SeededBits

SCALE = 2.0**24 * 1.37
DRAWS = 400_000
ALARM = 1e-10


def draw(seed: int, count: int = DRAWS, scale: float = SCALE) -> NDArray[np.float64]:
    return Noise(SeededBits(seed)).rounded_gaussian(count, scale) / scale


def kolmogorov(x: NDArray[np.float64]) -> float:
    return float(stats.kstest(x, "norm").pvalue)


def variance(x: NDArray[np.float64]) -> float:
    """Two-sided p-value of sum x^2, chi-square with len(x) degrees of freedom."""
    total, n = float(np.sum(x**2)), len(x)
    return 2 * min(stats.chi2.sf(total, n), stats.chi2.cdf(total, n))


def tails(x: NDArray[np.float64]) -> float:
    """p-value of the count beyond 3."""
    count, p = int(np.sum(np.abs(x) > 3)), 2 * stats.norm.sf(3)
    return float(stats.binomtest(count, len(x), p).pvalue)


def serial(x: NDArray[np.float64]) -> float:
    """p-value of the lag-one correlation."""
    return 2 * float(stats.norm.sf(abs(np.sum(x[1:] * x[:-1])) / math.sqrt(len(x) - 1)))


@pytest.mark.parametrize("test", [kolmogorov, variance, tails, serial])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_fits(test: Callable[[NDArray[np.float64]], float], seed: int) -> None:
    assert test(draw(seed)) > ALARM


@pytest.mark.parametrize("test", [kolmogorov, variance, tails])
@pytest.mark.parametrize("factor", [0.5, 0.95, 1.05])
def test_five_percent_off_is_rejected(test: Callable[[NDArray[np.float64]], float], factor: float) -> None:
    assert test(draw(4) * factor) < ALARM


def test_repeated_noise_is_rejected() -> None:
    assert serial(np.repeat(draw(5, DRAWS // 2), 2)) < ALARM


def test_the_system_source_fits_and_never_repeats() -> None:
    first, second = Noise().rounded_gaussian(100_000, SCALE), Noise().rounded_gaussian(100_000, SCALE)
    assert kolmogorov(first / SCALE) > ALARM
    assert kolmogorov(second / SCALE) > ALARM
    assert np.sum(first == second) < 5


def test_far_tails_by_chosen_bits() -> None:
    """Feed words with z zeros: the tail probability is about 2^-(z+2), and the draw must be its exact quantile."""
    for zeros in range(11):
        word = (1 << zeros) | (0x9E3779B97F4A7 << 11)
        mantissa = (word >> 11) & ((1 << 52) - 1)
        _expect(word, [], zeros, mantissa)
    for extra in (0, 5, 40, 63):  # a run of zeros goes on in fresh words: out to 8 sigma and beyond
        mantissa = 0x123456789ABCD
        _expect(mantissa << 11, [1 << (63 - extra)], 11 + extra, mantissa)
    _expect(5 << 11, [0, 0, 1 << 60], 11 + 64 + 64 + 3, 5)


def _expect(word: int, further_words: list[int], zeros: int, mantissa: int) -> None:
    noise_value = Noise(ScriptedBits([word, *further_words])).rounded_gaussian(1, SCALE)[0]
    with mpmath.workdps(50):
        u = mpmath.ldexp((1 << 52) + mantissa, -(zeros + 54))
        exact = mpmath.findroot(lambda x: mpmath.ncdf(-x) - u, mpmath.sqrt(-2 * mpmath.log(u)) * 0.9, tol=1e-40)
        assert abs(noise_value - exact * SCALE) <= 0.5 + 1e-3
    assert noise_value > 0


def decided(bits: ScriptedBits | SeededBits, zeros: int, mantissa: int) -> float:
    """Return the exact decision of one positive draw at SCALE."""
    bits_of_tail = np.array([zeros], dtype=np.uint64), np.array([mantissa], dtype=np.uint64)
    return Noise(bits).decide(Tails(np.zeros(1), np.zeros(1, dtype=bool), *bits_of_tail), 0, SCALE)


def test_fast_and_exact_paths_agree_near_cell_boundaries() -> None:
    """The exact decision of 400 draws and what the fast path says of those it does decide."""
    noise = Noise(SeededBits(6))
    words = SeededBits(6).words(400)
    fast = noise.rounded_gaussian(400, SCALE)
    table = np.array([11] + [(i & -i).bit_length() - 1 for i in range(1, 2048)])
    zeros, mantissa = table[(words & np.uint64(2047)).astype(int)], (words >> np.uint64(11)) & np.uint64((1 << 52) - 1)
    ordinary = np.flatnonzero(zeros < 11)
    for j in ordinary:
        exact = decided(SeededBits(9), int(zeros[j]), int(mantissa[j]))
        assert abs(fast[j]) in (exact, exact + 1, exact - 1)
        with mpmath.workdps(40):
            u = mpmath.ldexp((1 << 52) + int(mantissa[j]), -(int(zeros[j]) + 54))
            low = mpmath.erfc((abs(fast[j]) - 0.5) / SCALE / mpmath.sqrt(2)) / 2
            high = mpmath.erfc((abs(fast[j]) + 0.5) / SCALE / mpmath.sqrt(2)) / 2
            assert high <= u <= low or abs(fast[j]) == 0


def test_the_exact_decision_near_boundaries() -> None:
    """At a cell boundary h the decision follows the bits: U just above P(N > h) stays below h, just under passes it."""
    for cell in (0, 1, 3, 1000, 123_456_789):
        with mpmath.workdps(60):
            tail = mpmath.erfc((mpmath.mpf(cell) + 0.5) / mpmath.mpf(SCALE) / mpmath.sqrt(2)) / 2
            zeros = int(-mpmath.floor(mpmath.log(tail, 2))) - 2
            scaled = mpmath.ldexp(tail, zeros + 54)
            below = int(mpmath.floor(scaled))
        for numerator, expected in ((below - 1, cell + 1), (below + 1, cell)):
            if (1 << 52) <= numerator < (1 << 53):
                assert decided(SeededBits(0), zeros, numerator - (1 << 52)) == expected
        # straddling: the next 64 bits decide; all ones lies above the boundary, all zeros below it
        fraction = mpmath.ldexp(scaled - below, 64)
        if 2 < fraction < 2**64 - 2:
            assert decided(ScriptedBits([0]), zeros, below - (1 << 52)) == cell + 1
            assert decided(ScriptedBits([(1 << 64) - 1]), zeros, below - (1 << 52)) == cell


def test_coarse_lattices_have_the_exact_cell_probabilities() -> None:
    """At 2^10 steps a std, bins of 64 lattice points against exact Gaussian cell masses."""
    x = Noise(SeededBits(8)).rounded_gaussian(DRAWS, 2.0**10)
    edges = np.arange(-3200, 3201, 64) - 0.5
    counts, _ = np.histogram(x, np.concatenate([[-np.inf], edges, [np.inf]]))
    masses = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / 2.0**10))
    assert stats.chisquare(counts, masses * DRAWS).pvalue > ALARM


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0.0, -1.0, 2.0**9, 2.0**34])
def test_scale_is_guarded(scale: float) -> None:
    with pytest.raises(OutOfRange):
        Noise(SeededBits(0)).rounded_gaussian(3, scale)


@pytest.mark.parametrize("rate", [1e-4, 0.005, 0.3, 1 / 3, 0.999])
def test_poisson_batches_have_the_rate_and_are_independent(rate: float) -> None:
    noise, n, rounds = Noise(SeededBits(11)), 5000, 400
    counts = np.zeros(n)
    sizes = []
    for _ in range(rounds):
        rows = poisson_rows(noise, n, rate)
        assert np.all(np.diff(rows) > 0)
        assert len(rows) == 0 or (rows[0] >= 0 and rows[-1] < n)
        counts[rows] += 1
        sizes.append(len(rows))
    total = int(counts.sum())
    assert stats.binomtest(total, n * rounds, rate).pvalue > ALARM
    spread = np.var(sizes) / (n * rate * (1 - rate)) * (rounds - 1)
    assert 2 * min(stats.chi2.sf(spread, rounds - 1), stats.chi2.cdf(spread, rounds - 1)) > ALARM


def test_a_wrong_rate_is_rejected() -> None:
    total = sum(len(poisson_rows(Noise(SeededBits(s)), 5000, 0.0525)) for s in range(400))
    assert stats.binomtest(total, 5000 * 400, 0.05).pvalue < ALARM


def test_ties_in_the_leading_bits_are_decided_by_further_bits() -> None:
    """1/3 is 0x0.5555555555555400: a row with equal first 16 bits is drawn if its next 48 bits are below."""
    tie = 0x5555
    for further_bits, included in ((0x5555555553FF, True), (0x555555555400, False)):
        rows = poisson_rows(Noise(ScriptedBits([tie, further_bits << 16])), 1, 1 / 3)
        assert (len(rows) == 1) is included


def test_rate_one_takes_all_and_bad_rates_are_refused() -> None:
    assert list(poisson_rows(Noise(SeededBits(0)), 5, 1.0)) == [0, 1, 2, 3, 4]
    for rate in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(OutOfRange):
            poisson_rows(Noise(SeededBits(0)), 5, rate)


class TestSmallBatches:
    """Drawn by their size: the law of the size, of the rows, and the draws that 64 bits do not decide."""

    @pytest.mark.parametrize(("n", "expected"), [(1, 1 / 64), (3, 0.04), (200_000, 1.0), (10**9, 7.0), (40_000, 600.0)])
    def test_sizes_are_binomial(self, n: int, expected: float) -> None:
        """Chi-square on cells of at least 20 expected draws; and 5 % off is rejected where there is power for it.

        One batch of 600 rows tells the rate as well as 600 batches of one, so fewer of them have more power.
        """
        rate, count = expected / n, min(60_000, int(3e6 / expected))
        ends, rows = poisson_batches(Noise(SeededBits(21)), n, rate, count)
        sizes = np.diff(ends)
        assert len(rows) == ends[-1]
        assert self._fit(sizes, n, rate) > ALARM
        if n > 3:
            assert self._fit(sizes, n, rate * 1.05) < ALARM
            assert self._fit(sizes, n, rate * 0.95) < ALARM

    @staticmethod
    def _fit(sizes: NDArray[np.int64], n: int, rate: float) -> float:
        law, count = stats.binom(n, rate), len(sizes)
        edges = [-1]
        while True:
            probability = law.cdf(edges[-1]) + 20 / count
            if probability >= 1 - 20 / count:
                break
            edges.append(max(edges[-1] + 1, int(law.ppf(probability))))
        bounds = np.array([*edges, n])
        masses = np.diff(law.cdf(bounds))
        counts = np.histogram(sizes, bounds + 0.5)[0]
        is_large = masses * count >= 5
        masses, counts = (
            np.append(masses[is_large], masses[~is_large].sum()),
            np.append(counts[is_large], counts[~is_large].sum()),
        )
        if masses[-1] * count < 5:
            masses, counts = masses[:-1] / masses[:-1].sum(), counts[:-1]
        return float(stats.chisquare(counts, masses / masses.sum() * counts.sum()).pvalue)

    def test_rows_are_uniform_distinct_and_pairwise_independent(self) -> None:
        n, rate, count = 48, 1 / 64, 400_000
        ends, rows = poisson_batches(Noise(SeededBits(22)), n, rate, count)
        hits = np.bincount(rows, minlength=n)
        assert stats.chisquare(hits).pvalue > ALARM
        assert (
            stats.chisquare(hits + np.where(np.arange(n) < 12, hits // 20, 0)).pvalue < ALARM
        )  # a quarter 5 % likelier
        batch = np.repeat(np.arange(count), np.diff(ends))
        member = np.zeros((count, n), dtype=bool)
        member[batch, rows] = True
        assert member.sum() == len(rows)  # no batch holds a row twice
        together = member.astype(np.float32).T @ member.astype(np.float32)
        pairs = together[np.triu_indices(n, 1)]
        spread = np.sum((pairs - count * rate**2) ** 2) / (count * rate**2)
        assert abs(spread - len(pairs)) < 7 * math.sqrt(2 * len(pairs)) * 1.1
        apart = np.corrcoef(member[1:].sum(1), member[:-1].sum(1))[0, 1]
        assert abs(apart) * math.sqrt(count) < 6.5

    def test_a_batch_is_in_order_and_its_own_each_time(self) -> None:
        noise = Noise(SeededBits(23))
        drawn = [poisson_rows(noise, 100_000, 5e-4) for _ in range(50)]
        assert all((np.diff(rows) > 0).all() for rows in drawn)
        assert len({tuple(rows) for rows in drawn}) == 50
        assert 40 < np.mean([len(rows) for rows in drawn]) < 60

    @pytest.mark.parametrize(("n", "threshold"), [(200_000, 2**64 // 200_000), (1, 2**58), (5, 3), (10**10, 2**40)])
    def test_the_table_is_the_exact_distribution(self, n: int, threshold: int) -> None:
        law, rate = batch_sizes.law(n, threshold), Fraction(threshold, 2**64)
        assert law.upper[-1] == 2**64 - 1
        with mpmath.workdps(80):
            if n <= 5:
                terms = [math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)]
            else:
                p = mpmath.ldexp(mpmath.mpf(threshold), -64)
                terms = [mpmath.binomial(n, j) * p**j * mpmath.exp((n - j) * mpmath.log(1 - p)) for j in range(40)]
            for k in range(min(len(terms), len(law.lower))):
                F = sum(terms[: k + 1]) * 2**64
                lower, upper = int(law.lower[k]), int(law.upper[k])
                assert lower <= F
                assert upper + 1 > F or upper == 2**64 - 1
                assert upper - lower <= 1

    def test_further_bits_decide_if_64_bits_do_not(self) -> None:
        """In the cell of F(0), zeros are below F(0) and ones above it; in other cells no further bits are drawn."""
        n, threshold = 200_000, 2**64 // 200_000
        law = batch_sizes.law(n, threshold)
        cell = int(law.lower[0])
        assert law.upper[0] == cell
        for further_words, size in (([0], 0), ([2**64 - 1], 1)):
            assert list(law.sizes(ScriptedBits([cell, *further_words]).words, 1)) == [size]
        assert list(law.sizes(ScriptedBits([cell - 1]).words, 1)) == [0]
        assert list(law.sizes(ScriptedBits([cell + 1]).words, 1)) == [1]

    def test_the_far_tail_is_not_cut_off(self) -> None:
        """All ones for 64 bits: the size is beyond where F's own 64 bits end, as exact arithmetic has it."""
        size = int(batch_sizes.law(1000, 2**50).sizes(ScriptedBits([2**64 - 1, 2**63, 0, 0]).words, 1)[0])
        with mpmath.workdps(60):
            u, p = 1 - mpmath.mpf(2) ** -65, mpmath.mpf(2) ** -14
            F = [
                mpmath.fsum(mpmath.binomial(1000, j) * p**j * (1 - p) ** (1000 - j) for j in range(k + 1))
                for k in range(30)
            ]
            assert size == sum(f <= u for f in F)

    def test_large_rates_are_refused(self) -> None:
        with pytest.raises(OutOfRange):
            poisson_batches(Noise(SeededBits(0)), 100, 0.5, 3)


def test_slots_are_uniform_and_exact() -> None:
    """Chi-square over slots, power against one slot drawn 5 % too often; every row at most once."""
    noise, n, count = Noise(SeededBits(9)), 50_000, 7
    totals, total_rows = np.zeros(count), 0
    for _ in range(40):
        rows, offsets = slots(noise, n, 0.5, count)
        assert len(np.unique(rows)) == len(rows) == offsets[-1]
        assert all((np.diff(rows[a:b]) > 0).all() for a, b in pairwise(offsets))
        totals += np.diff(offsets)
        total_rows += len(rows)
    assert abs(total_rows - 40 * n / 2) < 7 * math.sqrt(40 * n / 4)
    assert stats.chisquare(totals).pvalue > ALARM
    off = totals.copy()
    off[0] *= 1.05
    assert stats.chisquare(off * totals.sum() / off.sum(), totals).pvalue < ALARM


def test_slot_numbers_reject_the_incomplete_multiple() -> None:
    """2^64 - 1 is above the last whole multiple of 10 and is drawn again; 19 is mapped to 9."""
    indices = uniform_indices(Noise(ScriptedBits([2**64 - 1, 19, 7])), 2, 10)
    assert list(indices) == [7, 9]


def test_ordered_rows_are_uniform() -> None:
    """Every ordered pair of five rows about equally often; equal keys are drawn again."""
    noise, counts = Noise(SeededBits(3)), np.zeros((5, 5))
    for _ in range(20_000):
        a, b = ordered_rows(noise, 5, 2)
        counts[a, b] += 1
    assert not counts.diagonal().any()
    assert stats.chisquare(counts[~np.eye(5, dtype=bool)]).pvalue > ALARM
    assert list(ordered_rows(Noise(ScriptedBits([4, 4, 1, 9, 8, 2])), 3, 3)) == [2, 1, 0]
    with pytest.raises(OutOfRange):
        ordered_rows(noise, 5, 6)
