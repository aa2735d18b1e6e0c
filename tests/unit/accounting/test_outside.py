"""Events that run elsewhere cost at least what the same mechanism costs here, and only events of the list are read."""

import math
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants.tight import losses_of
from accounting.charges import approximate_rdp
from accounting.errors import BudgetExhausted, CodecError, LedgerInvalid, OutOfRange
from accounting.filter import UNIT, Filter, Kind
from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian, RandomAllocation, WithoutReplacement
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation, Unit
from accounting.records.events import External, Opened, Refunded
from accounting.records.ledger import LedgerState, advance, spent_epsilon
from accounting.records.outside import event_from_json, event_to_json
from accounting.records.replay import replay
from accounting.records.sessions import SessionPlan
from tests.support.chains import charge_of
from tests.support.sessions import ALLOCATED, DRAWN, GAUSSIAN, LAPLACE, PURE, SAMPLED, many

AT = "2026-01-02T03:04:05Z"
MANY = many(SAMPLED, 100)
ALL: dict[str, Any] = {"type": "ComposedDpEvent", "events": [GAUSSIAN, LAPLACE, MANY, DRAWN, ALLOCATED, PURE]}
KINDS: tuple[Kind, ...] = ("rdp", "gdp", "gdp_rdp", "pure")


def rule(kind: Kind) -> Filter:
    return Filter.open(kind, Privacy(3.0, 0.0 if kind == "pure" else 1e-6))


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize(
    ("event", "query"),
    [
        (GAUSSIAN, PlannedQuery("a", 1, Gaussian(), 20.0)),
        (LAPLACE, PlannedQuery("a", 1, Laplace(), 50.0)),
        (SAMPLED, PlannedQuery("a", 1, PoissonGaussian(0.01), 20.0)),
        (MANY, PlannedQuery("a", 100, PoissonGaussian(0.01), 20.0)),
        (DRAWN, PlannedQuery("a", 1, WithoutReplacement(10, 1000), 20.0)),
        (ALLOCATED, PlannedQuery("a", 1, RandomAllocation(1.0, 50, "ordered"), 20.0)),
    ],
)
def test_an_event_has_the_curve_of_the_same_query_here(
    event: dict[str, Any], query: PlannedQuery, relation: Relation
) -> None:
    plan, outside = Plan((query,), relation), SessionPlan.of([event_from_json(event)], relation)
    assert plan.event() == event
    assert np.array_equal(outside.rdp([2.0, 8.0]), plan.rdp([2.0, 8.0]))
    assert (outside.gdp(), outside.pure()) == (plan.gdp_bound(), plan.pure())
    assert losses_of(outside) == ()
    assert approximate_rdp(outside, [2.0], 1e-7) is None


@pytest.mark.parametrize("kind", KINDS)
def test_costs_add_up_and_never_draw_on_the_slack(kind: Kind) -> None:
    ours = rule(kind)
    parts = [PURE, LAPLACE] if kind == "pure" else ALL["events"]
    whole = ours.cost(SessionPlan.of([event_from_json({"type": "ComposedDpEvent", "events": parts})]))
    each = [ours.cost(SessionPlan.of([event_from_json(part)])) for part in parts]
    assert all(
        math.isclose(total, sum(costs), rel_tol=1e-6)
        for total, *costs in zip(ours.curve(whole), *map(ours.curve, each), strict=True)
    )
    many = ours.cost(SessionPlan.of([event_from_json({"type": "SelfComposedDpEvent", "event": LAPLACE, "count": 100})]))
    assert not ours.slack or whole[-1] == many[-1] == 0


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "NonPrivateDpEvent"},
        GAUSSIAN | {"noise_multiplier": 0.0},
        GAUSSIAN | {"noise_multiplier": math.nan},
        GAUSSIAN | {"noise_multiplier": math.inf},
        GAUSSIAN | {"noise_multiplier": "20"},
        GAUSSIAN | {"more": 1},
        SAMPLED | {"sampling_probability": 0.0},
        SAMPLED | {"sampling_probability": 1.1},
        SAMPLED | {"event": LAPLACE},
        SAMPLED | {"event": SAMPLED},
        DRAWN | {"sample_size": 1001},
        DRAWN | {"sample_size": 0},
        DRAWN | {"source_dataset_size": 10**11},
        DRAWN | {"event": SAMPLED},
        ALLOCATED | {"slots": 0},
        ALLOCATED | {"rate": 0.0},
        ALLOCATED | {"form": "equal"},
        ALLOCATED | {"event": LAPLACE},
        PURE | {"delta": 1e-9},
        PURE | {"epsilon": 0.0},
        PURE | {"epsilon": 101.0},
        MANY | {"count": 0},
        MANY | {"count": 10**10},
        MANY | {"count": True},
        MANY | {"event": MANY},
        ALL | {"events": []},
        ALL | {"events": [GAUSSIAN] * 65},
        ALL | {"events": [ALL]},
    ],
)
def test_nothing_else_is_an_event(document: dict[str, Any]) -> None:
    with pytest.raises(CodecError):
        event_from_json(document)


