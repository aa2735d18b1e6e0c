"""The reductions: rounds with a growing pull, and pure runs on a bootstrap sample with their exact price."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.divergences.resampling import LARGEST_RUN_EPSILON, epsilon_of, run_epsilon
from accounting.errors import OutOfPlan, OutOfRange
from accounting.mechanisms import Gaussian, Laplace, Parallel, Resampled
from accounting.noise import Noise
from accounting.noise.draws import uniform_indices
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation
from accounting.records.codec import plan_from_json, plan_to_json
from solvers import plan
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.unfolded import rows_of
from solvers.domains import L2Ball
from solvers.errors import NeedsDelta, Unsuitable
from solvers.losses import Hinge, Logistic, Softmax
from solvers.methods import BootstrapReduction, GrowthReduction, Localization, OutputPerturbation
from solvers.methods.data.bootstrap_reduction import BootstrapReductionRun
from solvers.methods.data.growth_reduction import GrowthReductionRun
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer
from solvers.solve import run
from tests.reference.bootstrap import bootstrap_epsilon
from tests.support.runs import access_to, as_method, run_quote
from tests.support.seeded import ScriptedBits, SeededBits


def _problem(n: int, regularizer: Any = None) -> Problem:
    return Problem(Logistic(), regularizer or NoRegularizer(), L2Ball(2.0), n=n, d=2, row_norm=1.0)


def _rows(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2)) / 2
    return X, np.sign(X @ np.array([1.0, -2.0]) + 0.3 * rng.normal(size=n))


def _excess(method: Any, problem: Problem, privacy: Privacy, runs: int = 4) -> tuple[float, float | None]:
    """Return the mean excess empirical risk, and the quote's bound on it."""
    X, y = _rows(problem.n)
    quote, data, noise = plan(method, problem, privacy), inputs.of_arrays(X, y, problem), Noise(SeededBits(5))
    value = lambda w: float(np.mean(problem.loss.value(rows_of(data) @ w, data.y)))  # noqa: E731
    best, width = np.zeros(2), 2.0
    for _ in range(6):  # of a convex function the neighborhood of the best point of a grid, on a finer one
        grid = [best + width * np.array(at) for at in itertools.product(np.linspace(-1, 1, 9), repeat=2)]
        best, width = min((w for w in grid if np.hypot(*w) <= 2), key=value), width / 3
    best_risk = value(best)
    risks = [value(run(quote.method, problem, data, quote.release, noise)[0]) for _ in range(runs)]
    return float(np.mean(risks)) - best_risk, quote.risk_bound.excess_risk


@pytest.mark.slow
@pytest.mark.parametrize("method", [GrowthReduction(), BootstrapReduction()], ids=lambda m: m.name)
def test_the_bound_on_the_empirical_risk_holds_and_falls_with_n(method: Any) -> None:
    bounds = []
    for n in (500, 8_000):
        risk, bound = _excess(method, _problem(n), Privacy(1.0, 0.0))
        assert bound is not None
        assert risk <= bound
        bounds.append(bound)
    assert bounds[1] < bounds[0] / 3


@pytest.mark.parametrize("privacy", [Privacy(1.0, 1e-6), Privacy(1.0, 0.0)], ids=["gaussian", "laplace"])
def test_rounds_are_composed(privacy: Privacy) -> None:
    problem = _problem(2_000)
    quote = plan(GrowthReduction(), problem, privacy)
    [query] = quote.release.plan.queries
    assert query.count == quote.method.rounds > 1  # type: ignore[union-attr]
    heard: list[int] = []
    _, transcript, _ = run_quote(quote, inputs.of_arrays(*_rows(2_000), problem), on_answer=heard.append)
    assert transcript == quote.release.plan
    assert heard[-1] == query.count
    assert quote.release.epsilon <= privacy.epsilon
    assert as_method(quote.method).resolve(problem, privacy) == quote.method


def test_one_record_moves_a_round_of_many_outputs_within_its_bound_in_l1() -> None:
    """Softmax has d K coordinates, and its gradients point into all of them."""
    problem = Problem(Softmax(64), n=2, d=4, row_norm=1.0)
    method = plan(GrowthReduction(rounds=1, strength=1e3), problem, Privacy(1.0, 0.0)).method
    assert isinstance(method, GrowthReductionRun)
    planned = Plan((PlannedQuery("round", 1, Laplace(), 2.0),))
    X, ends, bounds = np.full((2, 4), 0.5), [], []

    class Watched(DataAccess):
        def release(self, query: str, value: Any, bound: float) -> Any:
            ends.append(value)
            bounds.append(bound)
            return super().release(query, value, bound)

    for sign in (1.0, -1.0):
        data = inputs.of_arrays(X * np.array([[sign], [1.0]]), np.zeros(2), problem)
        method.run(Watched(problem, data, planned, Noise()), problem)
    assert bounds[0] == bounds[1]
    moved = np.abs(ends[0] - ends[1]).sum()
    assert 2 * math.sqrt(2) * 1e-3 * math.sqrt(4) / 2 < moved <= 2 * bounds[0]


