"""Regularizers alone, and with every domain: the proximal step is the minimizer."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import minimize

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


def _problem(regularizer: Regularizer, domain: Domain, d: int) -> Problem:
    return Problem(Logistic(), regularizer, domain, n=100, d=d, row_norm=1.0)


def _constraints(domain: Domain, d: int) -> tuple[list[dict[str, object]], float | None]:
    """Of w = p - q with p, q >= 0, as SLSQP takes them, and the bound on p and q."""
    apart, sum_gradient = np.concatenate((np.eye(d), -np.eye(d)), axis=1), np.ones(d)
    match domain:
        case L2Ball(radius):
            square = _constraint(
                "ineq", lambda x: radius**2 - ((apart @ x) ** 2).sum(), lambda x: -2 * (apart @ x) @ apart
            )
            return [square], None
        case L1Ball(radius):
            return [_constraint("ineq", lambda x: radius - x.sum(), lambda _: -np.ones(2 * d))], None
        case LinfBall(radius):
            return [], radius
        case Simplex(radius):
            return [
                _constraint(
                    "eq", lambda x: x[:d].sum() - radius, lambda _: np.concatenate((sum_gradient, 0 * sum_gradient))
                ),
                _constraint("eq", lambda x: x[d:], lambda _: np.eye(2 * d)[d:]),
            ], None
        case Free():
            return [], None


def _constraint(kind: str, value: Callable[[Floats], object], slope: Callable[[Floats], object]) -> dict[str, object]:
    return {"type": kind, "fun": value, "jac": slope}


def _minimized(regularizer: Regularizer, domain: Domain, w: Floats, step: float) -> Floats:
    """The proximal step by a general solver: ||u||_1 = sum of p + q, where u = p - q, is smooth in p and q."""
    d = len(w)
    a = regularizer.strength if isinstance(regularizer, L1) else getattr(regularizer, "l1", 0.0)
    b = regularizer.strong_convexity

    def objective(x: Floats) -> float:
        u = x[:d] - x[d:]
        return float(step * (a * x.sum() + b / 2 * u @ u) + (u - w) @ (u - w) / 2)

    def gradient(x: Floats) -> Floats:
        u = x[:d] - x[d:]
        slope = step * b * u + u - w
        return step * a + np.concatenate([slope, -slope])

    constraints, largest = _constraints(domain, d)
    solution = minimize(
        objective,
        np.full(2 * d, 0.01),
        jac=gradient,
        method="SLSQP",
        bounds=[(0.0, largest)] * (2 * d),
        constraints=constraints,
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    return np.asarray(solution.x[:d] - solution.x[d:])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(regularizers, domains, vectors, st.sampled_from([0.05, 0.5, 2.0]))
def test_the_proximal_step_is_the_minimizer_for_every_pair(
    regularizer: Regularizer, domain: Domain, w: Floats, step: float
) -> None:
    problem = _problem(regularizer, domain, len(w))

    def objective(u: Floats) -> float:
        return step * regularizer.value(u) + float((u - w) @ (u - w)) / 2

    proximal, slow = problem.prox(w, step), problem.domain.project(_minimized(regularizer, domain, w, step))
    assert objective(proximal) <= objective(slow) + 1e-9
    # strong convexity: as good within 1e-6 is as near within 1e-3, and the general solver is that good
    assert np.linalg.norm(proximal - slow) <= 2e-3


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(regularizers, domains, vectors, st.sampled_from([0.05, 0.5, 2.0]), st.integers(0, 2**32))
def test_the_proximal_step_is_optimal_against_points_around_it(
    regularizer: Regularizer, domain: Domain, w: Floats, step: float, seed: int
) -> None:
    """For convex h, u* minimizes h(u) + ||u - w||^2 / 2 iff h(v) >= h(u*) + <w - u*, v - u*> for every v in C."""
    problem, bits = _problem(regularizer, domain, len(w)), np.random.default_rng(seed)
    best = problem.prox(w, step)
    for scale in (1e-3, 0.1, 3.0):
        v = domain.project(best + scale * bits.standard_normal(len(w)))
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
