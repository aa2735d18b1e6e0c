"""Forecasts, which are bounds that hold and state their assumptions, and the reasons of `auto`."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from solvers import Problem, plan, solve
from solvers.domains import Free, L1Ball, L2Ball, Simplex
from solvers.losses import Hinge, Logistic, Softmax, Squared
from solvers.methods import (
    DpAccMd,
    DpGd,
    DpSvrg,
    DpSvrgPp,
    Localization,
    Method,
    ObjectivePerturbation,
    OutputPerturbation,
)
from solvers.methods.oracle.dp_acc_md import DpAccMdRun
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.methods.run import Start
from solvers.potentials import HalfSquaredL2, HalfSquaredLp
from solvers.regularizers import L2, NoRegularizer
from solvers.selection import Auto
from tests.support.runs import as_method

PRIVACY = Privacy(1.0, 1e-6)
TASK = Problem(Logistic(), NoRegularizer(), L2Ball(2.0), n=500, d=3, row_norm=1.0)
START = Start(distance=3.0, untrained=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", [DpGd(), DpAccMd(), DpGd(steps=2), DpAccMd(steps=300)], ids=str)
@pytest.mark.parametrize("privacy", [Privacy(0.1, 1e-6), Privacy(20.0, 1e-6)], ids=["noisy", "quiet"])
def test_the_bound_holds(method: Method, privacy: Privacy) -> None:
    """Rows all alike: the optimum is on the ball's boundary, as far as the bound allows, and known exactly."""
    X, y = np.tile([0.6, 0.8, 0.0], (TASK.n, 1)), np.ones(TASK.n)
    forecast = plan(method, TASK, privacy).risk_bound
    models = [solve(method, TASK, X, y, privacy).coefficients for _ in range(8)]
    excess = np.mean([math.log1p(math.exp(-float(X[0] @ w))) for w in models]) - math.log1p(math.exp(-2.0))
    assert forecast.distance == 2.0
    assert forecast.distance_certain
    assert forecast.excess_risk is not None
    assert 0 <= excess <= forecast.excess_risk


def test_dp_gds_bound_by_hand() -> None:
    """T = 1: 4/9 (D^2 / (2 eta) + 3 G D / 4 + eta d sigma^2 9/4)."""
    bound = DpGdRun(steps=1, step=2.0).excess_risk(TASK, 0.1, START)
    assert bound == pytest.approx(4 / 9 * (9 / 4 + 0.75 * 3 + 2.0 * 3 * 0.01 * 9 / 4))


def test_dp_acc_mds_bound_by_hand() -> None:
    """T = 1, L = 1/4, eta = 2: 4 (D^2 / 2) / (2 * 4) + d sigma^2 / (2 (1/2 - 1/4))."""
    bound = DpAccMdRun(steps=1, step=2.0, potential=HalfSquaredL2()).excess_risk(TASK, 0.1, START)
    assert bound == pytest.approx(4 * 4.5 / 8 + 3 * 0.01 / 0.5)


def test_the_distance_is_certain_only_if_something_ensures_it() -> None:
    free = replace(TASK, domain=Free())
    assert not plan(DpGd(), free, PRIVACY).risk_bound.distance_certain
    assert "guess" in plan(DpGd(), free, PRIVACY).risk_bound.statement
    regularized = plan(DpGd(), replace(free, regularizer=L2(0.5)), PRIVACY).risk_bound
    assert (regularized.distance, regularized.distance_certain) == (1.0 / 0.5, True)
    wide = plan(DpGd(), replace(TASK, domain=L2Ball(1e6)), PRIVACY).risk_bound
    assert (wide.distance, wide.distance_certain) == (5 * math.sqrt(3), False)


def test_a_bound_above_the_untrained_loss_states_it() -> None:
    small = plan(DpGd(), replace(TASK, n=20), PRIVACY).risk_bound
    large = plan(DpGd(), replace(TASK, n=10**6), PRIVACY).risk_bound
    assert small.excess_risk is not None
    assert large.excess_risk is not None
    assert small.excess_risk > small.untrained == pytest.approx(math.log(2))
    assert "same guarantee" in small.statement
    assert large.excess_risk < large.untrained
    assert "untrained" not in large.statement


def test_dp_acc_md_is_covered_where_runs_do_not_start_at_zero() -> None:
    inside = replace(TASK, domain=Simplex(2.0), n=10**6)
    assert plan(DpGd(), inside, PRIVACY).risk_bound.excess_risk is None
    forecast = plan(DpAccMd(), inside, PRIVACY).risk_bound
    assert forecast.distance == pytest.approx(2.0 * math.sqrt(2))
    assert forecast.excess_risk is not None
    assert forecast.excess_risk < forecast.untrained


