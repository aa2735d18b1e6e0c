"""What the trials compute: the noise law of bands, and the noise of perturbed objectives by curve and by profile."""

import math

import numpy as np
import pytest

from accounting.mechanisms import Gaussian, ObjectivePerturbation, RowObjectivePerturbation
from benchmarks.trials import noise_multiplier, summed_noise


def test_the_noise_of_one_band_grows_like_the_root_of_the_steps() -> None:
    assert summed_noise(1, 50) == pytest.approx(math.sqrt(np.mean(np.arange(1, 51))))


def test_bands_are_the_noise_of_the_factored_summation() -> None:
    """By dense matrices: A C^-1, C lower triangular with the first coefficients of (1 - x)^(-1/2)."""
    steps, bands = 40, 6
    coefficients = np.array([math.comb(2 * k, k) / 4**k for k in range(bands)])
    coefficients /= np.linalg.norm(coefficients)
    C = sum(np.diag(np.full(steps - k, coefficients[k]), -k) for k in range(bands))
    rows = np.tril(np.ones((steps, steps))) @ np.linalg.inv(C)
    assert summed_noise(bands, steps) == pytest.approx(math.sqrt((rows**2).sum() / steps))
    assert summed_noise(bands, steps) < summed_noise(1, steps)


def test_the_noise_of_a_profile_is_between_that_of_one_gaussian_answer_and_of_the_curve() -> None:
    for epsilon in (0.2, 1.0):
        curve, profile = (
            noise_multiplier(epsilon, kind(math.expm1(0.1 * epsilon)), 1e-6)
            for kind in (ObjectivePerturbation, RowObjectivePerturbation)
        )
        assert 1.03 < curve / profile < 1.12
        assert 1.02 < profile / noise_multiplier(0.9 * epsilon, Gaussian(), 1e-6) < 1.08
