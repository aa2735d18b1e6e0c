"""Limited slopes: their values, their noise, and the methods that take or refuse them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from solvers import Problem, plan
from solvers.bounds import gradient_bound
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.domains import L1Ball, L2Ball
from solvers.errors import Unsuitable
from solvers.fitting import Wish
from solvers.losses import Absolute, Hinge, Huber, Logistic, Loss, Sigmoid, Softmax, Squared
from solvers.methods import (
    AdaptiveGd,
    AdaSsp,
    DpAccMd,
    DpGd,
    DpSvrg,
    EpochGrowth,
    GrowthReduction,
    Localization,
    Method,
    NoisyMirrorDescent,
    NoisySgd,
    ObjectivePerturbation,
    OutputPerturbation,
)
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.preparation import Declared, Private
from solvers.regularizers import L2
from solvers.selection import Auto, Currency
from tests.support.coupled import complaints

N, D, R = 500, 4, 2.0
PRIVACY = Privacy(1.0, 1e-6)
LOSSES: list[Loss] = [Logistic(), Squared(0.8), Huber(0.1), Hinge(), Absolute(), Sigmoid(), Softmax(2), Softmax(3)]


def problem(loss: Loss, limit: float = 1.0, **facts: Any) -> Problem:
    return Problem(loss, n=N, d=D, row_norm=R, slope_limit=limit, **facts)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("limit", [0.1, 0.7, 1.0])
def test_a_records_gradient_is_its_slope_shortened(loss: Loss, limit: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, D))
    y = rng.integers(0, loss.outputs, N).astype(float) if loss.outputs > 1 else np.sign(rng.standard_normal(N))
    limited = problem(loss, limit)
    data, w = inputs.of_arrays(X, y, limited), 2 * rng.standard_normal(limited.size)
    assert pytest.approx(limit * loss.slope_bound * R) == limited.G
    assert replace(limited, slope_limit=1.0).L == limited.L
    rows, parts, longest = rows_of(data), [], 0.0
    for i in range(60):
        gradient = gradient_sum(data, slice(i, i + 1), w)
        margins = rows[i] @ w if loss.outputs == 1 else w.reshape(limited.shape) @ rows[i][:, None]
        slope = np.atleast_1d(np.squeeze(loss.slope(np.atleast_1d(margins), data.y[i : i + 1])))
        slope = slope * min(1.0, limited.slope_bound / max(float(np.linalg.norm(slope)), 1e-300))
        assert gradient == pytest.approx(np.multiply.outer(slope, rows[i]).ravel(), rel=1e-9, abs=1e-12)
        longest = max(longest, float(np.linalg.norm(gradient)))
        parts.append(gradient)
    assert longest <= gradient_bound(limited) * N
    assert gradient_sum(data, slice(0, 60), w) == pytest.approx(np.sum(parts, axis=0), rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_shortened_slopes_rise_for_one_margin_and_for_two_classes_and_not_beyond() -> None:
    """The gradients of a convex function satisfy <g(a) - g(b), a - b> >= 0."""
    rng = np.random.default_rng(2)

    def worst(outputs: int, limit: float) -> float:
        a, y = rng.normal(size=(outputs, 20_000)) * 3, np.zeros(20_000)
        b = a + rng.normal(size=a.shape)
        first, second = (
            v * np.minimum(1.0, limit / np.linalg.norm(v, axis=0))
            for v in (Softmax(outputs).slope(a, y), Softmax(outputs).slope(b, y))
        )
        return float(((first - second) * (a - b)).sum(axis=0).min())

    assert worst(2, 0.3) >= -1e-12
    assert worst(3, 0.3) < -1e-3
    assert problem(Softmax(2), 0.3).is_convex
    assert not problem(Softmax(3), 0.3).is_convex
    assert problem(Softmax(3)).is_convex


REFUSING: list[Method] = [
    DpGd(release="last"),
    DpAccMd(),
    DpSvrg(),
    NoisyMirrorDescent(),
    OutputPerturbation(),
    ObjectivePerturbation(),
    Localization(),
    EpochGrowth(),
    GrowthReduction(),
]


@pytest.mark.parametrize("method", REFUSING, ids=lambda m: str(m.name))
def test_where_a_theorem_wants_convexity_short_vectors_are_refused(method: Method) -> None:
    with pytest.raises(Unsuitable):
        method.resolve(problem(Softmax(3), 0.5, regularizer=L2(0.1)), PRIVACY)


def test_where_bounds_are_enough_they_are_taken() -> None:
    for method in (DpGd(), DpGd(release="random"), NoisySgd()):
        quote = plan(method, problem(Softmax(3)), PRIVACY, slope_limit=0.5)
        whole = plan(method, problem(Softmax(3)), PRIVACY, slope_limit=1.0)
        assert quote.problem.slope_limit == 0.5
        assert quote.problem.G == whole.problem.G / 2
    with pytest.raises(Unsuitable, match="limited slopes"):
        plan(DpSvrg(), problem(Softmax(3)), PRIVACY, slope_limit=0.5)


def test_half_the_slope_is_half_the_noise() -> None:
    for method in (DpGd(steps=9), NoisySgd(steps=9, batch=50), ObjectivePerturbation(), PARALLEL):
        half, whole = (plan(method, problem(Logistic()), PRIVACY, slope_limit=c) for c in (0.5, 1.0))
        assert half.noise_stds[0] == pytest.approx(whole.noise_stds[0] / 2, rel=1e-3)


PARALLEL = Localization(phases=3, ratio=2.0, step=0.01)


def test_the_default_is_a_rule_of_public_facts() -> None:
    columns = Columns((1, 3))
    coded = Problem(Logistic(), n=N, d=columns.d, row_norm=columns.row_norm, columns=columns)
    small_epsilon, large_epsilon = Privacy(0.5, 1e-6), Privacy(20.0, 1e-6)
    assert plan(DpGd(), coded, small_epsilon).problem.slope_limit == 0.7
    assert plan(Auto(), replace(coded, regularizer=L2(0.5)), small_epsilon).problem.slope_limit == 0.7
    assert plan(DpGd(), coded, large_epsilon).problem.slope_limit == 1.0
    assert plan(DpGd(), coded, small_epsilon, slope_limit=1.0).problem.slope_limit == 1.0
    assert plan(DpGd(), replace(coded, slope_limit=0.4), small_epsilon).problem.slope_limit == 0.4
    for loss in (Squared(), Softmax(3), Sigmoid()):
        assert plan(DpGd(), replace(coded, loss=loss), small_epsilon).problem.slope_limit == 1.0
    assert plan(DpGd(), coded, small_epsilon, preparation=Declared()).problem.slope_limit == 1.0
    assert plan(AdaSsp(), replace(coded, loss=Squared()), small_epsilon).problem.slope_limit == 1.0


def test_a_limit_is_refused_by_methods_without_slopes_or_with_their_own_limit() -> None:
    columns = Columns((1, 3))
    coded = Problem(Logistic(), n=N, d=columns.d, row_norm=columns.row_norm, columns=columns)
    numbers = replace(coded, loss=Squared())
    with pytest.raises(Unsuitable, match="limits no slopes"):
        plan(AdaSsp(), numbers, PRIVACY, slope_limit=0.5)
    own = plan(AdaptiveGd(), coded, PRIVACY, slope_limit=0.3)
    assert own.method == AdaptiveGd(slope_limit=0.3).resolve(coded, PRIVACY)
    assert plan(Auto(), coded, PRIVACY, slope_limit=0.3).method == own.method
    for method, task in ((AdaptiveGd(slope_limit=0.2), coded), (AdaptiveGd(), numbers)):
        with pytest.raises(Unsuitable, match="limits slopes itself"):
            plan(method, task, PRIVACY, slope_limit=0.3)


@pytest.mark.parametrize("currency", ["renyi", "gaussian"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_auto_takes_a_method_that_keeps_the_limit(loss: Loss, currency: Currency) -> None:
    columns = Columns((1, 3))
    coded = Problem(loss, n=N, d=columns.d, row_norm=columns.row_norm, columns=columns)
    wide = Problem(loss, domain=L1Ball(1.0), n=40, d=60, row_norm=R)
    for task in (coded, replace(coded, domain=L2Ball(2.0)), problem(loss), wide, replace(problem(loss), n=10**9)):
        for wish in (Wish(slope_limit=0.3), Wish(Declared(), 0.3)):
            fitted, _ = Auto().choose(task, PRIVACY, currency=currency, wish=wish)
            own = fitted.method.slope_limit if isinstance(fitted.method, AdaptiveGdRun) else None
            assert (own or fitted.problem.slope_limit) == 0.3
            assert fitted.problem.is_convex == loss.is_convex or fitted.method.name in ("dp_gd", "noisy_sgd")


def test_auto_limits_the_slopes_of_numbers_if_requested_and_states_it() -> None:
    columns = Columns((1, 3))
    numbers = Problem(Squared(), n=N, d=columns.d, row_norm=columns.row_norm, columns=columns)
    assert plan(Auto(), numbers, PRIVACY).method.name == "adaptive_gd"
    for limit in (0.4, 1.0):
        quote = plan(Auto(), numbers, PRIVACY, slope_limit=limit)
        assert (quote.method, quote.preparation) == (DpGd().resolve(quote.met, PRIVACY), Private())
        assert quote.met.slope_bound == limit
        assert f"slope_limit {limit:g} (adaptive_gd takes none" in quote.reason
    by_problem = plan(Auto(), replace(numbers, slope_limit=0.4), PRIVACY)
    assert (by_problem.method.name, by_problem.met.slope_bound) == ("dp_gd", 0.4)
    ways: Any
    for ways in ({}, {"preparation": Declared(), "slope_limit": 0.4}):
        assert "slope_limit" not in plan(Auto(), numbers, PRIVACY, **ways).reason


def test_short_vectors_of_three_classes_are_no_reason_to_refuse_auto() -> None:
    many = replace(problem(Softmax(3)), n=10**9)
    assert Auto().choose(many, PRIVACY)[0].method.name == "dp_svrg"
    fitted, reason = Auto().choose(many, PRIVACY, wish=Wish(slope_limit=0.5))
    assert (fitted.method.name, "softmax" in reason) == ("dp_gd", True)


@pytest.mark.parametrize("limit", [0.0, -1.0, 1.01, math.nan, math.inf, 1e-9])
def test_a_limit_that_is_not_a_share_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="slope_limit"):
        problem(Logistic(), limit)
    for method in (Auto(), DpGd(), AdaptiveGd()):
        with pytest.raises(ValueError, match="slope_limit"):
            plan(method, problem(Logistic()), PRIVACY, slope_limit=limit)


def found_complaints() -> list[str]:
    """Return the complaints of a comparison of neighbors, with long slopes and a short limit."""
    columns = Columns((1, 1))
    coded = Problem(Logistic(), domain=L2Ball(50.0), n=N, d=3, row_norm=columns.row_norm, columns=columns)
    quote = plan(DpGd(steps=6), coded, Privacy(5.0, 1e-6), slope_limit=0.2)
    rng = np.random.default_rng(4)
    X = np.column_stack((rng.uniform(-1, 1, (N, 2)), np.ones(N)))
    X[7] = (-1.0, -1.0, 1.0)
    return complaints(quote, X, np.sign(X[:, 0]), (np.array([1.0, 1.0, 1.0]), -1.0))


def test_neighbors_differ_by_no_more_than_their_bounds_and_a_forgotten_limit_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found_complaints() == []
    monkeypatch.setattr(Problem, "compiled", property(lambda own: own.loss.compiled))
    assert found_complaints() != []
