"""Sessions on the pure ledger: their plan, the filter's charge, the refund, its replay and its offline verification."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.accountants import RdpAccountant
from accounting.divergences.gaussian import rdp_epsilons
from accounting.errors import (
    BudgetExhausted,
    CodecError,
    FilterMismatch,
    LedgerInvalid,
    OutOfRange,
    Unsupported,
)
from accounting.filter import Filter, Kind
from accounting.privacy import Relation, Unit
from accounting.records import offline, sessions
from accounting.records.allotments import Account, Allotment, Part, standing
from accounting.records.chain import Entry
from accounting.records.documents import canonical, parse
from accounting.records.events import (
    Emptied,
    External,
    Frozen,
    LedgerEvent,
    Opened,
    Promised,
    Refunded,
    SessionPolicy,
    SessionRule,
    Settled,
    Started,
)
from accounting.records.filters import cost_to_json, filter_from_json
from accounting.records.ledger import LedgerState, advance, share, spent_epsilon
from accounting.records.offline import shares, verify_ledger
from accounting.records.outside import GaussianDpEvent
from accounting.records.replay import Replay, replay
from accounting.records.sessions import (
    PlannedEvent,
    SessionPlan,
    plan_epsilon,
    plan_from_json,
    plan_to_json,
    recorded_cost,
    refund,
    renyi_at_best,
)
from tests.support.chains import charge_of
from tests.support.ledgers import relinked
from tests.support.sessions import (
    ALLOCATED,
    DRAWN,
    GAUSSIAN,
    LAPLACE,
    PURE,
    RELEASE,
    SAMPLED,
    TARGETED,
    N,
    many,
    plan,
    reserved,
    run,
    settled,
)

AT = "2026-01-02T03:04:05Z"
KINDS: tuple[Kind, ...] = ("rdp", "gdp", "gdp_rdp", "pure")
SAMPLED_20, SAMPLED_100 = many(SAMPLED, 20), many(SAMPLED, 100)
ALL: dict[str, Any] = {"type": "ComposedDpEvent", "events": [GAUSSIAN, LAPLACE, SAMPLED_100, DRAWN, ALLOCATED, PURE]}


def rule(kind: Kind) -> Filter:
    return Filter.open(kind, Privacy(3.0, 0.0 if kind == "pure" else 1e-6))


def test_a_plan_is_flat_and_reads_back_as_it_was_written() -> None:
    planned = plan(ALL, GAUSSIAN, SAMPLED_100)
    assert [event.count for event in planned.events] == [1, 1, 100, 1, 1, 1, 1, 100]
    written = plan_to_json(planned)
    assert written[2] == {"event": SAMPLED, "count": 100}
    assert plan_from_json(parse(canonical(written))) == planned
    with pytest.raises(OutOfRange):
        plan(*[ALL] * 11)
    with pytest.raises(OutOfRange):
        plan()


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        [{"event": GAUSSIAN}],
        [{"event": GAUSSIAN, "count": 0}],
        [{"event": GAUSSIAN, "count": True}],
        [{"event": SAMPLED_100, "count": 1}],
        [{"event": GAUSSIAN, "count": 1, "more": 1}],
        [{"event": {"noise_multiplier": 1.0, "type": "GaussianDpEvent", "more": 1}, "count": 1}],
        [{"event": {name: value for name, value in ALLOCATED.items() if name != "form"}, "count": 1}],
        [{"event": GAUSSIAN, "count": 1}] * 65,
    ],
)
def test_no_other_document_is_a_plan(document: Any) -> None:
    with pytest.raises(CodecError):
        plan_from_json(document)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refund_leaves_the_cost_of_the_recorded_part(kind: Kind) -> None:
    ours = rule(kind)
    planned = plan(LAPLACE, many(PURE, 7))
    if kind != "pure":
        planned = plan(ALL, many(ALLOCATED, 3))
    cost = ours.cost(planned)
    counts = [event.count for event in planned.events]
    for recorded in (counts, [*[0] * (len(counts) - 1), 2], [k // 2 for k in counts]):
        remaining = tuple(c - r for c, r in zip(cost, refund(ours, cost, planned, recorded, whole=False), strict=True))
        assert remaining == recorded_cost(ours, planned, recorded)
        assert all(c >= 1 for c in ours.curve(remaining))
    assert refund(ours, cost, planned, [0] * len(counts), whole=False) == cost
    assert refund(ours, cost, planned, counts, whole=False) == ours.zero_cost
    assert not ours.slack or cost[-1] == 0


def test_a_whole_budget_is_returned_before_the_first_answer_only() -> None:
    ours, planned = rule("rdp"), plan(SAMPLED_20)
    cost = ours.cost(planned)
    assert refund(ours, cost, planned, [1], whole=True) == ours.zero_cost
    assert refund(ours, cost, planned, [0], whole=True) == cost


def test_a_plan_whose_price_rose_has_no_refund_on_that_coordinate() -> None:
    """An update of the service between reservation and close may change the last unit of a price."""
    ours, planned = rule("rdp"), plan(SAMPLED_20)
    cost = ours.cost(planned)
    cheaper = tuple(c - 1 for c in cost)
    assert refund(ours, cheaper, planned, [20], whole=False) == ours.zero_cost


@pytest.mark.parametrize("recorded", [[], [21], [-1], [1, 1], [True], [1.0]])
def test_recorded_uses_must_be_a_part_of_the_plan(recorded: list[Any]) -> None:
    with pytest.raises(OutOfRange):
        recorded_cost(rule("rdp"), plan(SAMPLED_20), recorded)


def test_gaussian_answers_are_not_planned_under_a_pure_filter() -> None:
    with pytest.raises(FilterMismatch):
        rule("pure").cost(plan(GAUSSIAN))
    with pytest.raises(Unsupported):
        plan_epsilon(plan(GAUSSIAN), 0.0)


def test_the_epsilon_of_a_plan_alone_is_the_least_of_three_sums() -> None:
    assert plan_epsilon(plan(PURE), 0.0).accountant == "pure"
    assert plan_epsilon(plan(PURE, PURE), 1e-6).epsilon == pytest.approx(0.2)
    assert plan_epsilon(plan(GAUSSIAN), 1e-6).accountant == "exact_gaussian"
    assert (
        plan_epsilon(plan({"type": "SelfComposedDpEvent", "event": SAMPLED, "count": 5000}), 1e-6).accountant == "rdp"
    )
    assert plan_epsilon(plan(SAMPLED_20).recorded([0]), 1e-6).epsilon == 0.0
    whole, part = (plan_epsilon(plan(SAMPLED_20).recorded([k]), 1e-6).epsilon for k in (20, 10))
    assert 0 < part < whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_charged_like_a_job_and_settled_once(kind: Kind) -> None:
    ours = rule(kind)
    planned = plan(LAPLACE, PURE) if kind == "pure" else plan(GAUSSIAN, SAMPLED_20, PURE)
    recorded = [1] + [0] * (len(planned.events) - 1)
    state, entries = run(ours, reserved(ours, planned), settled(ours, planned, recorded))
    assert (state.spent, state.charges) == (recorded_cost(ours, planned, recorded), 1)
    assert replay(entries) == state == verify_ledger(entries)
    assert shares(entries, state) == {2: share(state, state.spent)}
    assert LedgerState.from_json(state.to_json()) == state
    first_part = Replay()
    first_part.follow(entries[:2])
    resumed = Replay.from_json(parse(canonical(first_part.to_json())))
    resumed.follow(entries[2:])
    assert resumed.state == state
    assert resumed.to_json()["sessions"] == {}
    with pytest.raises(LedgerInvalid):
        resumed.follow([advance(state, settled(ours, planned, recorded), AT)[1]])
    with pytest.raises(LedgerInvalid):
        replay([*entries, advance(state, reserved(ours, planned), AT)[1]])


def test_a_session_without_answers_leaves_no_charge() -> None:
    ours, planned = rule("rdp"), plan(SAMPLED_20)
    state, entries = run(ours, reserved(ours, planned), settled(ours, planned, [0]), Emptied("d1", True, "eve"))
    assert (state.spent, state.charges, spent_epsilon(state)) == (ours.zero_cost, 0, 0.0)
    assert verify_ledger(entries) == state
    assert shares(entries, state) == {}


OWN = Privacy(RELEASE.epsilon, RELEASE.delta)


def test_a_certified_plan_may_take_the_whole_budget_of_an_empty_ledger() -> None:
    ours = rule("rdp")
    cost = ours.cost(TARGETED)
    assert not ours.admits(ours.zero_cost, cost)
    with pytest.raises(BudgetExhausted):
        run(ours, reserved(ours, TARGETED))
    with pytest.raises(BudgetExhausted):
        run(ours, reserved(ours, plan(PURE), "s0"), reserved(ours, TARGETED, guarantee=OWN))
    with pytest.raises(BudgetExhausted):
        run(ours, reserved(ours, TARGETED, guarantee=replace(OWN, epsilon=3.1)))
    reservation = reserved(ours, TARGETED, guarantee=OWN)
    state, entries = run(ours, reservation)
    assert (state.whole, spent_epsilon(state)) == (True, 3.0)
    assert verify_ledger(entries) == state
    with pytest.raises(BudgetExhausted):
        advance(state, reserved(ours, plan(PURE), "s2"), AT)
    stopped, entries = run(ours, reservation, settled(ours, TARGETED, [1], whole=True))
    assert (stopped.whole, stopped.spent) == (True, cost)
    assert verify_ledger(entries) == stopped
    assert shares(entries, stopped) == {2: 1.0}
    free, _ = run(ours, reservation, settled(ours, TARGETED, [0], whole=True))
    assert (free.whole, free.charges) == (False, 0)
    stolen = replace(settled(ours, TARGETED, [1]), whole=True)
    for end in (stolen, replace(stolen, whole=False), settled(ours, TARGETED, [0])):
        with pytest.raises(LedgerInvalid):
            advance(state, end, AT)


def test_a_larger_budget_turns_a_whole_session_into_an_ordinary_one() -> None:
    ours = rule("rdp")
    larger = Promised(ours.raised(Privacy(6.0, 1e-6)), "eve")
    reservation = reserved(ours, TARGETED, guarantee=OWN)
    state, entries = run(ours, reservation, larger, settled(larger.filter, TARGETED, [1]))
    assert state.spent == recorded_cost(ours, TARGETED, [1])
    assert verify_ledger(entries) == state


def _outside(ours: Filter, exceeds: bool = True, label: str = "old") -> External:
    return External("d1", label, PURE, ours.cost(plan(PURE)), exceeds, "eve")


@pytest.mark.parametrize("kind", ["rdp", "gdp_rdp"])
def test_a_whole_budget_stays_charged_beside_an_outside_charge(kind: Kind) -> None:
    """A refund would allow other answers in some runs, and the certificate of the plan has used all of delta."""
    ours = rule(kind)
    reservation = reserved(ours, TARGETED, guarantee=OWN)
    state, _ = run(ours, reservation, _outside(ours))
    assert (state.whole, state.undivided, state.is_exceeded, state.frozen) == (False, True, True, True)
    assert LedgerState.from_json(state.to_json()) == state
    with pytest.raises(CodecError):
        LedgerState.from_json(state.to_json() | {"spent": cost_to_json(ours.zero_cost), "charges": 0})
    for between in ([], [_outside(ours, label="older")], [Frozen(False, "eve")]):
        for recorded in ([1], [49]):
            with pytest.raises(LedgerInvalid):
                run(ours, reservation, _outside(ours), *between, settled(ours, TARGETED, recorded))
    with pytest.raises(LedgerInvalid):
        advance(state, Refunded("j", reservation.cost, False), AT)
    settlement = Settled("s1", [1], ours.zero_cost, False, "closed")
    assert verify_ledger(run(ours, reservation, _outside(ours), settlement)[1]).spent == state.spent
    free, _ = run(ours, reservation, _outside(ours), settled(ours, TARGETED, [0]))
    assert (free.undivided, free.charges, free.spent) == (False, 1, ours.cost(plan(PURE)))


def test_a_larger_budget_divides_a_whole_session_if_it_holds_all_charges() -> None:
    ours = rule("rdp")
    little, large = (Promised(ours.raised(Privacy(epsilon, 1e-6)), "eve") for epsilon in (3.0001, 6.0))
    reservation = reserved(ours, TARGETED, guarantee=OWN)
    end = settled(ours, TARGETED, [1])
    with pytest.raises(LedgerInvalid):
        run(ours, reservation, _outside(ours), little, end)
    state, entries = run(ours, reservation, _outside(ours), little, large, end)
    assert state.spent == tuple(map(sum, zip(recorded_cost(ours, TARGETED, [1]), ours.cost(plan(PURE)), strict=True)))
    assert verify_ledger(entries) == state


def test_a_session_within_the_budget_is_refunded_beside_an_outside_charge_that_exceeds_it() -> None:
    ours = rule("rdp")
    beyond = replace(_outside(ours), cost=tuple(t + 1 for t in ours.thresholds))
    state, entries = run(ours, reserved(ours, plan(SAMPLED_20)), beyond, settled(ours, plan(SAMPLED_20), [1]))
    assert (state.charges, state.is_exceeded, state.undivided) == (2, True, False)
    assert replay(entries) == state


def _ruled(stated: SessionPolicy | None, *events: LedgerEvent) -> LedgerState:
    """Return the replayed state of a ledger that opened with this rule for sessions."""
    state, entry = advance(None, Opened("d1", N, rule("gdp"), session_rule=stated), AT)
    entries = [entry]
    for event in events:
        state, entry = advance(state, event, AT)
        entries.append(entry)
    replayed = Replay()
    for entry in entries:  # from a checkpoint after each entry
        replayed.follow([entry])
        document = replayed.to_json()
        assert json.loads(json.dumps(document)) == document, "a stored checkpoint equals the document of its replay"
        replayed = Replay.from_json(parse(canonical(document)))
    assert verify_ledger(entries) == replayed.state == state
    return state


def test_the_rule_for_sessions_is_kept_by_the_ledger() -> None:
    """Each session keeps the rule under which it was reserved."""
    ours, planned = rule("gdp"), plan(SAMPLED_20)
    reservation, end = reserved(ours, planned), settled(ours, planned, [1])
    end_without_refund = replace(end, refund=ours.zero_cost)
    no_refund, refund_again, refused = (
        SessionRule("d1", changed, "eve") for changed in ("no_refund", "refund", "refused")
    )
    sound: list[tuple[SessionPolicy | None, *tuple[LedgerEvent, ...]]] = [
        (None, reservation, end),
        ("refund", reservation, no_refund, end),
        ("refund", reservation, refused, end),
        ("no_refund", reservation, end_without_refund),
        ("no_refund", refund_again, reservation, end),
        ("refused", no_refund, reservation, end_without_refund),
        ("refused", Frozen(True, "eve"), refund_again, Frozen(False, "eve"), reservation, end),
    ]
    unsound: list[tuple[SessionPolicy | None, *tuple[LedgerEvent, ...]]] = [
        ("no_refund", reservation, end),
        ("no_refund", reservation, settled(ours, planned, [0])),
        ("no_refund", reservation, refund_again, end),
        ("refund", no_refund, reservation, end),
        (None, no_refund, reservation, end),
        ("refused", reservation),
        ("refund", refused, reservation),
        ("refund", SessionRule("d2", "refund", "eve")),
    ]
    for stated, *story in sound:
        _ruled(stated, *story)
    for stated, *story in unsound:
        with pytest.raises(LedgerInvalid):
            _ruled(stated, *story)


@pytest.mark.parametrize("body", [{"rule": "always"}, {"rule": None}, {"more": 1}])
def test_another_rule_for_sessions_is_no_entry(body: dict[str, Any]) -> None:
    _, entries = run(rule("gdp"), SessionRule("d1", "refused", "eve"))
    named = {"dataset": "d1", "rule": "refused", "by": "eve"}
    assert (entries[1].kind, entries[1].body) == ("session_rule", named | {"at": entries[1].body["at"]})
    entries[1] = replace(entries[1], body=entries[1].body | body)
    with pytest.raises(LedgerInvalid):
        verify_ledger(relinked(entries))


HONEST = (
    reserved(rule("gdp"), plan(SAMPLED_20, DRAWN)),
    settled(rule("gdp"), plan(SAMPLED_20, DRAWN), [3, 1]),
)


def _changed(at: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Entry]:
    _, entries = run(rule("gdp"), *HONEST)
    entries[at] = replace(entries[at], body=entries[at].body | change(entries[at].body))
    return relinked(entries)


def _plus(cost: list[str], units: int) -> list[str]:
    return [str(int(c) + units) for c in cost]


@pytest.mark.parametrize(
    ("entries", "pattern"),
    [
        (run(rule("gdp"), replace(HONEST[0], cost=(HONEST[0].cost[0] - 2**20,)))[1], "entry 2 reserves less"),
        (_changed(1, lambda body: {"plan": body["plan"][:1]}), "entry 3 "),
        (_changed(1, lambda _: {"plan": [{"event": SAMPLED_20, "count": 1}] * 2}), "entry 2 states no plan|entry 3 "),
        (_changed(1, lambda _: {"dataset": "d2"}), "entry 2 "),
        (_changed(1, lambda _: {"whole": True}), "entry 2 "),
        (_changed(1, lambda _: {"expires_at": "\x00"}), "entry 2 "),
        (_changed(2, lambda body: {"refund": _plus(body["refund"], 2**20)}), "entry 3 returns more"),
        (_changed(2, lambda _: {"recorded": [2, 1]}), "^$"),
        (_changed(2, lambda _: {"recorded": [4, 1]}), "entry 3 returns more"),
        (_changed(2, lambda _: {"recorded": [21, 1]}), "entry 3 "),
        (_changed(2, lambda _: {"recorded": [-1, 1]}), "entry 3 "),
        (_changed(2, lambda _: {"recorded": [3]}), "entry 3 "),
        (_changed(2, lambda _: {"recorded": [0, 0]}), "entry 3 "),
        (_changed(2, lambda _: {"reason": "expired"}), "entry 3 "),
        (_changed(2, lambda _: {"reason": "lost"}), "entry 3 "),
        (_changed(2, lambda _: {"whole": True}), "entry 3 "),
        (_changed(2, lambda _: {"session": "s2"}), "entry 3 "),
        (run(rule("gdp"), *HONEST, records=999)[1], "entry 2 plans"),
    ],
)
def test_an_export_that_returns_too_much_is_refused(entries: list[Entry], pattern: str) -> None:
    if pattern == "^$":
        verify_ledger(entries)  # more stays charged than the recorded part costs
        return
    with pytest.raises(LedgerInvalid, match=pattern):
        verify_ledger(entries)


def test_a_whole_budget_for_a_plan_that_costs_more_is_found() -> None:
    ours = rule("rdp")
    dear = SessionPlan((replace(TARGETED.events[0], count=60),))
    _, entries = run(ours, reserved(ours, dear, guarantee=OWN))
    with pytest.raises(LedgerInvalid, match=r"^entry 2 "):
        verify_ledger(entries)


def test_no_session_uses_the_slack() -> None:
    ours = rule("gdp_rdp")
    reservation = reserved(ours, plan(SAMPLED_20))
    with pytest.raises(LedgerInvalid):
        run(ours, replace(reservation, cost=(*reservation.cost[:-1], 1)))


def test_a_refund_of_more_than_is_live_is_refused() -> None:
    ours, planned = rule("gdp"), plan(SAMPLED_20)
    reservation = reserved(ours, planned)
    used = recorded_cost(ours, planned, [1])
    for stolen in (reservation.cost, (reservation.cost[0] + 1,), (reservation.cost[0] - used[0], 0)):
        with pytest.raises((LedgerInvalid, OutOfRange)):
            run(ours, reservation, Settled("s1", [1], stolen, False, "closed"))
    with pytest.raises(LedgerInvalid):
        run(ours, Settled("s1", [0], ours.zero_cost, False, "closed"))
    with pytest.raises(LedgerInvalid):
        replay(run(ours, charge_of("j", used, Privacy(0.1)), Settled("s1", [0], ours.zero_cost, False, "closed"))[1])


def test_an_allotment_holds_a_reservation_like_a_charge() -> None:
    ours, planned = rule("gdp"), plan(SAMPLED_20)
    state, _ = run(ours)
    half = Allotment(Part.of(ours, 0.5), is_reserved=True)
    own = standing(state, {"ada": Account(ours.zero_cost, 0)}, {"ada": half}, "ada")
    charged, entry = own.charge(reserved(ours, planned), AT)
    assert entry.body["share"] == share(charged.state, ours.cost(planned))
    assert charged.account == Account(ours.cost(planned), 1)
    dear = SessionPlan((PlannedEvent(GaussianDpEvent(2.0 / (0.6 * ours.thresholds[0] / 2**40) ** 0.5), 1),))
    with pytest.raises(BudgetExhausted):
        own.charge(reserved(ours, dear), AT)


def test_a_reserved_session_starts_no_job_and_joins_no_withdrawal() -> None:
    ours, planned = rule("gdp"), plan(SAMPLED_20)
    state, entries = run(ours, reserved(ours, planned))
    with pytest.raises(LedgerInvalid):
        advance(state, Emptied("d1", True, "eve"), AT)
    with pytest.raises(LedgerInvalid):
        replay([*entries, advance(state, Started("s1", 1), AT)[1]])
    emptied = run(ours, reserved(ours, planned), Emptied("d1", False, "eve"))
    with pytest.raises(LedgerInvalid):
        replay([*emptied[1], advance(emptied[0], reserved(ours, planned, "s2"), AT)[1]])
    assert plan(DRAWN).misfit(N, Unit()) is None


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_renyi_bound_of_a_plan_is_that_of_all_orders(relation: Relation) -> None:
    """The search of orders is a bisection, because epsilon falls and then rises with the order."""
    loud = SAMPLED | {"event": GAUSSIAN | {"noise_multiplier": 1.0}}
    rare = SAMPLED | {"sampling_probability": 1e-6}
    mixtures = [[many(SAMPLED, 5000)], [many(DRAWN, 100_000)], [many(loud, 50)], [rare], [many(ALLOCATED, 400)]]
    mixtures += [[many(loud, 5), LAPLACE, many(PURE, 3), ALLOCATED], [many(rare, 10**5), many(GAUSSIAN, 2)]]
    for events in mixtures:
        planned = plan(*events, relation=relation)
        for delta in (1e-12, 1e-6, 1e-2):
            epsilon = renyi_at_best(planned, delta).epsilon(planned, delta)
            assert epsilon == pytest.approx(RdpAccountant().epsilon(planned, delta), rel=1e-12)
    assert plan_epsilon(plan(many(loud, 50)), 1e-6).accountant == "rdp"


def test_few_orders_of_a_plan_are_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order of a plan of 64 sampled events may take 0.1 seconds, so all of them would take 10 seconds."""
    orders: list[float] = []

    def counted(pair: Sequence[float], rho: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        orders.extend(pair)
        return rdp_epsilons(pair, rho, delta)

    monkeypatch.setattr(sessions, "rdp_epsilons", counted)
    sampled = (SAMPLED | {"sampling_probability": 1e-3 + i * 1e-4} for i in range(64))
    assert plan_epsilon(plan(*sampled), 1e-6).accountant == "rdp"
    assert 0 < len(orders) <= 16


def test_the_filter_of_a_long_ledger_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a verification would otherwise grow with the square of the number of sessions."""
    reads: list[Any] = []

    def counted(document: Any) -> Filter:
        reads.append(document)
        return filter_from_json(document)

    monkeypatch.setattr(offline, "filter_from_json", counted)
    ours, planned = rule("gdp"), plan(many(GAUSSIAN, 2))
    ends = [(reserved(ours, planned, f"s{i}"), settled(ours, planned, [1], f"s{i}")) for i in range(3)]
    verify_ledger(run(ours, *(event for pair in ends for event in pair))[1])
    assert len(reads) == 1
