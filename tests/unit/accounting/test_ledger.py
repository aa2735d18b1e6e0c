"""The ledger's state machine, its one exception for an empty ledger, and its hash chain."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.errors import BudgetExhausted, CodecError, LedgerFrozen, LedgerInvalid, OutOfRange
from accounting.filter import Cost, Filter, filter_with
from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.records.chain import GENESIS, Entry, Head
from accounting.records.entries import event_of, record
from accounting.records.events import (
    Cancelled,
    Charged,
    Emptied,
    Failed,
    Frozen,
    Joined,
    LedgerEvent,
    Opened,
    Promised,
    Refunded,
    Released,
    Renamed,
    RolledBack,
    Started,
)
from accounting.records.ledger import LedgerState, advance, remaining_epsilon, share, spent_epsilon
from accounting.records.replay import replay
from tests.support.chains import charge_of, ledger_of
from tests.support.ledgers import relinked

BUDGET = Privacy(1.0, 1e-6)
RULE = Filter.open("rdp", BUDGET)
AT = "2026-01-02T03:04:05Z"
MODEL = "ab" * 32


def opened(rule: Filter = RULE) -> tuple[LedgerState, Entry]:
    return advance(None, Opened("d1", 20_000, rule), AT)


def run(*events: LedgerEvent, rule: Filter = RULE) -> tuple[LedgerState, list[Entry]]:
    return ledger_of(Opened("d1", 20_000, rule), *events, at=AT)


def cost(share: float, rule: Filter = RULE) -> Cost:
    return tuple(int(share * t) for t in rule.thresholds)


def charge(job: str, share: float, guarantee: Privacy | None = None) -> Charged:
    return charge_of(job, cost(share), guarantee or Privacy(share, 1e-6))


def test_a_charge_states_the_share_that_it_uses() -> None:
    state, entries = run(charge("z", 0.5), charge("a", 0.25))
    assert entries[2].body["share"] == share(state, cost(0.25)) == pytest.approx(0.25, rel=1e-6)
    assert replay(entries) == state
    smaller = replace(entries[2], body=entries[2].body | {"share": 0.2})
    with pytest.raises(LedgerInvalid, match="entry 3"):
        replay(relinked([*entries[:2], smaller]))
    whole, entries = run(charge_of("a", cost(1.5), BUDGET))
    assert (entries[1].body["share"], share(whole, RULE.zero_cost)) == (1.0, 0.0)
    assert share(opened()[0], RULE.zero_cost) == 0.0


def test_a_new_ledger_is_empty() -> None:
    state, entry = opened()
    assert state == LedgerState(RULE, (0, 0), 0, False, 1, entry.hash)
    assert (entry.sequence, entry.kind, entry.previous_hash) == (1, "opened", GENESIS)
    assert entry.body["neighbors"] == "replace_one"
    assert entry.body["rows"] == 20_000
    assert (spent_epsilon(state), remaining_epsilon(state)) == (0.0, 1.0)


@pytest.mark.parametrize("step", [Started("a", 1), Failed("a", 1), Cancelled("a", 1), Released("a", 1, MODEL)])
def test_steps_of_a_job_leave_its_charge(step: LedgerEvent) -> None:
    state, _ = run(charge("a", 0.3))
    advanced, entry = advance(state, step, AT)
    assert replace(advanced, sequence=state.sequence, head=state.head) == state
    assert entry.body["job"] == "a"
    with pytest.raises(LedgerInvalid):
        advance(opened()[0], step, AT)


def test_an_empty_ledger_admits_one_job_for_the_whole_budget() -> None:
    """Asking for exactly the budget is admitted although its Renyi curve does not fit; then nothing else is."""
    plan = calibrate((Query("gradient", 50, Gaussian()),), BUDGET).plan
    whole = RULE.cost(plan)
    assert not RULE.admits(RULE.zero_cost, whole)
    state, entries = run(charge_of("a", whole, BUDGET))
    assert (state.whole, state.spent, state.charges) == (True, whole, 1)
    assert entries[-1].body["whole"] is True
    assert (spent_epsilon(state), remaining_epsilon(state)) == (1.0, 0.0)
    with pytest.raises(BudgetExhausted):
        advance(state, charge_of("b", (1, 1), Privacy(1e-3, 1e-12)), AT)
    state, _ = advance(state, Refunded("a", whole, True), AT)
    assert (state.whole, state.spent, state.charges) == (False, (0, 0), 0)
    assert not advance(state, charge("b", 0.5), AT)[0].whole


@pytest.mark.parametrize(
    "guarantee",
    [Privacy(1.0000001, 1e-6), Privacy(1.0, 1.1e-6), Privacy(2.0, 1e-12), Privacy(0.001, 1e-2)],
)
def test_the_whole_budget_is_not_more_than_the_budget(guarantee: Privacy) -> None:
    with pytest.raises(BudgetExhausted):
        run(charge_of("a", cost(1.5), guarantee))


def test_a_job_that_fits_takes_only_its_cost() -> None:
    state, entries = run(charge("a", 0.5, BUDGET))
    assert not state.whole
    assert entries[-1].body["whole"] is False


@pytest.mark.parametrize(
    "refund",
    [
        Refunded("a", cost(0.4), False),
        Refunded("a", cost(0.3), True),
        Refunded("a", (cost(0.3)[0], 0), False),
        Refunded("a", (0, 0), False),
    ],
    ids=["too much", "as whole", "in part", "nothing"],
)
def test_refunds_of_jobs_that_are_not_live_are_refused(refund: Refunded) -> None:
    state, _ = run(charge("a", 0.3))
    with pytest.raises(LedgerInvalid):
        advance(state, refund, AT)
    with pytest.raises(LedgerInvalid):
        advance(opened()[0], refund, AT)


def test_the_refund_of_a_whole_charge_must_state_it() -> None:
    state, _ = run(charge_of("a", cost(1.5), BUDGET))
    with pytest.raises(LedgerInvalid):
        advance(state, Refunded("a", cost(1.5), False), AT)


@pytest.mark.parametrize("bad", [(0, 5), (5,), (5, 5, 5), (-1, 5), (2**62, 5)])
def test_invalid_charges_are_refused(bad: Cost) -> None:
    with pytest.raises((LedgerInvalid, OutOfRange)):
        run(charge_of("a", bad, BUDGET))


def test_opening_comes_once_and_first() -> None:
    state, _ = opened()
    with pytest.raises(LedgerInvalid):
        advance(state, Opened("d1", 1, RULE), AT)
    with pytest.raises(LedgerInvalid):
        advance(None, charge("a", 0.1), AT)


def test_the_state_does_not_grow_with_the_jobs() -> None:
    state, _ = opened()
    for i in range(500):
        state, _ = advance(state, charge_of(f"job{i}", (10**6, 10**6), Privacy(0.01, 1e-6)), AT)
    assert len(json.dumps(state.to_json())) < 600
    assert state.spent == (500 * 10**6, 500 * 10**6)


def test_the_hash_is_computed_as_documented() -> None:
    _, entries = run(charge("a", 0.3))
    entry = entries[1].to_json()
    assert (
        entry.pop("hash")
        == hashlib.sha256(
            json.dumps(entry, sort_keys=True, separators=(",", ":")).replace("1e-06", "0.000001").encode()
        ).hexdigest()
    )


def test_entries_of_events_without_a_rule_of_their_own_state_their_fields() -> None:
    step: dict[str, Any] = {"job": "job_1", "attempt": 2}
    written: dict[str, tuple[LedgerEvent, dict[str, Any]]] = {
        "started": (Started("job_1", 2), step),
        "failed": (Failed("job_1", 2), step),
        "cancelled": (Cancelled("job_1", 2), step),
        "released": (Released("job_1", 2, "0" * 64), step | {"model_sha256": "0" * 64}),
        "renamed": (Renamed("ds_1", "new", "ada"), {"dataset": "ds_1", "name": "new", "by": "ada"}),
    }
    assert {kind: record(event) for kind, (event, _) in written.items()} == {
        kind: (kind, body) for kind, (_, body) in written.items()
    }


@pytest.mark.parametrize("name", ["analyst", "dataset", "method", "share", "whole", "epsilon"])
def test_a_charge_without_a_field_is_refused(name: str) -> None:
    _, (opening, entry) = run(charge("a", 0.3))
    body = {field: value for field, value in entry.body.items() if field != name}
    with pytest.raises(LedgerInvalid, match="entry 2"):
        replay(relinked([opening, replace(entry, body=body)]))


def story() -> list[Entry]:
    return run(
        charge("a", 0.3),
        charge("b", 0.2),
        Started("a", 1),
        Refunded("b", cost(0.2), False),
        Released("a", 1, MODEL),
        charge("c", 0.1),
        Started("c", 1),
        Failed("c", 1),
        charge("d", 0.1),
        Started("d", 1),
        Started("d", 2),
        Cancelled("d", 2),
    )[1]


def rehash(entries: list[Entry]) -> list[Entry]:
    """The chain as a forger would make it who can also rewrite every later hash."""
    head, out = GENESIS, []
    for entry in entries:
        entry = replace(entry, previous_hash=head)
        out.append(replace(entry, hash=entry.digest()))
        head = out[-1].hash
    return out


@pytest.mark.parametrize("at", range(13))
def test_no_entry_can_be_dropped_doubled_or_moved(at: int) -> None:
    """Drop, double or move an entry. tests/property/test_ledger_properties.py changes entries."""
    entries = story()
    changes = [[*entries[:at], entries[at], entries[at], *entries[at + 1 :]]]
    if at < 12:
        changes.append([*entries[:at], entries[at + 1], entries[at], *entries[at + 2 :]])
    if 0 < at < 12:
        changes.append([*entries[:at], *entries[at + 1 :]])
    for forged in changes:
        with pytest.raises(LedgerInvalid):
            replay(forged)


def test_numbers_without_a_gap_even_if_every_hash_is_rewritten() -> None:
    entries = story()
    forged = rehash([*entries[:4], *(replace(e, sequence=e.sequence + 1) for e in entries[4:])])
    with pytest.raises(LedgerInvalid):
        replay(forged)
    with pytest.raises(LedgerInvalid):
        replay(rehash([replace(e, sequence=e.sequence + 1) for e in entries]))


FORGERIES: dict[str, Any] = {
    "a charge past the budget": (1, lambda b: b | {"cost": [str(2 * t) for t in RULE.thresholds]}),
    "a smaller charge, refunded in full": (2, lambda b: b | {"cost": ["1", "1"]}),
    "an unknown key": (1, lambda b: b | {"seed": 1}),
    "an analyst of another kind": (1, lambda b: b | {"analyst": 7}),
    "an analyst left open": (1, lambda b: b | {"analyst": None}),
    "an analyst that nobody can see": (1, lambda b: b | {"analyst": "a\x00"}),
    "a missing key": (1, lambda b: {k: v for k, v in b.items() if k != "cost"}),
    "whole by fiat": (1, lambda b: b | {"whole": True}),
    "a larger budget": (0, lambda b: b | {"filter": b["filter"] | {"thresholds": ["1" + "0" * 15] * 2}}),
    "no filter": (0, lambda b: b | {"filter": None}),
    "a cost of numbers": (1, lambda b: b | {"cost": [1, 1]}),
    "a job that is no name": (1, lambda b: b | {"job": ["a"]}),
    "a guarantee that is none": (1, lambda b: b | {"epsilon": 0.0}),
}


@pytest.mark.parametrize(("at", "forge"), FORGERIES.values(), ids=FORGERIES.keys())
def test_replay_also_catches_a_forger_who_rewrites_every_hash(at: int, forge: Any) -> None:
    entries = story()
    forged = rehash([*entries[:at], replace(entries[at], body=forge(entries[at].body)), *entries[at + 1 :]])
    with pytest.raises(LedgerInvalid):
        replay(forged)


@pytest.mark.parametrize("entries", [[], story()[1:], story()[:1] * 2])
def test_replay_needs_the_whole_chain(entries: list[Entry]) -> None:
    with pytest.raises(LedgerInvalid):
        replay(entries)


@pytest.mark.parametrize(
    "steps",
    [
        (charge("a", 0.1), charge("a", 0.1)),
        (charge("a", 0.1), charge("b", 0.2), Refunded("a", cost(0.2), False)),
        (charge("a", 0.1), Started("a", 1), Refunded("a", cost(0.1), False)),
        (charge("a", 0.1), charge("b", 0.1), Refunded("a", cost(0.1), False), Started("a", 1)),
        (charge("a", 0.1), Started("b", 1)),
        (charge("a", 0.1), Released("a", 1, MODEL)),
        (charge("a", 0.1), Started("a", 1), Released("a", 1, MODEL), Released("a", 1, MODEL)),
        (charge("a", 0.1), Started("a", 1), Failed("a", 1), Released("a", 1, MODEL)),
        (charge("a", 0.1), Started("a", 1), Cancelled("a", 1), Started("a", 2)),
    ],
    ids=[
        "charged twice",
        "refund of another",
        "refund after start",
        "start after refund",
        "start uncharged",
        "release unstarted",
        "released twice",
        "released after failure",
        "started after the end",
    ],
)
def test_replay_follows_every_job(steps: tuple[LedgerEvent, ...]) -> None:
    _, entries = run(*steps)
    replay(entries[:-1])
    with pytest.raises(LedgerInvalid):
        replay(entries)


LOST = RolledBack("disk lost", Head(9, "ab" * 32))


def test_a_ledger_that_lost_entries_is_frozen_and_counts_as_charged() -> None:
    state, entries = run(LOST)
    assert (state.frozen, state.rolled_back, state.charges, state.is_charged) == (True, True, 0, True)
    assert entries[-1].body == {"reason": "disk lost", "lacks": f"9:{'ab' * 32}", "at": AT}
    assert replay(entries) == LedgerState.from_json(state.to_json()) == state
    with pytest.raises(LedgerFrozen):
        advance(state, charge("a", 0.1), AT)
    lifted, _ = advance(state, Frozen(False, "ada"), AT)
    assert not lifted.frozen
    assert advance(lifted, charge("a", 0.1), AT)[0].charges == 1
    with pytest.raises(LedgerInvalid, match="without charges"):
        advance(lifted, Emptied("d1", True, "ada"), AT)
    with pytest.raises(LedgerInvalid, match="only grow"):
        advance(lifted, Promised(Filter.open("rdp", Privacy(0.5, 1e-6)), "ada"), AT)
    with pytest.raises(BudgetExhausted):
        advance(lifted, charge_of("a", cost(1.5), BUDGET), AT)


@pytest.mark.parametrize(
    "change",
    [
        {"spent": ["0", "0"]},
        {"spent": ["1"]},
        {"spent": [1, 1]},
        {"charges": 0},
        {"charges": -1},
        {"charges": True},
        {"whole": 1},
        {"sequence": 0},
        {"filter": {}},
        {"more": 1},
    ],
)
def test_a_state_that_no_ledger_reaches_is_refused(change: dict[str, Any]) -> None:
    state, _ = run(charge("a", 0.3))
    with pytest.raises(CodecError):
        LedgerState.from_json(state.to_json() | change)


def test_only_one_charge_can_be_whole() -> None:
    state, _ = run(charge("a", 0.3), charge("b", 0.3))
    with pytest.raises(CodecError):
        LedgerState.from_json(state.to_json() | {"whole": True})


def test_entries_of_no_ledger_are_refused() -> None:
    entry = story()[0]
    with pytest.raises(CodecError, match="body"):
        Entry.from_json(entry.to_json() | {"body": [1]})
    with pytest.raises(LedgerInvalid, match="kind"):
        event_of(replace(entry, kind="forgiven"))


@pytest.mark.parametrize(
    "rule",
    [
        RULE,
        Filter.open("rdp", Privacy(2.0, 1e-6)),
        Filter.open("gdp", Privacy(2.0, 1e-6)),
        replace(RULE, privacy=Privacy(2.0, 1e-6), thresholds=tuple(t - 1 for t in RULE.thresholds)),
        filter_with(RULE.kind, Privacy(1.0, 1e-7), RULE.orders, RULE.weights),
    ],
    ids=["the same", "other orders", "another currency", "lower thresholds", "a smaller delta"],
)
def test_a_charged_ledger_takes_no_other_filter_than_a_larger_one(rule: Filter) -> None:
    with pytest.raises(LedgerInvalid):
        run(charge("a", 0.3), Promised(rule, "eve"))
    empty, _ = run(charge("a", 0.3), Refunded("a", cost(0.3), False), Promised(rule, "eve"))
    assert (empty.filter, empty.spent) == (rule, rule.zero_cost)


@pytest.mark.parametrize("smaller", [Privacy(1.0, 1e-6), Privacy(0.9, 1e-5), Privacy(0.1, 1e-6), Privacy(2.0, 1e-7)])
def test_a_raise_to_a_smaller_budget_is_refused(smaller: Privacy) -> None:
    with pytest.raises(OutOfRange, match="only grow"):
        RULE.raised(smaller)


def test_a_frozen_ledger_neither_charges_nor_starts() -> None:
    state, entries = run(charge("a", 0.3), charge("b", 0.3), Started("a", 1), Frozen(True, "eve"))
    for event in (charge("c", 0.1), Started("b", 1), Started("a", 2)):
        with pytest.raises(LedgerFrozen):
            advance(state, event, AT)
    with pytest.raises(LedgerInvalid):
        advance(state, Frozen(True, "eve"), AT)
    assert LedgerState.from_json(state.to_json()) == state
    assert replay(entries) == state
    for later in (Released("a", 1, MODEL), Refunded("b", cost(0.3), False), Frozen(False, "eve"), charge("c", 0.1)):
        state, _ = advance(state, later, AT)
    assert not state.frozen


@pytest.mark.parametrize(
    ("story", "holds"),
    [
        ([Joined("d2", 5, "eve"), Emptied("d2", True, "eve")], True),
        ([Joined("d1", 5, "eve")], False),
        ([Emptied("d2", True, "eve")], False),
        ([Emptied("d1", True, "eve"), Emptied("d1", True, "eve")], False),
        ([Emptied("d1", True, "eve"), Renamed("d1", "people", "eve")], False),
        ([Renamed("d1", "people", "eve"), Emptied("d1", False, "eve")], True),
        ([Joined("d2", 5, "eve"), charge_of("a", cost(0.1), Privacy(0.1, 1e-6), "ada", "d2", "dp_gd")], True),
        ([charge_of("a", cost(0.1), Privacy(0.1, 1e-6), "ada", "d2", "dp_gd")], False),
        ([Emptied("d1", True, "eve"), charge_of("a", cost(0.1), Privacy(0.1, 1e-6), "ada", "d1", "dp_gd")], False),
    ],
)
def test_a_dataset_is_there_once_and_gone_once(story: list[LedgerEvent], holds: bool) -> None:
    state, entries = run(*story)
    if holds:
        assert replay(entries) == state
    else:
        with pytest.raises(LedgerInvalid):
            replay(entries)


def test_a_dataset_with_charges_is_deleted_but_not_withdrawn() -> None:
    with pytest.raises(LedgerInvalid):
        run(charge("a", 0.3), Emptied("d1", True, "eve"))
    assert run(charge("a", 0.3), Emptied("d1", False, "eve"))[1][-1].kind == "deleted"