def test_the_default_rounds_minimize_the_stated_bound() -> None:
    problem, privacy = _problem(5_000), Privacy(1.0, 1e-6)
    best = plan(GrowthReduction(), problem, privacy).risk_bound.excess_risk
    assert best is not None
    for variant in (GrowthReduction(rounds=2), GrowthReduction(rounds=30), GrowthReduction(rounds=9, strength=0.1)):
        bound = plan(variant, problem, privacy).risk_bound.excess_risk
        assert bound is None or bound > best


@pytest.mark.parametrize("n", [2, 10, 1_000, 200_000])
@pytest.mark.parametrize("e", [0.01, 0.3, 1.0, 3.0])
def test_the_price_of_drawn_rows_is_the_reference_rounded_up(n: int, e: float) -> None:
    exact = bootstrap_epsilon(e, n)
    assert exact <= epsilon_of(e, n) <= exact * (1 + 3e-9)
    assert epsilon_of(run_epsilon(exact, n), n) <= exact
    # These ends are those of both orders of the neighbors.
    null_exact = max(bootstrap_epsilon(e / 2, n, *ends) for ends in ((-1.0, 1.0), (-2.0, 0.0)))
    assert null_exact <= epsilon_of(e, n, "zero_out") <= min(null_exact * (1 + 3e-9), exact)
    assert epsilon_of(run_epsilon(null_exact, n, "zero_out"), n, "zero_out") <= null_exact


def test_the_price_equals_the_documented_figures() -> None:
    assert run_epsilon(1.0, 1_000) == pytest.approx(0.667, abs=5e-4)
    assert epsilon_of(0.667, 1_000, "zero_out") == pytest.approx(0.591, abs=5e-4)
    assert run_epsilon(1.0, 1_000, "zero_out") == pytest.approx(0.901, abs=5e-4)
    assert 1 / (2 * math.log(2 * 1_000)) == pytest.approx(0.066, abs=5e-4)  # the printed one
    printed = 1 / (2 * math.log(2 * 200_000))
    assert printed == pytest.approx(0.039, abs=5e-4)
    assert run_epsilon(1.0, 200_000) / printed == pytest.approx(17.2, abs=0.05)
    assert run_epsilon(1e6, 1_000) == LARGEST_RUN_EPSILON
    assert epsilon_of(LARGEST_RUN_EPSILON * 1.01, 1_000) == math.inf


@pytest.mark.parametrize(("relation", "own"), [("replace_one", 1.0), ("zero_out", 0.0)])
@pytest.mark.parametrize("e", [0.2, 1.0, 2.0])
def test_no_mechanism_on_three_rows_beats_the_price_and_one_beats_the_plain_epsilon(
    e: float, relation: Relation, own: float
) -> None:
    """All 27 draws of three rows of value -1, 0 (null) or 1: one-sided and two-sided answers about their sum.

    A replacement moves the sum by two at most, and null by one, so all answers are e/2-DP for null.
    """
    n, highest = 3, 0.0
    chances: tuple[Callable[[float], float], ...] = (
        lambda k: 1e-6 * math.exp(e / 2 * k),
        lambda k: 1 / (1 + math.exp(-e / 2 * (k - 1))),
        lambda k: 1 / (1 + math.exp(e / 2 * k)),
        lambda k: 1e-6 * math.exp(e / 2 * max(k, 0)),
    )
    draws = list(itertools.product(range(n), repeat=n))
    for chance in chances:
        for common in itertools.product((-1.0, 0.0, 1.0), repeat=n - 1):
            for first in (-1.0, 1.0):
                rows, changed = [first, *common], [own * -first, *common]
                chance_of_rows, chance_of_changed = (
                    sum(chance(sum(data[i] for i in draw)) for draw in draws) / n**n for data in (rows, changed)
                )
                ratios = (
                    chance_of_rows / chance_of_changed,
                    chance_of_changed / chance_of_rows,
                    (1 - chance_of_rows) / (1 - chance_of_changed),
                    (1 - chance_of_changed) / (1 - chance_of_rows),
                )
                highest = max(highest, *(math.log(r) for r in ratios))
    plain = e if relation == "replace_one" else e / 2
    assert plain * 1.02 < highest <= epsilon_of(e, n, relation)


