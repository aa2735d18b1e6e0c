"""Offline verification of exported ledgers, which finds cut, rewritten, overspent and uncharged entries."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from accounting import Privacy, Unit
from accounting.calibration import calibrate
from accounting.errors import CodecError, LedgerInvalid, ReceiptInvalid
from accounting.filter import Cost, Filter
from accounting.records import signing
from accounting.records.chain import Entry, Head, from_lines, to_lines
from accounting.records.events import (
    External,
    Joined,
    Opened,
    Promised,
    Refunded,
)
from accounting.records.heads import read_head, sign_head
from accounting.records.offline import shares, verify_ledger, verify_receipt
from accounting.records.signing import sign_json
from tests.support.chains import charge_of, ledger_of
from tests.support.ledgers import (
    BROKEN,
    LEDGER,
    NOT_HELD,
    PAID,
    RELEASE,
    RULE,
    chain,
    job,
    overspent,
    relinked,
    rewritten,
    signed,
    unrecorded_receipt,
)
from tests.support.receipts import KEY, KEYS, MODEL, SVRG, make
from tests.support.tampering import valid_ledgers


def test_a_ledger_survives_its_file_and_contains_its_heads() -> None:
    read = from_lines(to_lines(LEDGER))
    assert read == LEDGER
    state = verify_ledger(read, [entry.head for entry in LEDGER])
    assert (state.sequence, state.charges, state.spent) == (7, 2, (2 * PAID[0],))


@pytest.mark.parametrize(("build", "why"), BROKEN.values(), ids=BROKEN)
def test_a_changed_ledger_is_refused(build: Callable[[], list[Entry]], why: str) -> None:
    heads = [LEDGER[-1].head] if "ends" in why else [RELEASE.head] if "contain" in why else []
    with pytest.raises(LedgerInvalid, match=why):
        verify_ledger(build(), heads)


def test_a_rewritten_ledger_holds_by_itself_so_a_head_is_needed() -> None:
    assert verify_ledger(rewritten()).spent == (PAID[0] + 1,)


@pytest.mark.parametrize(
    "raw", [b"{}", b"[]", b"no json", b'{"sequence":1,"sequence":1}', to_lines(LEDGER)[:-30], b"\xff", b"1"]
)
def test_an_invalid_export_is_refused(raw: bytes) -> None:
    with pytest.raises(CodecError):
        from_lines(raw)


@pytest.mark.parametrize("text", ["", "4", f"0:{'a' * 64}", f"4:{'A' * 64}", f"-4:{'a' * 64}", f"4:{'a' * 63}", "4:"])
def test_a_head_is_a_number_and_a_hash(text: str) -> None:
    with pytest.raises(CodecError, match="SEQUENCE:HASH"):
        Head.parse(text)
    assert Head.parse(str(RELEASE.head)) == RELEASE.head


def test_a_head_is_taken_from_a_signed_head_or_a_receipt_and_from_nothing_else() -> None:
    head = sign_head("d1", RELEASE, KEY)
    for document in (head, signed()):
        assert read_head(json.dumps(document).encode(), KEYS) == RELEASE.head
    stranger = signing.jwks(signing.generate_key())
    stated = {name: value for name, value in head.items() if name != "signature"} | {"sequence": str(RELEASE.sequence)}
    wrong: list[tuple[Any, Any]] = [
        (head, stranger),
        (signed(), stranger),
        (head | {"sequence": 3}, KEYS),
        (head | {"signature": signed()["signature"]}, KEYS),  # a receipt's signature is no head's
        ({"receipt": make(entry=RELEASE), "signature": head["signature"]}, KEYS),
        (head | {"more": 1}, KEYS),
        (stated | {"signature": signing.sign_json(stated, KEY, signing.HEAD)}, KEYS),
        ([], KEYS),
    ]
    for document, trusted in wrong:
        with pytest.raises(ReceiptInvalid):
            read_head(json.dumps(document).encode(), trusted)


def test_a_receipt_holds_in_its_ledger() -> None:
    result = verify_receipt(signed(), KEYS, LEDGER, [LEDGER[-1].head])
    assert (result.holds, result.chain, result.reason) == (True, True, None)


@pytest.mark.parametrize(("ledger", "why"), NOT_HELD.values(), ids=NOT_HELD)
def test_a_receipt_that_is_not_in_the_ledger_does_not_hold(ledger: list[Entry], why: str) -> None:
    result = verify_receipt(unrecorded_receipt(ledger, why), KEYS, ledger)
    assert (result.holds, result.signature, result.chain, result.reason) == (False, True, False, why)


def test_share_time_and_profile_of_a_receipt_are_the_ledgers() -> None:
    """A share is compared if the receipt states one. The profile is released before the charge of the job."""
    ledger = chain(*job("p1", method="profile"), *job("j1"))
    part_share = ledger[4].body["share"]
    entry, profile = ledger[-1], {"job": "p1", "sha256": MODEL}
    for facts in ({}, {"share": part_share}, {"profile": profile}, {"share": part_share, "profile": profile}):
        assert verify_receipt(signed(entry=entry, **facts), KEYS, ledger).holds
    for wrong in (
        {"share": part_share / 2},
        {"profile": profile | {"job": "j1"}},
        {"issued_at": "1999-01-01T00:00:00Z"},
    ):
        result = verify_receipt(signed(entry=entry, **wrong), KEYS, ledger)
        assert (result.holds, result.signature, result.chain) == (False, True, False)


def test_a_receipt_claims_the_unit_that_the_ledger_opened_with() -> None:
    """A receipt claims neither persons if rows were registered, nor rows if persons were registered."""
    for registered in (Unit(), Unit("person", 8)):
        _, entries = ledger_of(Opened("d1", 500, RULE, unit=registered), *job("j1"))
        for claimed, records in itertools.product((Unit(), Unit("person", 8), Unit("person", 9)), (500, 5)):
            document = signed(entry=entries[3], records=records, unit=claimed)
            holds = (claimed, records) == (registered, 500)
            assert verify_receipt(document, KEYS, entries).holds == holds
            if not claimed.is_person:
                unsaid = make(entry=entries[3], records=records)
                del unsaid["unit"]
                document = {"receipt": unsaid, "signature": sign_json(unsaid, KEY)}
                assert verify_receipt(document, KEYS, entries).holds == holds


def test_a_family_has_the_unit_that_its_ledger_opened_with() -> None:
    units = Unit(), Unit("person", 8), Unit("person", 9)
    for opened, joined in itertools.product(units, units):
        _, entries = ledger_of(Opened("d1", 500, RULE, "kin", opened), Joined("d2", 500, "ada", joined))
        if opened == joined:
            assert verify_ledger(entries).sequence == 2
        else:
            with pytest.raises(LedgerInvalid, match="entry 2"):
                verify_ledger(entries)


@pytest.mark.parametrize("entries", valid_ledgers().values(), ids=valid_ledgers())
def test_an_entry_with_a_value_of_another_type_is_refused(entries: list[Entry]) -> None:
    """No field of an entry of any kind may be null, true, empty or negative, unless it is that already."""
    verify_ledger(entries)
    values: tuple[Any, ...] = (None, True, -1, "\n", [], {})
    for i, entry in enumerate(entries):
        for name, value in entry.body.items():
            for wrong in values:
                if wrong is not value:
                    changed = replace(entry, body=entry.body | {name: wrong})
                    with pytest.raises(LedgerInvalid):
                        verify_ledger(relinked([*entries[:i], changed, *entries[i + 1 :]]))


def test_a_ledger_that_does_not_hold_is_no_witness() -> None:
    with pytest.raises(LedgerInvalid):
        verify_receipt(signed(), KEYS, overspent())
    with pytest.raises(LedgerInvalid, match="the head"):
        verify_receipt(signed(), KEYS, LEDGER, [Head(4, "0" * 64)])
    with pytest.raises(ReceiptInvalid):
        verify_receipt([], KEYS, LEDGER)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rdp", "gdp_rdp"])
def test_a_sampled_plan_is_recomputed_in_the_ledgers_own_currency(kind: Any) -> None:
    """A budget that grew since then does not change what the job cost."""
    rule, plan = Filter.open(kind, Privacy(2.0, 1e-6)), calibrate(SVRG, Privacy(0.5, 1e-6)).plan
    for paid, holds in ((rule.cost(plan), True), (tuple(c * 9 // 10 for c in rule.cost(plan)), False)):
        events = [*job("j1", paid=paid), Promised(rule.raised(Privacy(3.0, 1e-6)), "ada")]
        ledger = chain(*events, rule=rule)
        document = signed(queries=SVRG, privacy=Privacy(0.5, 1e-6), entry=ledger[3])
        assert verify_receipt(document, KEYS, ledger).holds == holds


def test_shares_add_up_and_refunded_charges_have_none() -> None:
    refunded = (charge_of("j3", PAID, Privacy(0.5, 1e-6)), Refunded("j3", PAID, False))
    outside = External("d1", "report", {"type": "GaussianDpEvent", "noise_multiplier": 40.0}, PAID, False, "eve")
    ledger = chain(*job("j1"), *refunded, *job("j2", paid=(2 * PAID[0],)), outside)
    state = verify_ledger(ledger)
    share_by_entry = shares(ledger, state)
    assert list(share_by_entry) == [2, 7, 10]
    assert share_by_entry[7] == pytest.approx(2 * share_by_entry[2])
    assert share_by_entry[10] == share_by_entry[2]
    assert sum(share_by_entry.values()) == pytest.approx(state.spent[0] / RULE.thresholds[0])
    whole = chain(charge_of("j1", (2 * RULE.thresholds[0],), Privacy(2.0, 1e-6)))
    assert shares(whole, verify_ledger(whole)) == {2: 1.0}


def test_a_receipt_is_of_a_dataset_of_the_family() -> None:
    joined = chain(*job("j1", dataset="d0"), Joined("d2", 50, "ada"), *job("j2", dataset="d2"), dataset="d0")
    for dataset, rows, holds in (("d2", 50, True), ("d2", 20_000, False), ("d0", 20_000, False), ("d1", 50, False)):
        document = signed(entry=joined[7], job="j2", dataset=dataset, records=rows)
        assert verify_receipt(document, KEYS, joined).holds == holds


@pytest.mark.parametrize(
    ("event", "paid", "wrong"),
    [
        ({"type": "GaussianDpEvent", "noise_multiplier": 40.0}, (2**40 * 4 // 1600 + 1000,), None),
        ({"type": "GaussianDpEvent", "noise_multiplier": 40.0}, (2**40 * 4 // 1700,), "charges less"),
        ({"type": "GaussianDpEvent", "noise_multiplier": 0.0}, PAID, "no event"),
        ({"type": "NonPrivateDpEvent"}, PAID, "no event"),
    ],
)
def test_a_charge_from_outside_pays_for_its_event(event: dict[str, Any], paid: Cost, wrong: str | None) -> None:
    ledger = chain(External("d1", "report", event, paid, False, "eve"))
    if wrong is None:
        assert verify_ledger(ledger).spent == paid
    else:
        with pytest.raises(LedgerInvalid, match=wrong):
            verify_ledger(ledger)
