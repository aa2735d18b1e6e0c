"""The filters: thresholds rounded down, charges rounded up, and what they add up to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy, thresholds
from accounting.accountants import PldAccountant
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.errors import BudgetExhausted, CodecError, FilterMismatch, OutOfRange
from accounting.filter import CHARGE_LIMIT_UNITS, UNIT, Cost, Filter, filter_with
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.mechanisms.mechanism import Curves
from accounting.plan import AbstractComposition, Plan, PlannedQuery, Query
from accounting.records.filters import cost_from_json, filter_from_json, filter_to_json
from tests.reference.budget import renyi_budget, uses
from tests.reference.normal import gaussian_shift

BUDGETS = [(e, d) for e in (1e-3, 0.05, 0.5, 1.0, 3.0, 20.0, 100.0) for d in (1e-12, 1e-6, 1e-2)]


@dataclass(frozen=True)
class Curve(AbstractComposition):
    """A plan by its bare curves."""

    mu: float | None = None
    epsilon: float | None = None
    rho: float | None = None

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        def rdp(orders: Sequence[float]) -> NDArray[np.float64]:
            if self.rho is not None:
                return np.full(len(orders), self.rho)
            return np.array([a * (self.mu or 0.0) ** 2 / 2 for a in orders])

        return ((1, Curves(rdp, self.mu, self.mu, self.epsilon)),)


def gaussian_plan(mu: float, count: int = 1) -> Plan:
    return Plan((PlannedQuery("gradient", count, Gaussian(), 2 * math.sqrt(count) / mu),))


def add(a: Cost, b: Cost) -> Cost:
    return tuple(x + y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_renyi_thresholds_are_the_formula_rounded_down(epsilon: float, delta: float) -> None:
    rule = Filter.open("rdp", Privacy(epsilon, delta))
    assert sum(map(Fraction, rule.weights)) <= 1
    with mpmath.workdps(50):
        for a, w, threshold in zip(rule.orders, rule.weights, rule.thresholds, strict=True):
            x = mpmath.mpf(a)
            exact = epsilon - mpmath.log(1 - 1 / x) + mpmath.log(x * mpmath.mpf(w) * mpmath.mpf(delta)) / (x - 1)
            assert 0 < threshold <= exact * UNIT < threshold + 3


def test_default_orders_drop_the_dead_one() -> None:
    rule = Filter.open("rdp", Privacy(1.0, 1e-6))
    assert rule.orders == pytest.approx((22.0, 39.6), rel=0.01)
    assert rule.weights == (0.5, 0.5)
    three = Filter.open("rdp", Privacy(0.1, 1e-12))
    assert len(three.orders) == 3
    assert three.orders[0] / three.orders[1] == pytest.approx(0.55, rel=1e-3)
    assert three.orders[2] / three.orders[1] == pytest.approx(1.8, rel=1e-3)


def test_the_best_order_is_that_of_the_whole_grid() -> None:
    """The orders agree to the last bit, because they are part of a guarantee."""
    grid = 1 + np.geomspace(1e-2, 1e7, 20_001)
    for epsilon, delta in ((1e-3, 1e-12), (1e-3, 1e-2), (0.1, 1e-6), (3.0, 1e-6), (100.0, 1e-12), (100.0, 1e-2)):
        best = max(grid, key=lambda a: (epsilon - math.log1p(-1 / a) + math.log(a * delta) / (a - 1)) / a)
        orders = thresholds.orders.__wrapped__("rdp", epsilon, delta, delta)
        expected = [float(f"{share * best:.4g}") for share in thresholds.ORDER_RATIOS["rdp"]]
        assert list(orders) == expected[len(expected) - len(orders) :]


@pytest.mark.parametrize(("kind", "delta"), [("rdp", 0.0), ("gdp", 0.0), ("pure", 1e-6)], ids=["rdp", "gdp", "pure"])
def test_delta_must_suit_the_kind(kind: str, delta: float) -> None:
    with pytest.raises(OutOfRange, match="delta"):
        Filter.open(kind, Privacy(1.0, delta))  # type: ignore[arg-type]


def test_a_budget_without_a_positive_threshold_is_refused() -> None:
    with pytest.raises(OutOfRange, match="too small"):
        filter_with("rdp", Privacy(1.0, 1e-6), (10.0,), (0.5,))


def test_gdp_and_pure_thresholds() -> None:
    budget = Privacy(1.0, 1e-6)
    (threshold,) = Filter.open("gdp", budget).thresholds
    assert threshold / UNIT == pytest.approx(0.2367**2, rel=1e-3)
    assert threshold <= Fraction(gauss_mu(1.0, 1e-6)) ** 2 * UNIT < threshold + 1
    assert Filter.open("pure", Privacy(0.3)).thresholds == (math.floor(Fraction(0.3) * UNIT),)


@pytest.mark.parametrize("z", [0.31, 1.0, 7.3, 123.456, 1e6, 1e12])
@pytest.mark.parametrize("count", [1, 3, 1500, 10**9])
def test_costs_are_rounded_up_and_hardly(z: float, count: int) -> None:
    plan = Plan((PlannedQuery("a", count, Gaussian(), z), PlannedQuery("b", 7, Gaussian(), z)))
    mu_squared = Fraction(4 * (count + 7)) / Fraction(z) ** 2
    for kind in ("rdp", "gdp"):
        rule = Filter.open(kind, Privacy(1.0, 1e-6))
        scales = [Fraction(a) / 2 for a in rule.orders] or [Fraction(1)]
        if mu_squared * max(scales) > 4e6:
            with pytest.raises(BudgetExhausted):
                rule.cost(plan)
            continue
        for scale, cost in zip(scales, rule.cost(plan), strict=True):
            exact = scale * mu_squared * UNIT
            assert exact < cost <= exact * Fraction(1 + 1e-10) + 2


@pytest.mark.parametrize("value", [math.inf, math.nextafter(2.0**22, 0), 2.0**22, 1e300])
def test_charges_beyond_any_budget_are_refused(value: float) -> None:
    for rule, curve in (
        (Filter.open("rdp", Privacy(1.0, 1e-6)), Curve(rho=value)),
        (Filter.open("gdp", Privacy(1.0, 1e-6)), Curve(mu=value)),
        (Filter.open("pure", Privacy(1.0)), Curve(epsilon=value)),
    ):
        with pytest.raises(BudgetExhausted):
            rule.cost(curve)


@pytest.mark.parametrize("value", [math.nan, -1e-300, -1.0, -math.inf])
def test_charges_that_are_no_numbers_are_refused(value: float) -> None:
    for rule, curve in (
        (Filter.open("rdp", Privacy(1.0, 1e-6)), Curve(rho=value)),
        (Filter.open("pure", Privacy(1.0)), Curve(epsilon=value)),
    ):
        with pytest.raises(OutOfRange):
            rule.cost(curve)
    with pytest.raises(OutOfRange):
        Filter.open("gdp", Privacy(1.0, 1e-6)).cost(Curve(mu=math.nan))


@pytest.mark.parametrize(
    "bad", [(), (1,), (1, 2, 3), (1, -1), (1, CHARGE_LIMIT_UNITS), (1, True), (1, 1.0), (1, math.nan)]
)
def test_vectors_of_another_filter_are_refused(bad: Cost) -> None:
    rule = Filter.open("rdp", Privacy(1.0, 1e-6))
    with pytest.raises(OutOfRange):
        rule.admits(rule.zero_cost, bad)
    with pytest.raises(OutOfRange):
        rule.admits(bad, (1, 1))
    with pytest.raises(OutOfRange):
        rule.remaining_epsilon(bad)


def test_a_cost_within_one_threshold_is_admitted_and_a_cost_beyond_all_is_refused() -> None:
    rule = Filter.open("rdp", Privacy(1.0, 1e-6))
    low, high = rule.thresholds
    assert rule.admits((low - 1, high), (1, 1))
    assert rule.admits((low, high - 1), (1, 1))
    assert not rule.admits((low, high), (1, 1))
    assert rule.admits((0, CHARGE_LIMIT_UNITS - 2), (1, 1))
    assert not rule.admits((0, CHARGE_LIMIT_UNITS - 1), (1, 1)), (
        "sums stay below 2^62, even if a cost fits at one order"
    )


def test_methods_without_a_curve_do_not_fit() -> None:
    sampled = Plan((PlannedQuery("change", 10, PoissonGaussian(0.01), 1.0),))
    plain = gaussian_plan(0.1)
    with pytest.raises(FilterMismatch, match="gdp"):
        Filter.open("gdp", Privacy(1.0, 1e-6)).cost(sampled)
    for plan in (sampled, plain):
        with pytest.raises(FilterMismatch, match="pure"):
            Filter.open("pure", Privacy(1.0)).cost(plan)
    rule = Filter.open("rdp", Privacy(1.0, 1e-6))
    assert min(rule.cost(sampled)) > 0
    assert Filter.open("gdp", Privacy(1.0, 1e-6)).cost(plain)[0] >= 0.01 * UNIT


def test_pure_charges_add_up() -> None:
    rule = Filter.open("pure", Privacy(1.0))
    spent, cost = rule.zero_cost, rule.cost(Curve(epsilon=0.3))
    for _ in range(3):
        assert rule.admits(spent, cost)
        spent = add(spent, cost)
    assert not rule.admits(spent, cost)
    assert rule.spent_epsilon(spent) == pytest.approx(0.9, rel=1e-9)
    assert rule.spent_epsilon(spent) >= 0.9
    last = rule.remaining_epsilon(spent)
    assert last == pytest.approx(0.1, rel=1e-8)
    assert rule.admits(spent, rule.cost(Curve(epsilon=last)))


def fill(rule: Filter, cost: Cost) -> tuple[int, Cost]:
    spent, jobs = rule.zero_cost, 0
    while rule.admits(spent, cost):
        spent, jobs = add(spent, cost), jobs + 1
    return jobs, spent


def test_admits_as_many_jobs_as_the_reference() -> None:
    """To the job: a charge is rounded up by less than 2^-40, and a thousand of them by far less than one job."""
    mu, budget = 0.01, Privacy(1.0, 1e-6)
    rule = Filter.open("rdp", budget)
    weighed = zip(rule.orders, rule.weights, strict=True)
    jobs = max(uses(a * mu**2 / 2, renyi_budget(1.0, 1e-6, a, w)) for a, w in weighed)
    assert fill(rule, rule.cost(gaussian_plan(mu)))[0] == jobs
    exact = Filter.open("gdp", budget)
    assert fill(exact, exact.cost(gaussian_plan(mu)))[0] == uses(mu**2, gaussian_shift(1.0, 1e-6) ** 2)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("kind", ["rdp", "gdp"])
def test_a_full_budget_keeps_its_promise(kind: str, epsilon: float, delta: float) -> None:
    """All admitted Gaussian jobs together, composed exactly, stay within (epsilon, delta)."""
    rule = Filter.open(kind, Privacy(epsilon, delta))  # type: ignore[arg-type]
    mu = gauss_mu(epsilon, delta) / 17.3
    jobs, spent = fill(rule, rule.cost(gaussian_plan(mu)))
    together = gauss_epsilon(mu * math.sqrt(jobs), delta)
    assert together <= rule.spent_epsilon(spent) <= epsilon
    assert 0.98 * 299 <= jobs <= 299 if kind == "gdp" else 0.2 * 299 < jobs < 299


@pytest.mark.slow
def test_a_mixed_budget_keeps_its_promise() -> None:
    """Sampled and plain jobs fill a Renyi budget; the privacy-loss distribution of all of them confirms it."""
    budget = Privacy(1.0, 1e-6)
    rule = Filter.open("rdp", budget)
    jobs = [
        PlannedQuery("change", 100, PoissonGaussian(0.01), 5.0),
        PlannedQuery("gradient", 10, Gaussian(), 150.0),
    ]
    spent, run = rule.zero_cost, list[PlannedQuery]()
    while rule.admits(spent, cost := rule.cost(Plan((jobs[len(run) % 2],)))):
        spent = add(spent, cost)
        run.append(jobs[len(run) % 2])
    assert len(run) > 4
    assert PldAccountant().epsilon(Plan(tuple(run)), budget.delta) <= rule.spent_epsilon(spent) <= budget.epsilon


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("kind", ["rdp", "gdp"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_job_of_the_remaining_epsilon_is_admitted(kind: str, epsilon: float, delta: float, share: float) -> None:
    """A job calibrated to the remaining epsilon is admitted. A job of 1 % more is refused."""
    rule = Filter.open(kind, Privacy(epsilon, delta))  # type: ignore[arg-type]
    spent = tuple(int(share * t) for t in rule.thresholds)
    remaining = rule.remaining_epsilon(spent)
    assert 0 <= remaining <= epsilon
    if remaining == 0:
        return
    assert remaining >= 1e-3
    queries = (Query("snapshot", 3, Gaussian(), 0.3), Query("gradient", 137, Gaussian()))
    assert rule.admits(spent, rule.cost(calibrate(queries, Privacy(remaining, delta)).plan))
    if remaining * 1.01 <= 100:
        assert not rule.admits(spent, rule.cost(calibrate(queries, Privacy(remaining * 1.01, delta)).plan))


def test_nothing_remains_when_the_budget_is_full() -> None:
    for kind, budget in (("rdp", Privacy(1.0, 1e-6)), ("gdp", Privacy(1.0, 1e-6)), ("pure", Privacy(1.0))):
        rule = Filter.open(kind, budget)  # type: ignore[arg-type]
        assert rule.remaining_epsilon(rule.thresholds) == 0.0
        assert rule.remaining_epsilon(tuple(t + 5 for t in rule.thresholds)) == 0.0
        assert rule.spent_epsilon(rule.thresholds) == pytest.approx(1.0, rel=1e-8)
        assert rule.spent_epsilon(rule.thresholds) <= 1.0
        assert rule.spent_epsilon(rule.zero_cost) == 0.0


def test_spent_is_the_best_order_of_the_union_bound() -> None:
    rule = Filter.open("rdp", Privacy(1.0, 1e-6))
    spent = rule.cost(gaussian_plan(0.12))
    by_hand = min(
        a * 0.12**2 / 2 + math.log1p(-1 / a) - math.log(a * w * 1e-6) / (a - 1)
        for a, w in zip(rule.orders, rule.weights, strict=True)
    )
    assert by_hand <= rule.spent_epsilon(spent) <= by_hand * (1 + 1e-9)


FORGERIES = {
    "threshold up": lambda d: d | {"thresholds": [str(int(t) + 2) for t in d["thresholds"]]},
    "threshold zero": lambda d: d | {"thresholds": ["0", "1"]},
    "one threshold": lambda d: d | {"thresholds": d["thresholds"][:1]},
    "integer threshold": lambda d: d | {"thresholds": [1, 2]},
    "signed": lambda d: d | {"thresholds": ["-1", "+2"]},
    "long": lambda d: d | {"thresholds": ["9" * 20] * 2},
    "weights above one": lambda d: d | {"weights": [0.6, 0.6]},
    "negative weight": lambda d: d | {"weights": [-0.5, 0.5]},
    "order below one": lambda d: d | {"orders": [0.5, 40.0]},
    "NaN order": lambda d: d | {"orders": [math.nan, 40.0]},
    "infinite order": lambda d: d | {"orders": [math.inf, 40.0]},
    "bool order": lambda d: d | {"orders": [True, 40.0]},
    "more orders": lambda d: d | {"orders": [20.0, 30.0, 40.0, 50.0]},
    "no orders": lambda d: d | {"orders": [], "weights": []},
    "another kind": lambda d: d | {"kind": "gdp"},
    "unknown kind": lambda d: d | {"kind": "natural"},
    "unhashable kind": lambda d: d | {"kind": ["rdp"]},
    "no slack given": lambda d: {k: v for k, v in d.items() if k != "slack"},
    "a slack from nowhere": lambda d: d | {"slack": 1e-8},
    "negative slack": lambda d: d | {"slack": -1e-8},
    "smaller budget": lambda d: d | {"epsilon": 0.9},
    "NaN budget": lambda d: d | {"epsilon": math.nan},
    "text budget": lambda d: d | {"epsilon": "1"},
    "more keys": lambda d: d | {"seed": 1},
    "fewer keys": lambda d: {k: v for k, v in d.items() if k != "weights"},
    "no object": lambda d: [d],
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_filter_is_refused(forge) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CodecError):
        filter_from_json(forge(filter_to_json(Filter.open("rdp", Privacy(1.0, 1e-6)))))


@pytest.mark.parametrize("document", [None, "12", [], ["1"] * 99, [1], ["-1"], ["1" * 20], ["\u0661"]], ids=repr)
def test_a_forged_charge_is_refused(document: Any) -> None:
    with pytest.raises(CodecError, match="decimal strings"):
        cost_from_json(document)
