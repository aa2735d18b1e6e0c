"""Roots, against SciPy's."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from accounting.divergences.gaussian import gauss_delta, gauss_epsilon, gauss_mu
from accounting.divergences.roots import root

CASES: dict[str, tuple[Callable[[float], float], float, float]] = {
    "a line": (lambda x: 3 * x - 1, 0.0, 1.0),
    "falling": (lambda x: 1 - x**3, 0.0, 5.0),
    "flat at the root": (lambda x: (x - 0.3) ** 5, 0.0, 1.0),
    "steep": (lambda x: math.expm1(50 * (x - 0.7)), 0.0, 1.0),
    "a jump": (lambda x: -1.0 if x < 0.25 else 1e9, 0.0, 1.0),
    "far and near": (lambda x: math.log(x / 1e-9), 1e-30, 1e6),
    "infinite at an end": (lambda x: math.log(x) if x > 0 else -math.inf, 0.0, 9.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("turned", [False, True])
def test_a_root_is_within_the_requested_tolerance(name: str, turned: bool) -> None:
    f, low, high = CASES[name]
    points: list[float] = []

    def counted(x: float) -> float:
        points.append(x)
        return f(x)

    solution = root(counted, *((high, low) if turned else (low, high)), relative=1e-12)
    neighbors = solution * (1 - 2e-12), solution * (1 + 2e-12)
    assert f(neighbors[0]) <= 0 <= f(neighbors[1]) or f(neighbors[1]) <= 0 <= f(neighbors[0])
    assert len(points) <= 150


def test_ends_may_be_roots_and_invalid_brackets_are_refused() -> None:
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1, 0.0, 1.0) == 1.0
    for f in (lambda x: x + 1, lambda _: math.nan, lambda x: math.nan if 0 < x < 1 else x - 0.5):
        with pytest.raises(ValueError, match="f "):
            root(f, 0.0, 1.0)


def test_without_a_tolerance_it_ends_at_neighboring_floats() -> None:
    solution = root(lambda x: x * x - 2, 0.0, 2.0)
    assert abs(solution - math.sqrt(2)) <= 2 * math.ulp(solution)


@given(st.floats(1e-4, 200.0), st.floats(-27.0, -0.1))
def test_roots_of_the_gaussian_profile_are_scipys(epsilon: float, log_delta: float) -> None:
    """To 1e-12 each, far within the 1e-9 and 3e-9 by which they are moved to the safe side."""
    delta = math.exp(log_delta)
    mu = gauss_mu(epsilon, delta)
    high = 1.0
    while gauss_delta(high, epsilon) < delta:
        high *= 2
    exact = brentq(lambda mu: gauss_delta(mu, epsilon) - delta, 1e-12, high, xtol=1e-18, rtol=1e-12)
    assert mu / (1 - 3e-9) == pytest.approx(exact, rel=3e-12)
    assert gauss_delta(mu, epsilon) <= delta
    if delta >= 1e-12:
        assert gauss_epsilon(mu, delta) <= epsilon
