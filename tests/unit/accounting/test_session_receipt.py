"""Receipts of sessions: their fields, and the refusal of forged, cheaper or misplaced receipts."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from accounting import Privacy, Unit
from accounting.errors import ReceiptInvalid
from accounting.records import receipt
from accounting.records.chain import Entry
from accounting.records.events import Promised
from accounting.records.heads import read_head
from accounting.records.ledger import share
from accounting.records.offline import verify_receipt
from accounting.records.receipt import verify
from accounting.records.recomputation import Recomputation
from accounting.records.session_receipt import SessionEnd, build
from accounting.records.sessions import plan_epsilon
from accounting.records.statement import ASSERTED, check
from tests.support.ledgers import relinked
from tests.support.receipts import KEYS
from tests.support.sessions import (
    ALLOCATED,
    CERTIFICATE,
    DRAWN,
    GAUSSIAN,
    LAPLACE,
    PURE,
    PURE_RULE,
    RELEASE,
    RULE,
    SAMPLED,
    TARGETED,
    N,
    ended_session,
    many,
    plan,
    reserved,
    run,
    settled,
    signed,
)

PLAN = plan(many(GAUSSIAN, 10), LAPLACE, many(ALLOCATED, 2), many(DRAWN, 10))
STATED, LEDGER = ended_session(RULE, PLAN, [4, 0, 1, 10])


def test_a_receipt_states_plan_record_and_charge() -> None:
    assert [uses["recorded"] for uses in STATED["plan"]] == [4, 0, 1, 10]
    assert (STATED["kind"], STATED["state"], STATED["charged"]) == ("session", "closed", "recorded")
    assert STATED["asserted"] == ASSERTED
    assert STATED["epsilon"] == plan_epsilon(PLAN, 1e-6).epsilon > STATED["charged_epsilon"] > 0
    assert STATED["rows"] == N
    result = verify_receipt(signed(STATED), KEYS, LEDGER)
    assert (result.holds, result.signature, result.epsilon, result.chain) == (True, True, True, True)
    assert result.recomputed_epsilon == STATED["epsilon"]
    assert read_head(json.dumps(signed(STATED)).encode(), KEYS) == LEDGER[-1].head


def test_an_expired_session_states_the_charge_of_its_plan() -> None:
    stated, ledger = ended_session(RULE, PLAN, [4, 0, 1, 10], expired=True)
    assert (stated["state"], stated["charged"], stated["charged_epsilon"]) == ("expired", "plan", stated["epsilon"])
    assert verify_receipt(signed(stated), KEYS, ledger).holds
    with pytest.raises(ReceiptInvalid):
        check(stated | {"charged": "recorded"})


def test_a_session_without_answers_states_no_charge() -> None:
    stated, ledger = ended_session(RULE, PLAN, [0, 0, 0, 0])
    assert (stated["charged"], stated["charged_epsilon"], stated["share"]) == ("recorded", 0.0, 0.0)
    assert verify_receipt(signed(stated), KEYS, ledger).holds


def test_a_pure_plan_is_stated_at_delta_0() -> None:
    stated, ledger = ended_session(PURE_RULE, plan(many(PURE, 5), LAPLACE, relation="zero_out"), [2, 1])
    assert (stated["delta"], stated["accountant"], stated["neighbors"]) == (0.0, "pure", "zero_out")
    assert stated["charged_epsilon"] == pytest.approx(2 * 0.1 + 1 / 50)
    assert verify_receipt(signed(stated), KEYS, ledger).holds


def test_a_calibrated_plan_states_its_certificate() -> None:
    """The accountants with nothing in between confirm it, as they do for the receipt of a release."""
    own = Privacy(RELEASE.epsilon, RELEASE.delta)
    _, entries = run(RULE, reserved(RULE, TARGETED, guarantee=own), settled(RULE, TARGETED, [7], whole=True))
    facts: dict[str, Any] = {"id": "r", "dataset": "d1", "dataset_name": "d", "records": N, "unit": Unit()}
    facts |= {"analyst": "ada", "session": "s1", "plan": TARGETED, "certificate": CERTIFICATE, "entry": entries[-1]}
    stated = build(SessionEnd(**facts))
    assert (stated["accountant"], stated["charged"]) == ("pld", "plan")
    assert plan_epsilon(TARGETED, 1e-6).epsilon > stated["epsilon"]
    assert verify_receipt(signed(stated), KEYS, entries).holds
    assert not verify(signed(stated | {"epsilon": stated["epsilon"] * 0.99}), KEYS).holds


@pytest.mark.parametrize("field", sorted(STATED))
def test_no_field_can_be_changed_or_left_out(field: str) -> None:
    forged = copy.deepcopy(signed(STATED))
    values: tuple[Any, ...] = ("0", "cd" * 32, 7, 0.25, None, {}, [], True)
    for value in values:
        forged["receipt"][field] = value
        try:
            assert not verify(forged, KEYS).holds
        except ReceiptInvalid:
            continue
    del forged["receipt"][field]
    try:
        assert not verify(forged, KEYS).holds
    except ReceiptInvalid:
        assert field not in ("title", "share", "unit")


PLANNED = STATED["plan"]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "job"},
        {"job": "j1"},
        {"model_sha256": "ab" * 32},
        {"plan": []},
        {"plan": PLANNED * 17},
        {"plan": [PLANNED[0] | {"recorded": 11}]},
        {"plan": [PLANNED[0] | {"recorded": -1}]},
        {"plan": [PLANNED[0] | {"recorded": True}]},
        {"plan": [PLANNED[0] | {"more": 1}]},
        {"plan": [PLANNED[0] | {"event": []}]},
        {"asserted": "observed by this service"},
        {"state": "open"},
        {"charged": "nothing"},
        {"charged_epsilon": -1.0},
        {"persons": 5},
    ],
)
def test_a_receipt_with_a_field_that_no_session_has_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(ReceiptInvalid):
        check(STATED | change)


@pytest.mark.parametrize(
    "change",
    [
        {"plan": [PLANNED[0] | {"event": {"type": "NonPrivateDpEvent"}}]},
        {"plan": [PLANNED[0] | {"event": SAMPLED | {"event": LAPLACE}}]},
        {"plan": [PLANNED[0] | {"count": 10**10}]},
        {"plan": [{"event": DRAWN, "count": 1, "recorded": 1}], "rows": 999},
        {"delta": 0.0},
    ],
)
def test_a_plan_that_no_accountant_covers_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(ReceiptInvalid):
        verify(signed(check(STATED | change)), KEYS)


@pytest.mark.parametrize("field", ["epsilon", "charged_epsilon"])
def test_a_session_that_costs_more_than_it_states_does_not_hold(field: str) -> None:
    honest, _ = ended_session(RULE, plan(many(GAUSSIAN, 10)), [4])
    for factor, holds in ((1.0, True), (1 - 5e-10, True), (1 - 1e-6, False)):
        stated = honest | {field: honest[field] * factor}
        assert verify(signed(stated), KEYS).holds is holds
        assert receipt.recompute(stated).epsilon == pytest.approx(honest["epsilon"])
    of_a_release = Recomputation(0.0, "pure")
    assert not verify(signed(STATED), KEYS, recomputed=of_a_release).holds


def _ledger(at: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Entry]:
    entries = list(LEDGER)
    entries[at] = replace(entries[at], body=entries[at].body | change(entries[at].body))
    return relinked(entries)


def _stated(ledger: list[Entry], **change: Any) -> dict[str, Any]:
    end = ledger[-1]
    return STATED | {"previous_hash": end.previous_hash, "hash": end.hash} | change


CONTRADICTED: dict[str, tuple[list[Entry], dict[str, Any], str]] = {
    "another analyst": (
        _ledger(1, lambda _: {"analyst": "bob"}),
        {},
        "the ledger reserved for another analyst or dataset",
    ),
    "another plan": (LEDGER, {"plan": [PLANNED[0] | {"count": 9}, *PLANNED[1:]]}, "the ledger reserved another plan"),
    "another part": (
        LEDGER,
        {"charged": "plan", "charged_epsilon": STATED["epsilon"]},
        "the ledger charged another part of the plan",
    ),
    "another share": (LEDGER, {"share": STATED["share"] / 2}, "the ledger charged another share of the budget"),
    "another n": (LEDGER, {"rows": N + 1}, "the ledger has no such dataset, or other records or neighbors"),
    "another end": (
        LEDGER,
        {"plan": [PLANNED[0] | {"recorded": 3}, *PLANNED[1:]]},
        "the ledger's entry is not this session",
    ),
    "expired": (
        LEDGER,
        {"state": "expired", "charged": "plan", "charged_epsilon": STATED["epsilon"]},
        "the ledger's entry is not this session",
    ),
    "another session": (LEDGER, {"session": "s2"}, "the ledger's entry is not this session"),
    "another time": (LEDGER, {"issued_at": "1999-01-01T00:00:00Z"}, "the ledger's entry is not this session"),
    "cut": (LEDGER[:2], {}, "the ledger ends before this session"),
}


@pytest.mark.parametrize(("ledger", "change", "why"), CONTRADICTED.values(), ids=CONTRADICTED)
def test_a_receipt_that_its_ledger_contradicts_does_not_hold(
    ledger: list[Entry], change: dict[str, Any], why: str
) -> None:
    stated = STATED | change if why.endswith("before this session") else _stated(ledger, **change)
    result = verify_receipt(signed(stated), KEYS, ledger)
    assert (result.holds, result.chain, result.reason) == (False, False, why)


@pytest.mark.parametrize("expired", [False, True])
def test_a_share_is_read_after_the_reservation_or_after_the_refund(expired: bool) -> None:
    """A larger budget in between changes the share of the same charge."""
    raised = Promised(RULE.raised(Privacy(6.0, 1e-6)), "eve")
    end = settled(raised.filter, PLAN, [4, 0, 1, 10])
    if expired:
        end = replace(end, refund=RULE.zero_cost, reason="expired")
    state, entries = run(RULE, reserved(RULE, PLAN), raised, end)
    reserved_share = entries[1].body["share"]
    right = reserved_share if expired else share(state, state.spent)
    facts: dict[str, Any] = {"id": "r", "dataset": "d1", "dataset_name": "d", "records": N, "unit": Unit()}
    facts |= {"analyst": "ada", "session": "s1", "plan": PLAN, "certificate": plan_epsilon(PLAN, 1e-6)}
    for stated_share, holds in ((right, True), (None, True), (right * (1 + 1e-9), False)):
        built = build(SessionEnd(**facts, entry=entries[-1], share=stated_share))
        assert verify_receipt(signed(built), KEYS, entries).holds is holds
    assert share(state, state.spent) != reserved_share


def test_a_receipt_is_made_of_the_end_of_its_session_alone() -> None:
    facts: dict[str, Any] = {"id": "r", "dataset": "d1", "dataset_name": "d", "records": N, "unit": Unit()}
    facts |= {"analyst": "ada", "plan": PLAN, "certificate": plan_epsilon(PLAN, 1e-6)}
    for change in (
        {"session": "s2", "entry": LEDGER[-1]},
        {"session": "s1", "entry": LEDGER[1]},
        {"session": "s1", "entry": LEDGER[-1], "plan": plan(GAUSSIAN)},
    ):
        with pytest.raises(ReceiptInvalid):
            build(SessionEnd(**facts | change))
