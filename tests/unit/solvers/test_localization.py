"""Methods on disjoint rows: their sensitivity, reads, schedules, smooth forms and whole runs."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.errors import CodecError, OutOfPlan, OutOfRange
from accounting.mechanisms import Gaussian, Laplace, Parallel
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.records.codec import plan_from_json, plan_to_json
from solvers import plan
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from solvers.errors import Unsuitable
from solvers.losses import Absolute, Hinge, HuberHinge, Logistic, Loss, Power, Quantile, Sigmoid, Squared
from solvers.losses.smoothing import bias, smoothed
from solvers.methods import EpochGrowth, Localization, PhasedSgd
from solvers.methods.data.localization import LAW
from solvers.methods.data.phased_sgd import sensitivity
from solvers.methods.data.phases import Phases
from solvers.methods.defaults.phases import Law, ScheduleBound
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer
from solvers.solve import run
from tests.support.runs import access_to, run_quote
from tests.support.seeded import SeededBits

TARGET = Privacy(1.0, 1e-6)


def _access(problem: Problem, X: Vector, y: Vector, plan_: Plan | None = None) -> DataAccess:
    return access_to(inputs.of_arrays(X, y, problem), plan_)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [Free(), L2Ball(0.5), L1Ball(0.5), LinfBall(0.3), Simplex()], ids=lambda d: d.name)
@pytest.mark.parametrize("strength", [0.0, 0.1])
def test_one_pass_moves_within_its_bound(domain: Domain, strength: float) -> None:
    rng = np.random.default_rng(2)
    problem = Problem(HuberHinge(0.5), L2(strength), domain, n=50, d=3, row_norm=1.0)
    eta, farthest = 2 / problem.L, 0.0
    bound = sensitivity(problem, 30, eta, problem.start)
    for _ in range(60):
        X, y = rng.normal(size=(50, 3)), np.sign(rng.normal(size=50))
        neighbor = X.copy()
        neighbor[10] = -X[10]
        iterate, neighbor_iterate = (
            _access(problem, rows, y).one_pass(range(10, 40), problem.start, eta) for rows in (X, neighbor)
        )
        farthest = max(farthest, float(np.linalg.norm(iterate - neighbor_iterate)))
    assert 0.02 * bound < farthest <= bound


def test_one_pass_by_hand() -> None:
    """(w - y)^2 / 2 from 0 with step 1/2 over targets 1, 1, 1: 0, 1/2, 3/4."""
    problem = Problem(Squared(1.0), n=3, d=1, row_norm=1.0)
    assert _access(problem, np.ones((3, 1)), np.ones(3)).one_pass(range(3), np.zeros(1), 0.5) == pytest.approx(1.25 / 3)


def test_without_smoothness_or_with_longer_steps_the_bound_of_one_pass_is_false() -> None:
    """The proof needs eta <= 2/L, because longer steps drive two neighbors apart."""
    problem = Problem(Squared(1e6), n=12, d=1, row_norm=1.0)
    y = np.zeros(12)
    neighbor_y = y.copy()
    neighbor_y[0] = 0.1
    iterate, neighbor_iterate = (
        _access(problem, np.ones((12, 1)), t).one_pass(range(12), np.zeros(1), 3.0) for t in (y, neighbor_y)
    )
    assert float(abs(iterate - neighbor_iterate)[0]) > 10 * 0.1 * 3.0
    with pytest.raises(Unsuitable, match="below 2/L"):
        plan(PhasedSgd(step=3.0), replace(problem, n=60), TARGET)


def _two_parts(reads: list[range]) -> None:
    problem = Problem(Logistic(), n=20, d=2, row_norm=1.0)
    planned = Plan((PlannedQuery("phase", 1, Parallel(Gaussian(), 2), 5.0),))
    access = _access(problem, np.ones((20, 2)), np.ones(20), planned)
    for rows in reads:
        g = access.mean_gradient(rows, np.zeros(2))
        access.release("phase", g, 0.1)


def test_parts_must_read_disjoint_positions_in_increasing_order() -> None:
    _two_parts([range(5), range(5, 20)])
    for overlap in (range(4, 20), range(5)):
        with pytest.raises(OutOfPlan, match="disjoint"):
            _two_parts([range(5), overlap])
    with pytest.raises(OutOfPlan, match="disjoint"):
        _two_parts([range(5, 20), range(5)])
    with pytest.raises(OutOfPlan, match="allows 2 answers"):
        _two_parts([range(5), range(5, 10), range(10, 20)])


def test_a_part_that_read_nothing_through_the_access_is_refused() -> None:
    problem = Problem(Logistic(), n=20, d=2, row_norm=1.0)
    planned = Plan((PlannedQuery("phase", 1, Parallel(Gaussian(), 2), 5.0),))
    with pytest.raises(OutOfPlan, match="disjoint"):
        _access(problem, np.ones((20, 2)), np.ones(20), planned).release("phase", np.zeros(2), 0.1)


@pytest.mark.parametrize("rows", [range(0), range(-1, 3), range(21), range(0, 10, 2)])
def test_positions_outside_the_data_are_refused(rows: range) -> None:
    problem = Problem(Logistic(), n=20, d=2, row_norm=1.0)
    with pytest.raises(Unsuitable, match="record indices"):
        _access(problem, np.ones((20, 2)), np.ones(20)).mean_gradient(rows, np.zeros(2))


def test_the_data_serve_no_other_problem() -> None:
    problem = Problem(Hinge(), n=20, d=2, row_norm=1.0)
    access = _access(problem, np.ones((20, 2)), np.ones(20))
    access.mean_gradient(range(20), np.zeros(2), replace(problem, loss=HuberHinge(0.1)))
    for variant in (replace(problem, row_norm=2.0), replace(problem, loss=Squared())):
        with pytest.raises(Unsuitable, match="another problem"):
            access.mean_gradient(range(20), np.zeros(2), variant)


def test_parallel_costs_one_part_and_answers_all() -> None:
    for each in (Gaussian(), Laplace()):
        parallel = Parallel(each, 7)
        mine, own = parallel.curves(8.0), each.curves(8.0)
        assert (parallel.answers, mine.gdp, mine.pure) == (7, own.gdp, own.pure)
        assert parallel.event(8.0) == each.event(8.0)
        assert np.array_equal(mine.rdp([2.0, 9.0]), own.rdp([2.0, 9.0]))
        whole = Plan((PlannedQuery("phase", 1, parallel, 8.0),))
        assert plan_from_json(plan_to_json(whole)) == whole
    for parts in (0, 100_001, True):
        with pytest.raises(OutOfRange):
            Parallel(Gaussian(), parts)


@pytest.mark.parametrize("each", [{"name": "parallel"}, {"name": "gaussian", "parts": 3}, "gaussian", {"name": []}, {}])
def test_only_a_plain_mechanism_is_read_as_a_part(each: Any) -> None:
    document = plan_to_json(Plan((PlannedQuery("phase", 1, Parallel(Gaussian(), 7), 8.0),)))
    document["queries"][0]["each"] = each
    with pytest.raises(CodecError):
        plan_from_json(document)


@pytest.mark.parametrize("law", [LAW, Law(0.5, 0.5, 2.0)])
def test_the_bound_of_a_schedule_is_the_documented_sum(law: Law) -> None:
    k, m, q, h, D, G, a = 4, 50, 3.0, 0.2, 2.0, 1.5, 7.0
    etas = [h * q**-i for i in range(k)]
    total = law.reach * D**2 / (h * m) + law.drift * G**2 * sum(etas)
    total += sum(law.reach * a * (law.shift * G * e) ** 2 / (f * m) for e, f in itertools.pairwise(etas))
    total += G * math.sqrt(a) * law.shift * G * etas[-1]
    assert ScheduleBound(law, a, D, G).risk(Phases(0, k, m, q, h)) == pytest.approx(total)


def test_the_default_schedule_is_the_best_of_its_list_and_better_than_the_printed_one() -> None:
    a, n, D, G = 955.0, 100_000, 5.0, 1.0
    bound = ScheduleBound(LAW, a, D, G)
    best = bound.best_phases(n)
    best_risk = bound.risk(best)
    for factor in (0.9, 1.1):
        assert bound.risk(replace(best, step=best.step * factor)) > best_risk
    printed = bound.best_phases(n, count=12, ratio=16.0)
    assert best_risk < 0.6 * bound.risk(printed)


@pytest.mark.parametrize(
    "loss", [Hinge(), Absolute(), Quantile(0.9), Power(1.5), Power(1.1, 0.5)], ids=lambda loss: repr(loss)
)
@pytest.mark.parametrize("width", [1e-3, 0.2, 3.0])
def test_smooth_forms_keep_the_slope_bound_and_state_their_bias(loss: Loss, width: float) -> None:
    smooth = smoothed(loss, width)
    assert smooth.slope_bound == loss.slope_bound
    assert math.isfinite(smooth.curvature_bound)
    margins = np.linspace(-4, 4, 80_001)
    y = loss.targets(np.full(margins.shape, 0.37))
    gap = np.abs(loss.value(margins, y) - smooth.value(margins, y))
    assert 0.99 * bias(loss, smooth) - 1e-5 <= gap.max() <= bias(loss, smooth) + 1e-12
    slopes = smooth.slope(margins, y)
    assert np.abs(slopes).max() <= loss.slope_bound * (1 + 1e-12)
    assert np.diff(slopes).max() <= smooth.curvature_bound * 1e-4 * (1 + 1e-6)
    assert np.diff(slopes).min() >= -1e-12
    assert smoothed(smooth, 0.5) == smooth


@pytest.mark.slow
@pytest.mark.parametrize("method", [Localization(), EpochGrowth(), PhasedSgd()], ids=lambda m: m.name)
def test_more_rows_mean_less_risk(method: Any) -> None:
    rng = np.random.default_rng(6)
    truth, risks = np.array([1.0, -1.0]), []
    for n in (1_000, 10_000):
        X = rng.normal(size=(n, 2)) / 2
        y = np.clip(X @ truth + 0.1 * rng.normal(size=n), -1, 1)
        problem = Problem(Squared(1.0), NoRegularizer(), L2Ball(2.0), n=n, d=2, row_norm=1.0)
        quote, data, noise = plan(method, problem, TARGET), inputs.of_arrays(X, y, problem), Noise(SeededBits(8))
        models = [run(quote.method, problem, data, quote.release, noise)[0] for _ in range(4)]
        risks.append(float(np.mean([np.linalg.norm(w - truth) ** 2 for w in models])))
    assert risks[1] < 0.1
    assert risks[1] < risks[0] / 2


def test_losses_that_are_not_smooth_are_taken_with_a_stated_bias() -> None:
    problem = Problem(Hinge(), NoRegularizer(), L2Ball(2.0), n=20_000, d=2, row_norm=1.0)
    quote = plan(Localization(), problem, TARGET)
    width = quote.method.smoothing  # type: ignore[union-attr]
    assert width is not None
    assert width > 0
    assert "smoothing" in quote.risk_bound.statement
    assert plan(Localization(), replace(problem, loss=Logistic()), TARGET).method.smoothing == 0.0  # type: ignore[union-attr]


def test_epochs_follow_the_guess_of_kappa() -> None:
    problem = Problem(Absolute(), NoRegularizer(), L2Ball(1.0), n=100_000, d=1, row_norm=1.0)
    epochs = [plan(EpochGrowth(kappa=k), problem, TARGET).method.epochs for k in (1.25, 1.5, 2.0, 3.0)]  # type: ignore[union-attr]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] > epochs[-1] >= 1
    assert plan(EpochGrowth(), problem, TARGET).method.kappa == 1.5  # type: ignore[union-attr]
    assert plan(EpochGrowth(), replace(problem, loss=Squared()), TARGET).method.kappa == 2.0  # type: ignore[union-attr]


SMALL = Problem(Logistic(), NoRegularizer(), L2Ball(1.0), n=200, d=4, row_norm=1.0)


@pytest.mark.parametrize(
    ("method", "problem", "why"),
    [
        (Localization(), Problem(Sigmoid(), n=60, d=3, row_norm=1.0), "convex"),
        (EpochGrowth(), Problem(Sigmoid(), n=60, d=3, row_norm=1.0), "convex"),
        (PhasedSgd(), Problem(Sigmoid(), n=60, d=3, row_norm=1.0), "convex"),
        (PhasedSgd(), Problem(Hinge(), n=60, d=3, row_norm=1.0), "smooth"),
        (Localization(smoothing=0.0), Problem(Hinge(), n=60, d=3, row_norm=1.0), "smoothing must be above 0"),
        (Localization(phases=3), Problem(Logistic(), n=60, d=3, row_norm=1.0), "20 rows each, and each needs 30"),
        (Localization(), Problem(Logistic(), n=20, d=3, row_norm=1.0), "20 rows each, and each needs 30"),
        (EpochGrowth(), SMALL, r"n = 200 is too small.* 0\.6.*0\.25 G D"),
        (EpochGrowth(epochs=9), SMALL, "9 epochs on n = 200 have 22 rows each"),
        (Localization(step=1e15), replace(SMALL, domain=Free()), "too weak"),
    ],
)
def test_refusals_name_the_assumption_and_the_numbers(method: Any, problem: Problem, why: str) -> None:
    with pytest.raises(Unsuitable, match=why):
        plan(method, problem, Privacy(0.5, 1e-7))


def test_late_phases_with_tiny_steps_keep_the_model() -> None:
    """Late phases release how far they move, because their lattices reach only 2^51 of their steps."""
    problem = Problem(Logistic(), n=2_000, d=2, row_norm=1.0)
    X, y = np.full((2_000, 2), 0.7), np.ones(2_000)
    for method in (Localization(phases=16, ratio=16.0), PhasedSgd(phases=16, ratio=16.0)):
        quote = plan(method, problem, Privacy(1.0, 1e-6))
        model, *_ = run_quote(quote, inputs.of_arrays(X, y, problem))
        assert np.abs(model).max() > quote.noise_stds[0] / 100


@pytest.mark.parametrize("method", [Localization, EpochGrowth, PhasedSgd])
def test_gaussian_noise_is_refused_at_delta_0(method: Any) -> None:
    with pytest.raises(Unsuitable, match="laplace"):
        plan(method(noise="gaussian"), replace(SMALL, n=5000), Privacy(1.0, 0.0))


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.9), Power(1.5)], ids=lambda loss: loss.name)
def test_descent_takes_the_slopes_of_the_smooth_form(loss: Loss) -> None:
    """Compiled or not: a kink that came through would break the contraction that privacy rests on."""
    problem = Problem(loss, n=40, d=1, row_norm=1.0)
    smooth = replace(problem, loss=smoothed(loss, 0.3))
    y = loss.targets(np.linspace(-1, 1, 40))
    access = _access(problem, np.ones((40, 1)), y)
    for w in (-0.9, 0.1, 0.8):
        expected = np.mean(smooth.loss.slope(np.full(40, w), y))
        assert access.mean_gradient(range(40), np.array([w]), smooth) == pytest.approx(expected, rel=1e-12)