def test_drawn_rows_are_uniform_and_words_past_the_last_multiple_are_drawn_again() -> None:
    rows = uniform_indices(Noise(SeededBits(3)), 50_000, 50_000)
    assert (rows.min(), rows.max()) <= (5, 49_999)
    counts = np.bincount(rows % 10, minlength=10)
    assert np.abs(counts - 5_000).max() < 6 * math.sqrt(5_000)
    past = 2**64 - 1  # 2^64 = 3 * k + 1: the very last word is one too many
    assert list(uniform_indices(Noise(ScriptedBits([past, 4, 5, 2])), 3, 3)) == [2, 1, 2]


def test_drawn_rows_serve_their_own_query_alone_and_once() -> None:
    problem = _problem(50)
    drawn = PlannedQuery("drawn", 1, Resampled(Laplace(), 50), 3.0)
    plain = PlannedQuery("plain", 1, Laplace(), 3.0)
    data, queries = inputs.of_arrays(*_rows(50), problem), Plan((drawn, plain))
    access = access_to(data, queries)
    with pytest.raises(OutOfPlan, match="other rows"):
        access.release("drawn", np.zeros(2), 0.1)
    access = access_to(data, queries)
    each_gradient = [tuple(access.mean_gradient(range(i, i + 1), np.zeros(2))) for i in range(50)]
    again = access.redrawn()
    drawn_gradients = [tuple(again.mean_gradient(range(i, i + 1), np.zeros(2))) for i in range(50)]
    assert len(set(each_gradient)) == 50
    assert len(set(drawn_gradients)) < 45
    assert set(drawn_gradients) < set(each_gradient)
    with pytest.raises(OutOfPlan, match="other rows"):
        again.release("plain", np.zeros(2), 0.1)
    again.release("drawn", np.zeros(2), 0.1)
    for first in (access, again):
        with pytest.raises(OutOfPlan, match="drawn only once"):
            first.redrawn()


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("inner", [Localization(phases=3), OutputPerturbation()], ids=lambda m: m.name)
def test_a_run_on_drawn_rows_is_priced_and_read_back(inner: Any, relation: Relation) -> None:
    problem, privacy = replace(_problem(300, L2(0.1)), relation=relation), Privacy(1.0, 0.0)
    quote = plan(BootstrapReduction(inner), problem, privacy)
    assert (quote.release.accountant, quote.method.inner.noise) == ("pure", "laplace")  # type: ignore[union-attr]
    [query] = quote.release.plan.queries
    assert 2 / query.noise_multiplier == pytest.approx(run_epsilon(1.0, 300, relation), rel=1e-6)
    w, transcript, _ = run_quote(quote, inputs.of_arrays(*_rows(300), problem), 2)
    assert transcript == quote.release.plan == plan_from_json(plan_to_json(transcript))
    assert np.linalg.norm(w) <= 2 + 1e-9
    assert as_method(quote.method).resolve(problem, privacy) == quote.method


@pytest.mark.parametrize("make", [lambda: Resampled(Laplace(), 1), lambda: Resampled(Parallel(Gaussian(), 3), 10)])
def test_only_pure_mechanisms_run_on_drawn_rows(make: Any) -> None:
    with pytest.raises(OutOfRange):
        make()


def test_refusals() -> None:
    for method in (GrowthReduction(), BootstrapReduction(OutputPerturbation())):
        with pytest.raises(Unsuitable, match=f"^{method.name}[: ]"):
            plan(method, Problem(Hinge(), n=500, d=2, row_norm=1.0), Privacy(1.0, 1e-6))
    with pytest.raises(NeedsDelta):
        plan(GrowthReduction(noise="gaussian"), _problem(500), Privacy(1.0, 0.0))
    with pytest.raises(NeedsDelta):
        plan(BootstrapReduction(Localization(noise="gaussian")), _problem(500), Privacy(1.0, 1e-6))


def test_a_bootstrap_sample_is_of_two_rows_or_more_and_its_noise_pure() -> None:
    with pytest.raises(Unsuitable, match="n must be"):
        BootstrapReduction().resolve(_problem(1), Privacy(1.0))
    inner = OutputPerturbation().resolve(_problem(300, L2(0.1)), Privacy(1.0, 1e-6))
    with pytest.raises(Unsuitable, match="must be laplace"):
        BootstrapReductionRun(inner).queries(_problem(300, L2(0.1)))


@pytest.mark.parametrize("limit", [0, 2**40])
def test_rows_are_drawn_of_a_sensible_number(limit: int) -> None:
    with pytest.raises(OutOfRange, match="limit"):
        uniform_indices(Noise(SeededBits(1)), 3, limit)
