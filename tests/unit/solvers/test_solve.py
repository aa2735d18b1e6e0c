"""plan() and solve(): quotes without data, and releases that their plan covers."""

import inspect
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.errors import OutOfRange
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, domains, losses, methods, plan, regularizers, solve
from solvers.data_access import inputs
from solvers.data_access.full_batch import FullBatchOracle
from solvers.errors import RunFailed
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.selection import Auto
from solvers.solve import WorkLimits
from tests.support.runs import run_quote

PROBLEM = Problem(
    loss=losses.Logistic(), regularizer=regularizers.L2(1e-2), domain=domains.L2Ball(10.0), n=4000, d=6, row_norm=1.0
)
PRIVACY = Privacy(epsilon=1.0, delta=1e-6)


def rows(n: int = 4000, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    return X, np.where(X @ np.arange(1.0, d + 1) > 0, 1.0, -1.0)


@pytest.mark.parametrize("method", [methods.DpGd(), methods.DpSvrg(), Auto()], ids=lambda m: m.name)
def test_a_release_is_private_as_promised_and_better_than_chance(method: methods.Method | Auto) -> None:
    X, y = rows()
    release = solve(method, PROBLEM, X, y, PRIVACY)
    quote = plan(method, PROBLEM, PRIVACY)
    assert release.coefficients.shape == (6,)
    assert np.linalg.norm(release.coefficients) <= 10.0
    assert release.epsilon <= 1.0
    assert release.delta == 1e-6
    assert release.transcript == quote.release.plan  # a run asks all of its plan
    assert release.event == quote.release.plan.event()
    assert release.gradient_evaluations == quote.gradient_evaluations
    assert release.accountant == quote.release.accountant
    assert release.method == quote.method
    assert np.mean(np.sign(X @ release.coefficients) == y) > 0.8


def test_two_runs_differ_and_callers_cannot_choose_the_noise() -> None:
    X, y = rows()
    first, second = (solve(methods.DpGd(), PROBLEM, X, y, PRIVACY).coefficients for _ in range(2))
    assert not np.array_equal(first, second)
    assert not {"seed", "noise", "rng", "random_state"} & set(inspect.signature(solve).parameters)


def test_a_quote_is_a_function_of_public_facts() -> None:
    quote = plan(methods.DpSvrg(), PROBLEM, PRIVACY)
    assert quote == plan(methods.DpSvrg(), PROBLEM, PRIVACY)
    assert quote.method == methods.DpSvrg().resolve(PROBLEM, PRIVACY)
    assert quote.reason == "requested"
    snapshot, change = quote.release.plan.queries
    size = change.mechanism.rate * 4000  # type: ignore[union-attr]
    assert quote.noise_stds == pytest.approx(
        [snapshot.noise_multiplier * PROBLEM.G / 4000, change.noise_multiplier * PROBLEM.G / size], rel=1e-3
    )
    assert plan(Auto(), PROBLEM, PRIVACY).reason != "requested"


def test_integer_and_strided_arrays_are_taken() -> None:
    X: Any = np.ones((4000, 12), dtype=np.int64)
    y: Any = np.ones(4000, dtype=np.int8)
    assert np.isfinite(solve(methods.DpGd(), PROBLEM, X[:, ::2], y, PRIVACY).coefficients).all()


def test_a_run_past_its_plan_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the oracle's own count failed: the transcript is compared with the plan before anything is returned."""
    quote, data = plan(methods.DpGd(steps=3), PROBLEM, PRIVACY), inputs.of_arrays(*rows(), PROBLEM)
    (query,) = quote.release.plan.queries
    beyond = Plan((PlannedQuery(query.name, 4, query.mechanism, query.noise_multiplier),))
    monkeypatch.setattr(FullBatchOracle, "transcript", lambda _: beyond)
    with pytest.raises(RunFailed):
        run_quote(quote, data, 1)
    quieter = Plan((PlannedQuery(query.name, 3, query.mechanism, query.noise_multiplier / 2),))
    monkeypatch.setattr(FullBatchOracle, "transcript", lambda _: quieter)
    with pytest.raises(RunFailed):
        run_quote(quote, data, 1)


@pytest.mark.parametrize("result", [np.full(6, np.nan), np.array([np.inf] + [0.0] * 5), np.zeros(5)], ids=repr)
def test_a_result_that_is_not_a_finite_vector_is_not_released(
    result: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quote, data = plan(methods.DpGd(steps=3), PROBLEM, PRIVACY), inputs.of_arrays(*rows(), PROBLEM)
    monkeypatch.setattr(DpGdRun, "run", lambda *_: result)
    with pytest.raises(RunFailed):
        run_quote(quote, data, 1)


def test_noise_of_more_coordinates_than_are_allowed_is_refused() -> None:
    plan(methods.DpGd(steps=3), PROBLEM, PRIVACY, limits=WorkLimits(coordinates=3 * 6))
    with pytest.raises(OutOfRange, match="coordinates"):
        plan(methods.DpGd(steps=3), PROBLEM, PRIVACY, limits=WorkLimits(coordinates=3 * 6 - 1))
