"""Test of the noise of a variant of adaptive_gd."""

import math

from benchmarks.variants import precision


def test_gradients_of_unequal_noise_cost_as_much_as_those_of_equal_noise() -> None:
    for steps in (1, 250):
        precisions = [precision(t, steps) for t in range(1, steps + 1)]
        assert min(precisions) > 0
        assert math.isclose(sum(precisions), steps, rel_tol=1e-12)