@pytest.mark.parametrize(
    "method", [DpGdRun(steps=5, step=1.0), DpAccMdRun(steps=5, step=1.0, potential=HalfSquaredL2())]
)
def test_noise_counts_in_as_many_directions_as_there_are_rows(method: DpGdRun | DpAccMdRun) -> None:
    """On a free domain without r, a d above n costs no more than d = n; elsewhere it does."""
    free = replace(TASK, domain=Free())
    bound: Any = method.excess_risk
    bounds = [bound(replace(free, d=d), 0.1, START) for d in (100, 500, 10**6)]
    assert bounds[0] < bounds[1] == bounds[2]
    ridge = replace(free, regularizer=L2(0.1))
    assert bound(replace(ridge, d=500), 0.1, START) < bound(replace(ridge, d=501), 0.1, START)
    assert plan(as_method(method), replace(free, d=10**5), PRIVACY).risk_bound.distance == 5 * math.sqrt(500)


def test_the_loss_of_the_untrained_model() -> None:
    assert plan(DpGd(), replace(TASK, loss=Squared()), PRIVACY).risk_bound.untrained == 0.5
    assert plan(DpGd(), replace(TASK, loss=Softmax(3)), PRIVACY).risk_bound.untrained == pytest.approx(math.log(3))
    bounded = plan(DpGd(), replace(TASK, domain=L2Ball(0.1)), PRIVACY).risk_bound
    assert bounded.untrained == pytest.approx(0.1)


@pytest.mark.parametrize("method", [DpSvrg(), DpSvrgPp()], ids=["dp_svrg", "dp_svrg_pp"])
def test_no_bound_is_stated_without_a_proof(method: Method) -> None:
    forecast = plan(method, TASK, PRIVACY).risk_bound
    assert forecast.excess_risk is None
    assert " bound " in forecast.statement


class TestAuto:
    def test_is_dp_gd_and_states_the_reason(self) -> None:
        quote = plan(Auto(), TASK, PRIVACY)
        assert quote.method.name == "dp_gd"
        for words in ("smooth, not strongly convex", "n = 500", "d = 3", "variance-reduced"):
            assert words in quote.reason
        assert "strongly convex, n" in plan(Auto(), replace(TASK, regularizer=L2(0.1)), PRIVACY).reason

    def test_names_the_paper_s_method_in_high_dimension(self) -> None:
        quote = plan(Auto(), replace(TASK, d=600), PRIVACY)
        assert quote.method.name == "dp_gd"
        assert "dp_acc_md" in quote.reason

    def test_is_dp_acc_md_on_an_l1_ball_of_many_coordinates(self) -> None:
        wide = replace(TASK, domain=L1Ball(3.0), d=600)
        quote = plan(Auto(), wide, PRIVACY)
        assert isinstance(quote.method, DpAccMdRun)
        assert quote.method.potential == HalfSquaredLp()
        assert "l1 ball" in quote.reason
        for variant in (
            replace(wide, d=400),
            replace(wide, domain=L2Ball(3.0)),
            replace(wide, domain=Simplex(3.0)),
            replace(wide, regularizer=L2(0.1)),
        ):
            assert plan(Auto(), variant, PRIVACY).method.name == "dp_gd"

    def test_is_dp_svrg_for_very_many_gradients_if_it_may_sample(self) -> None:
        huge = Problem(Logistic(), NoRegularizer(), n=10**8, d=50, row_norm=4.0)
        chosen, reason = Auto().choose(huge, PRIVACY)
        assert chosen.method.name == DpSvrg().name
        assert "gradient evaluations" in reason
        saved = DpGd().resolve(huge, PRIVACY).gradient_evaluations(huge)
        assert chosen.method.gradient_evaluations(huge) < saved / 3
        assert Auto().choose(huge, PRIVACY, currency="gaussian")[0].method.name == DpGd().name

    def test_its_choice_is_resolved_like_a_requested_method(self) -> None:
        assert plan(Auto(), TASK, PRIVACY).method == DpGd().resolve(TASK, PRIVACY)

    def test_at_delta_zero_it_takes_a_pure_method(self) -> None:
        ridged = replace(TASK, regularizer=L2(0.1))
        assert Auto().choose(ridged, Privacy(1.0, 0.0))[0].method.name == OutputPerturbation().name
        assert Auto().choose(replace(TASK, loss=Hinge()), Privacy(1.0, 0.0))[0].method.name == Localization().name

    def test_a_perturbed_objective_where_l2_is_strong_beside_the_noise(self) -> None:
        problem = Problem(Logistic(), L2(0.01), n=200_000, d=55, row_norm=7.42)
        assert Auto().choose(problem, Privacy(4.0, 1e-6))[0].method.name == ObjectivePerturbation().name
        assert Auto().choose(problem, Privacy(4.0, 1e-6), currency="gaussian")[0].method.name == DpGd().name
        assert Auto().choose(problem, Privacy(0.1, 1e-6))[0].method.name == DpGd().name
        assert Auto().choose(replace(problem, regularizer=L2(1e-4)), Privacy(4.0, 1e-6))[0].method.name == DpGd().name
