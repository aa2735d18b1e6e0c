"""Goodness of fit of the Laplace noise, with power; its exact path; each alarm has a false rate below 1e-9."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from accounting.errors import OutOfRange
from accounting.noise.source import Noise
from tests.support.seeded import ScriptedBits, SeededBits

SCALE = 2.0**24 * 1.37
DRAWS = 400_000
ALARM = 1e-10
_MANTISSA = (1 << 52) - 1


def draw(seed: int, count: int = DRAWS, scale: float = SCALE) -> NDArray[np.float64]:
    return Noise(SeededBits(seed)).rounded_laplace(count, scale) / scale


def kolmogorov(x: NDArray[np.float64]) -> float:
    return float(stats.kstest(x, "laplace").pvalue)


def size(x: NDArray[np.float64]) -> float:
    """Two-sided p-value of 2 sum |x|, chi-square with 2 len(x) degrees of freedom."""
    total, n = 2 * float(np.abs(x).sum()), 2 * len(x)
    return 2 * min(stats.chi2.sf(total, n), stats.chi2.cdf(total, n))


def tails(x: NDArray[np.float64]) -> float:
    """p-value of the count beyond 5."""
    return float(stats.binomtest(int(np.sum(np.abs(x) > 5)), len(x), math.exp(-5)).pvalue)


def signs(x: NDArray[np.float64]) -> float:
    """p-value of the balance of signs among the large."""
    large = x[np.abs(x) > 1]
    return float(stats.binomtest(int(np.sum(large > 0)), len(large), 0.5).pvalue)


@pytest.mark.parametrize("test", [kolmogorov, size, tails, signs])
@pytest.mark.parametrize("seed", [1, 2])
def test_noise_fits(test: Callable[[NDArray[np.float64]], float], seed: int) -> None:
    assert test(draw(seed)) > ALARM


@pytest.mark.parametrize("test", [kolmogorov, size, tails])
@pytest.mark.parametrize("factor", [0.5, 0.95, 1.05])
def test_five_percent_off_is_rejected(test: Callable[[NDArray[np.float64]], float], factor: float) -> None:
    assert test(draw(4) * factor) < ALARM


def test_the_system_source_fits_and_never_repeats() -> None:
    first, second = Noise().rounded_laplace(100_000, SCALE), Noise().rounded_laplace(100_000, SCALE)
    assert kolmogorov(first / SCALE) > ALARM
    assert np.sum(first == second) < 5


def cell(zeros: int, mantissa: int) -> float:
    """The exact quantile of the middle of a cell of tail probability u, to fifty digits."""
    u = mpmath.ldexp((1 << 52) + mpmath.mpf(mantissa) + 0.5, -(zeros + 54))
    return -mpmath.log(2 * u) * SCALE


@pytest.mark.parametrize("zeros", [0, 3, 10, 11 + 5, 11 + 63, 11 + 64 + 64 + 3])
def test_far_tails_by_chosen_bits(zeros: int) -> None:
    """Feed words with a run of zeros, out to a hundred scales: the draw is the exact quantile, rounded."""
    mantissa = 0x123456789ABCD
    if zeros < 11:
        words = [(1 << zeros) | (mantissa << 11)]
    else:
        run = zeros - 11
        words = [mantissa << 11] + [0] * (run // 64) + [1 << (63 - run % 64)]
    noise_value = Noise(ScriptedBits(words)).rounded_laplace(1, SCALE)[0]
    with mpmath.workdps(50):
        assert abs(noise_value - cell(zeros, mantissa)) <= 0.5 + 1e-3
    assert noise_value >= 0


def test_the_fast_path_agrees_with_fifty_digits() -> None:
    words, table = SeededBits(6).words(3000), np.array([11] + [(i & -i).bit_length() - 1 for i in range(1, 2048)])
    zeros, mantissa = table[(words & np.uint64(2047)).astype(int)], (words >> np.uint64(11)) & np.uint64(_MANTISSA)
    ordinary = np.flatnonzero(zeros < 11)  # a longer run reads fresh words
    with mpmath.workdps(50):
        for j in ordinary[:1000]:
            fast = Noise(ScriptedBits([int(words[j])])).rounded_laplace(1, SCALE)[0]
            assert abs(fast) == mpmath.nint(cell(int(zeros[j]), int(mantissa[j])))


def positive_draw(zeros: int, numerator: int, *further_words: int) -> float:
    """Return the positive draw of a cell of tail probability, which these words narrow down if they are read."""
    assert zeros < 11
    word = (1 << zeros) | ((numerator & _MANTISSA) << 11)
    return float(Noise(ScriptedBits([word, *further_words])).rounded_laplace(1, SCALE)[0])


def test_the_exact_decision_near_boundaries() -> None:
    """At a cell boundary h the draw is below h for U just above P(Y > h) and above h for U just below it."""
    checked = straddling = 0
    for place in (0, 1, 3, 1000, 123_456_789):
        with mpmath.workdps(60):
            tail = mpmath.exp(-(mpmath.mpf(place) + 0.5) / mpmath.mpf(SCALE)) / 2
            zeros = int(-mpmath.floor(mpmath.log(tail, 2))) - 2
            scaled = mpmath.ldexp(tail, zeros + 54)
            below = int(mpmath.floor(scaled))
            fraction = mpmath.ldexp(scaled - below, 64)
        for numerator, expected in ((below - 1, place + 1), (below + 1, place)):
            if (1 << 52) <= numerator < (1 << 53):
                assert positive_draw(zeros, numerator) == expected
                checked += 1
        if 2 < fraction < 2**64 - 2:
            assert positive_draw(zeros, below, 0) == place + 1
            assert positive_draw(zeros, below, 2**64 - 1) == place
            straddling += 1
    assert (checked >= 8, straddling) == (True, 5)


def test_few_draws_need_the_exact_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a draw whose cell of u straddles a boundary of the lattice is decided by exact arithmetic."""
    precisions: list[int] = []
    workprec = mpmath.MPContext.workprec

    def noted(context: mpmath.MPContext, bits: int) -> object:
        precisions.append(bits)
        return workprec(context, bits)

    with mpmath.workdps(60):
        tail = mpmath.exp(-mpmath.mpf("1000.5") / mpmath.mpf(SCALE)) / 2
        numerator = int(mpmath.floor(mpmath.ldexp(tail, 54)))
    monkeypatch.setattr(mpmath.MPContext, "workprec", noted)
    assert positive_draw(0, numerator) in (1000.0, 1001.0)
    assert len(precisions) >= 1
    Noise(SeededBits(8)).rounded_laplace(20_000, SCALE)
    assert len(precisions) < 200


def test_coarse_lattices_have_the_exact_cell_probabilities() -> None:
    x = Noise(SeededBits(8)).rounded_laplace(DRAWS, 2.0**10)
    edges = np.concatenate([[-np.inf], np.arange(-6400, 6401, 128) - 0.5, [np.inf]])
    counts, _ = np.histogram(x, edges)
    assert stats.chisquare(counts, np.diff(stats.laplace.cdf(edges / 2.0**10)) * DRAWS).pvalue > ALARM


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0.0, -1.0, 2.0**9, 2.0**34])
def test_scale_is_guarded(scale: float) -> None:
    with pytest.raises(OutOfRange):
        Noise(SeededBits(0)).rounded_laplace(3, scale)
