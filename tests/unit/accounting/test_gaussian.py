"""The exact Gaussian profile against high-precision arithmetic, and the safe side of its roots."""

import itertools

import mpmath
import pytest

from accounting.divergences.gaussian import gauss_delta, gauss_epsilon, gauss_mu

TARGETS = list(itertools.product([1e-3, 0.05, 0.2, 1.0, 8.0, 100.0], [1e-12, 1e-9, 1e-6, 1e-3, 1e-2]))


def exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_mu_is_valid_and_not_wasteful(epsilon: float, delta: float) -> None:
    mu = gauss_mu(epsilon, delta)
    assert exact_delta(mu, epsilon) <= delta
    assert exact_delta(mu * (1 + 1e-7), epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_epsilon_is_valid_and_not_wasteful(epsilon: float, delta: float) -> None:
    mu = gauss_mu(epsilon, delta)
    actual = gauss_epsilon(mu, delta)
    assert exact_delta(mu, actual) <= delta
    assert epsilon * (1 - 1e-6) <= actual <= epsilon


def test_table_of_the_specification() -> None:
    table = {(0.2, 1e-3): 0.1010, (0.5, 1e-3): 0.2169, (1, 1e-3): 0.3884, (0.2, 1e-6): 0.0527, (1, 1e-6): 0.2367}
    for (epsilon, delta), mu in table.items():
        assert round(gauss_mu(epsilon, delta), 4) == mu


def test_no_answer_costs_nothing() -> None:
    assert gauss_delta(0.0, 1.0) == 0.0
    assert gauss_epsilon(0.01, 0.01) == 0.0


@pytest.mark.parametrize("mu", [1e-300, 2.5e-11, 1.9e-9, 4.5e-7, 1e-5, 3e-5, 1e-3])
@pytest.mark.parametrize("delta", [1e-12, 8e-12, 1e-9, 1e-6])
def test_tiny_mu_is_never_under_reported(mu: float, delta: float) -> None:
    """Review: cancellation at mu below 1e-6 once exceeded the margin."""
    assert exact_delta(max(mu, 1e-11), gauss_epsilon(mu, delta) or 1e-300) <= delta
    assert gauss_epsilon(mu, 1e-13) == float("inf")