def test_an_event_is_written_as_it_was_stated() -> None:
    for event in (GAUSSIAN, LAPLACE, SAMPLED, DRAWN, ALLOCATED, PURE, MANY, ALL):
        assert event_to_json(event_from_json(event)) == event


@pytest.mark.parametrize(
    ("event", "n", "fits"),
    [
        (GAUSSIAN, 1, True),
        (PURE, 1, True),
        (SAMPLED, 100, True),
        (SAMPLED, 99, False),
        (DRAWN, 1000, True),
        (DRAWN, 999, False),
        (ALLOCATED, 50, True),
        (ALLOCATED, 49, False),
        (ALL, 999, False),
    ],
)
def test_a_sampled_event_must_fit_the_number_of_records(event: dict[str, Any], n: int, fits: bool) -> None:
    assert (SessionPlan.of([event_from_json(event)]).misfit(n, Unit()) is None) == fits


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_secret_slots_of_interleaved_answers_cost_what_known_slots_cost(relation: Relation) -> None:
    allocated, gaussian = (SessionPlan.of([event_from_json(event)], relation) for event in (ALLOCATED, GAUSSIAN))
    assert np.array_equal(allocated.rdp([2.0, 8.0]), gaussian.rdp([2.0, 8.0]))
    assert (allocated.gdp(), allocated.pure()) == (gaussian.gdp(), None)


def external(share: float, exceeds: bool, ours: Filter) -> External:
    return External("d1", "report", GAUSSIAN, tuple(int(share * t) for t in ours.thresholds), exceeds, "eve")


@pytest.mark.parametrize("kind", ["rdp", "gdp", "pure"])
def test_past_releases_from_outside_are_charged_even_beyond_the_budget(kind: Kind) -> None:
    ours = rule(kind)
    state, first = advance(None, Opened("d1", 100, ours), AT)
    cost = tuple(int(0.5 * t) for t in ours.thresholds)
    state, second = advance(state, charge_of("a", cost, Privacy(1.0, 0.0)), AT)
    with pytest.raises(BudgetExhausted):
        advance(state, external(0.6, False, ours), AT)
    with pytest.raises(LedgerInvalid):
        advance(state, external(0.4, True, ours), AT)
    assert not advance(state, external(0.4, False, ours), AT)[0].is_exceeded
    over, third = advance(state, external(0.6, True, ours), AT)
    assert over.is_exceeded
    assert over.frozen
    assert spent_epsilon(over) > 3.0
    assert LedgerState.from_json(over.to_json()) == over
    assert replay([first, second, third]) == over
    within, _ = advance(over, Refunded("a", cost, False), AT)
    assert (within.is_exceeded, within.frozen) == (False, True)


def test_a_charge_from_outside_takes_no_whole_budget_and_no_more_than_a_ledger_holds() -> None:
    ours = rule("rdp")
    state, _ = advance(None, Opened("d1", 100, ours), AT)
    with pytest.raises(BudgetExhausted):  # the exception of the empty ledger is for jobs
        advance(state, external(1.01, False, ours), AT)
    largest = External("d1", "report", GAUSSIAN, (2**61,) * len(ours.thresholds), True, "eve")
    state, _ = advance(state, largest, AT)
    with pytest.raises(OutOfRange):
        advance(state, largest, AT)
    assert state.spent[0] > 2 * UNIT


def test_beside_a_job_that_took_the_whole_budget_everything_exceeds_it() -> None:
    ours = rule("rdp")
    cost = tuple(2 * t for t in ours.thresholds)
    state, _ = advance(None, Opened("d1", 100, ours), AT)
    state, _ = advance(state, charge_of("a", cost, Privacy(3.0, 1e-6)), AT)
    assert state.whole
    assert not state.is_exceeded
    with pytest.raises(BudgetExhausted):
        advance(state, external(0.01, False, ours), AT)
    state, _ = advance(state, external(0.01, True, ours), AT)
    assert (state.whole, state.is_exceeded, state.charges) == (False, True, 2)
    state, _ = advance(state, Refunded("a", cost, False), AT)
    assert not state.is_exceeded
