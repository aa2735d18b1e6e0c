"""Regularizers alone, and with every domain: the proximal step is the minimizer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.regularizers import L1, L2, ElasticNet, NoRegularizer, Regularizer
from tests.support.members import every

Floats = NDArray[np.float64]

strengths = st.sampled_from([0.0, 0.1, 0.7, 3.0])
regularizers = st.one_of(
    st.just(NoRegularizer()),
    st.builds(L2, strengths),
    st.builds(L1, strengths),
    st.builds(ElasticNet, strengths, strengths),
)
radii = st.floats(0.1, 5.0)
domains = st.one_of(st.just(Free()), *(st.builds(kind, radius=radii) for kind in (L2Ball, L1Ball, LinfBall, Simplex)))
vectors = st.integers(2, 6).flatmap(lambda d: arrays(np.float64, d, elements=st.floats(-4, 4)))
EACH: list[Regularizer] = every(Regularizer, L2(0.7), L1(0.7), ElasticNet(0.7, 0.4))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(regularizers, domains, vectors, st.sampled_from([0.05, 0.5, 2.0]), st.integers(0, 2**32))
def test_the_proximal_step_is_optimal_against_points_around_it(
    regularizer: Regularizer, domain: Domain, w: Floats, step: float, seed: int
) -> None:
    """For convex h, u* minimizes h(u) + ||u - w||^2 / 2 iff h(v) >= h(u*) + <w - u*, v - u*> for every v in C.

    So the proximal step of each pair of regularizer and domain is the minimizer.
    """
    problem, bits = Problem(Logistic(), regularizer, domain, n=100, d=len(w), row_norm=1.0), np.random.default_rng(seed)
    best = problem.prox(w, step)
    np.testing.assert_allclose(domain.project(best), best, atol=1e-9)
    for offset in np.logspace(-3, 0.5, 20)[:, None] * bits.standard_normal((20, len(w))):
        v = domain.project(best + offset)
        rise = step * (regularizer.value(v) - regularizer.value(best))
        assert rise >= (w - best) @ (v - best) - 1e-10


@pytest.mark.parametrize("regularizer", EACH, ids=repr)
def test_strong_convexity_is_the_largest_true_one(regularizer: Regularizer) -> None:
    bits = np.random.default_rng(3)
    for _ in range(50):
        u, v = bits.standard_normal((2, 4))
        middle = (regularizer.value(u) + regularizer.value(v)) / 2 - regularizer.value((u + v) / 2)
        assert middle >= regularizer.strong_convexity / 8 * float((u - v) @ (u - v)) - 1e-12
    u, v = np.array([1.0, 2.0]), np.array([3.0, 5.0])  # of one sign, where the l1 norm is linear
    middle = (regularizer.value(u) + regularizer.value(v)) / 2 - regularizer.value((u + v) / 2)
    assert middle == pytest.approx(regularizer.strong_convexity / 8 * 13)


def test_values_by_hand() -> None:
    w = np.array([3.0, -4.0])
    assert [r.value(w) for r in (NoRegularizer(), L2(0.5), L1(0.5), ElasticNet(0.5, 2.0))] == [0.0, 6.25, 3.5, 28.5]
    np.testing.assert_allclose(L1(0.5).prox(np.array([3.0, -4.0, 0.5]), 2.0), [2.0, -3.0, 0.0])
    np.testing.assert_allclose(ElasticNet(0.5, 1.5).prox(np.array([3.0, -4.0, 0.5]), 2.0), [0.5, -0.75, 0.0])


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, 2e6, True])
def test_strengths_out_of_range_are_refused(bad: float) -> None:
    for make in (lambda: L1(bad), lambda: L2(bad), lambda: ElasticNet(bad, 1.0), lambda: ElasticNet(1.0, bad)):
        with pytest.raises(ValueError, match="must"):
            make()
