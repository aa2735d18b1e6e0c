"""Tests of the noise that the trials print for objective perturbation."""

import math

from accounting.mechanisms import Gaussian, ObjectivePerturbation, RowObjectivePerturbation
from benchmarks.trials import noise_multiplier


def test_the_noise_of_a_profile_is_between_that_of_one_gaussian_answer_and_of_the_curve() -> None:
    for epsilon in (0.2, 1.0):
        curve, profile = (
            noise_multiplier(epsilon, kind(math.expm1(0.1 * epsilon)), 1e-6)
            for kind in (ObjectivePerturbation, RowObjectivePerturbation)
        )
        assert 1.08 < curve / profile < 1.15
        assert 1 < profile / noise_multiplier(0.9 * epsilon, Gaussian(), 1e-6) < 1.001
