"""Jobs charged by an approximation of their curve, and the part of delta that pays for it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import PldAccountant, guard
from accounting.accountants.rdp import ORDERS
from accounting.calibration import calibrate
from accounting.charges import approximate_rdp
from accounting.divergences.allocation import conditioned_rdp, hockey_stick, knots
from accounting.divergences.gaussian import rdp_epsilons
from accounting.errors import BudgetExhausted, CodecError, LedgerInvalid, OutOfRange
from accounting.filter import APPROXIMATIONS, Cost, Filter
from accounting.mechanisms import Gaussian, RandomAllocation
from accounting.mechanisms.random_allocation import AllocationLoss
from accounting.plan import Plan, PlannedQuery, Query
from accounting.records.events import Opened, Refunded
from accounting.records.filters import filter_from_json, filter_to_json
from accounting.records.ledger import LedgerState, advance, remaining_epsilon, spent_epsilon
from accounting.records.replay import replay
from tests.reference import losses as reference
from tests.support.chains import charge_of, ledger_of

BUDGET, SLACK = Privacy(3.0, 1e-6), 1e-7
RULE = Filter.open("rdp", BUDGET, SLACK)
MECHANISM = RandomAllocation(0.5, 100)
HALF_PASS = calibrate((Query("half_pass", 1, MECHANISM),), Privacy(0.5, 1e-6)).plan
FULL = calibrate((Query("gradient", 20, Gaussian()),), Privacy(0.5, 1e-6)).plan
Z = HALF_PASS.queries[0].noise_multiplier


def test_the_slack_is_taken_off_delta() -> None:
    """Orders and thresholds are those of delta - slack; the last threshold counts to sixteen."""
    without_slack = Filter.open("rdp", Privacy(3.0, 9e-7))
    assert RULE.orders == without_slack.orders
    assert RULE.thresholds[-1] == APPROXIMATIONS == 16
    assert RULE.curve(RULE.thresholds) == pytest.approx(without_slack.thresholds, rel=1e-12)
    assert all(t <= w for t, w in zip(RULE.thresholds, Filter.open("rdp", BUDGET).thresholds, strict=False))
    assert len(RULE.zero_cost) == len(RULE.orders) + 1
    assert SLACK / APPROXIMATIONS * APPROXIMATIONS == SLACK


@pytest.mark.parametrize("slack", [-1e-9, 6e-7, 1e-6, math.nan, math.inf, 1e-300])
def test_a_slack_is_at_most_half_of_delta(slack: float) -> None:
    if slack == 1e-300:
        assert Filter.open("rdp", BUDGET, slack).thresholds[-1] == 16
        return
    with pytest.raises(OutOfRange):
        Filter.open("rdp", BUDGET, slack)


def test_only_the_renyi_filter_has_one() -> None:
    for kind, budget in (("gdp", BUDGET), ("pure", Privacy(1.0))):
        with pytest.raises(OutOfRange):
            Filter.open(kind, budget, SLACK)  # type: ignore[arg-type]


def test_only_plans_with_secret_slots_are_charged_an_approximation() -> None:
    """A half pass uses one approximation and a far smaller curve. A job without secret slots uses none."""
    cost = RULE.cost(HALF_PASS)
    assert cost[-1] == 1
    assert all(10 * c < t for c, t in zip(cost, Filter.open("rdp", BUDGET).cost(HALF_PASS), strict=False))
    assert RULE.cost(FULL)[-1] == 0
    assert RULE.cost(FULL)[:-1] == tuple(Filter.open("rdp", Privacy(3.0, 9e-7)).cost(FULL))
    open_slots = Plan((PlannedQuery("half_pass", 1, RandomAllocation(1.0, 1), 30.0),))
    assert RULE.cost(open_slots)[-1] == 0, "a single slot is not secret"
    assert Filter.open("rdp", BUDGET, 1e-300).cost(HALF_PASS)[-1] == 0, "too little slack for any approximation"


@pytest.mark.parametrize("slack", [1e-9, 6e-9, 1e-7])
def test_the_curve_of_the_approximation(slack: float) -> None:
    """Compare the curve with its definition, the reference, and the conversion that it must not undercut."""
    epsilons, masses, infinity = knots(MECHANISM, Z)
    losses, upper = np.concatenate([epsilons, -epsilons]), masses.ravel()
    orders = np.array([2.0, 8.0, 22.0, 40.0])
    actual = conditioned_rdp(MECHANISM, Z, orders.tolist(), slack)
    assert actual is not None
    cuts = [x for x in losses if infinity + float(upper[losses > x].sum()) <= slack]
    mask = losses <= min(cuts)
    assert infinity + float(upper[~mask].sum()) <= slack
    total = float(upper[mask].sum())
    by_hand = [math.log(float(upper[mask] @ np.exp((a - 1) * losses[mask])) / total**a) / (a - 1) for a in orders]
    assert np.all(np.array(by_hand) <= actual)
    assert actual == pytest.approx(by_hand, rel=1e-5)
    theirs = reference.conditioned_rdp(guard.pessimistic_pmf(*AllocationLoss(MECHANISM, Z).masses(1e-4)), slack, orders)
    assert actual == pytest.approx(theirs, rel=0.08)  # the last knot is two points of a grid, and one may be cut off
    curve = conditioned_rdp(MECHANISM, Z, ORDERS, slack)
    assert curve is not None
    by_curve = float(rdp_epsilons(ORDERS, curve, 1e-6 - slack).min())
    assert PldAccountant().epsilon(HALF_PASS, 1e-6) <= by_curve < 2 * 0.5
    # P' against Q: its own profile obeys what its curve promises
    lower = upper * np.exp(-losses)
    for epsilon in (0.1, 0.3, 0.5):
        exact = float(np.sum(np.maximum(upper[mask] / total - math.exp(epsilon) * lower[mask], 0.0)))
        assert exact <= float(np.exp((np.array(ORDERS) - 1) * (curve - epsilon)).min())
        assert hockey_stick(MECHANISM, Z, epsilon) <= exact + slack + 1e-3 * exact


def test_several_uses_share_the_slack() -> None:
    three = Plan((replace(HALF_PASS.queries[0], count=3), *FULL.queries))
    actual, orders = approximate_rdp(three, RULE.orders, 3e-8), RULE.orders
    each = conditioned_rdp(MECHANISM, Z, orders, 1e-8)
    assert actual is not None
    assert each is not None
    assert actual == pytest.approx(3 * each + FULL.rdp(orders))
    assert approximate_rdp(FULL, orders, 1e-8) is None
    assert approximate_rdp(three, orders, 1e-16) is None


def _run(*costs: Cost, rule: Filter = RULE) -> LedgerState:
    charges = (charge_of(f"j{i}", cost, Privacy(0.5, 1e-6)) for i, cost in enumerate(costs))
    return ledger_of(Opened("d1", 1000, rule), *charges)[0]


def test_the_seventeenth_approximation_is_refused_and_other_jobs_are_not() -> None:
    """Both must hold: some order, and the count of approximations."""
    tiny = (*(1 for _ in RULE.orders), 1)
    state = _run(*[tiny] * 16)
    assert (state.spent[-1], state.charges, state.whole) == (16, 16, False)
    assert not RULE.admits(state.spent, tiny)
    with pytest.raises(BudgetExhausted):
        advance(state, charge_of("more", tiny, Privacy(0.5, 1e-6)), "t")
    charged, _ = advance(state, charge_of("gradients", RULE.cost(FULL), Privacy(0.5, 1e-6)), "t")
    assert charged.spent[-1] == 16
    refunded, _ = advance(charged, Refunded("j3", tiny, False), "t")
    assert advance(refunded, charge_of("again", tiny, Privacy(0.5, 1e-6)), "t")[0].spent[-1] == 16
    full = tuple(RULE.thresholds[:-1])
    assert not RULE.admits((*full, 0), tiny), "a free approximation does not stand for an order"


def test_a_charge_is_one_approximation_at_most() -> None:
    unit_costs = tuple(1 for _ in RULE.orders)
    for cost in ((*unit_costs, 2), (0, *unit_costs), (*unit_costs[:-1], 0, 1)):
        with pytest.raises(LedgerInvalid):
            _run(cost)
    with pytest.raises(OutOfRange):
        _run((*unit_costs, -1))
    with pytest.raises(OutOfRange):
        _run(unit_costs)
    state = _run((*unit_costs, 0), (*unit_costs, 0))
    with pytest.raises(LedgerInvalid):  # takes back what was not charged
        advance(state, Refunded("j0", (*unit_costs, 1), False), "t")


def test_books_gauges_and_json() -> None:
    events = [charge_of(f"j{i}", RULE.cost(p), Privacy(0.5, 1e-6)) for i, p in enumerate((HALF_PASS, FULL, HALF_PASS))]
    state, entry = advance(None, Opened("d1", 1000, RULE), "t")
    entries, gauges = [entry], []
    for event in events:
        state, entry = advance(state, event, "t")
        entries.append(entry)
        gauges.append((spent_epsilon(state), remaining_epsilon(state)))
    assert gauges == sorted(gauges, key=lambda pair: (pair[0], -pair[1]))
    assert 0 < gauges[0][0] < gauges[-1][0] < 3
    assert state.spent[-1] == 2
    assert replay(entries) == state
    assert LedgerState.from_json(state.to_json()) == state
    assert filter_from_json(filter_to_json(RULE)) == RULE
    for forged in ({"slack": 2e-7}, {"slack": 0.0}, {"thresholds": [*filter_to_json(RULE)["thresholds"][:-1], "17"]}):
        with pytest.raises(CodecError):
            filter_from_json(filter_to_json(RULE) | forged)
    for spent in ((*state.spent[:-1], 4), state.spent[:-1]):
        with pytest.raises(CodecError):
            LedgerState.from_json(state.to_json() | {"spent": [str(s) for s in spent]})


@pytest.mark.parametrize(
    ("interval", "masses", "infinity", "why"),
    [
        (1e-3, [math.nan, 1.0], 0.0, "finite"),
        (math.inf, [1.0], 0.0, "finite"),
        (1e-3, [1.0], math.nan, "finite"),
        (1e-3, [-0.1, 1.1], 0.0, "sum to one"),
        (1e-3, [0.5], 0.4, "sum to one"),
    ],
)
def test_masses_that_are_no_law_reach_no_accountant(
    interval: float, masses: list[float], infinity: float, why: str
) -> None:
    with pytest.raises(OutOfRange, match=why):
        guard.pessimistic_pmf(interval, 0, np.array(masses), infinity)
