"""What the trials compute: the noise law of bands, and the reading of objective perturbation as a profile."""

import math

import numpy as np
import pytest

from benchmarks.trials import _profile, _summed


def test_one_band_is_independent_noise_whose_running_sums_grow_like_its_root() -> None:
    assert _summed(1, 50) == pytest.approx(math.sqrt(np.mean(np.arange(1, 51))))


def test_bands_are_the_noise_of_the_factored_summation() -> None:
    """By dense matrices: A C^-1, C lower triangular with the first coefficients of (1 - x)^(-1/2)."""
    steps, bands = 40, 6
    kept = np.array([math.comb(2 * k, k) / 4**k for k in range(bands)])
    kept /= np.linalg.norm(kept)
    C = sum(np.diag(np.full(steps - k, kept[k]), -k) for k in range(bands))
    rows = np.tril(np.ones((steps, steps))) @ np.linalg.inv(C)
    assert _summed(bands, steps) == pytest.approx(math.sqrt((rows**2).sum() / steps))
    assert _summed(bands, steps) < _summed(1, steps)


def test_a_profile_is_never_worse_than_the_promise_and_no_better_than_one_gaussian_answer() -> None:
    for epsilon in (0.2, 1.0):
        assert 0.8 * epsilon < _profile(epsilon) <= epsilon
