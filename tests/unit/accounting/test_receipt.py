"""Receipts are built from public facts, signed, and verified with a set of trusted keys alone."""

import base64
import contextlib
import copy
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from joserfc.jwk import OKPKey

from accounting import Privacy, Unit
from accounting.accountants import ACCOUNTANTS, PldAccountant
from accounting.accountants.tight import VERIFIED_ERROR_SHARE
from accounting.calibration import calibrate
from accounting.errors import CodecError, ReceiptInvalid
from accounting.mechanisms import (
    Gaussian,
    Mechanism,
    PoissonGaussian,
    Selection,
    SvrgStep,
)
from accounting.plan import Plan, PlannedQuery, Query, ReleasePlan
from accounting.records import receipt, signing
from accounting.records.chain import Entry
from accounting.records.codec import MAX_QUERIES, plan_to_json
from accounting.records.documents import canonical
from accounting.records.signing import check_json, sign_json
from accounting.records.statement import check
from tests.support.forgeries import (
    BAD_FIELDS,
    BAD_QUERIES,
    NO_DOCUMENTS,
    NO_KEY_SETS,
    headers,
    other_bytes,
    other_keys,
    other_releases,
    renamed_key,
)
from tests.support.json_values import json_values
from tests.support.receipts import (
    BAD_EVENTS,
    ENTRY,
    GD,
    GOOD,
    KEY,
    KEYS,
    MODEL,
    OF_RECORDS,
    SVRG,
    document,
    make,
    release_entry,
    signed,
)
from tests.support.threads import at_once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "privacy", "accountant"),
    [
        (GD, Privacy(0.5, 1e-6), "exact_gaussian"),
        (GD, Privacy(1.0, 1e-12), "exact_gaussian"),
        (SVRG, Privacy(1.0, 1e-6), "pld"),
        (SVRG, Privacy(1.0, 1e-12), "rdp"),
    ],
)
def test_an_honest_receipt_holds(queries: tuple[Query, ...], privacy: Privacy, accountant: str) -> None:
    built = make(queries, privacy)
    result = receipt.verify(document(built), KEYS, ENTRY)
    assert (result.holds, result.signature, result.epsilon, result.chain, result.reason) == (
        True,
        True,
        True,
        True,
        None,
    )
    assert result.recomputed_epsilon is not None
    assert result.recomputed_epsilon <= built["epsilon"] * (1 + 1e-9) <= privacy.epsilon * (1 + 1e-9)
    assert result.recomputed_epsilon == pytest.approx(privacy.epsilon, rel=1e-3)
    assert (result.accountant, built["accountant"]) == (accountant, accountant)
    assert built["accountant_version"] == next(a.version for a in ACCOUNTANTS if a.name == accountant)
    alone = receipt.recompute(built)
    assert (alone.epsilon, alone.accountant) == (result.recomputed_epsilon, built["accountant"])
    assert receipt.verify(document(built), KEYS).chain is None


def test_a_receipt_states_its_unit_once_and_one_without_a_unit_is_of_rows() -> None:
    person = make(records=500, unit=Unit("person", 8))
    assert "rows" not in person
    assert (person["persons"], person["unit"]) == (500, {"name": "person", "max_rows": 8})
    assert receipt.verify(document(person), KEYS).holds
    assert check({key: value for key, value in make().items() if key != "unit"})["rows"] == 20_000
    counted = {key: value for key, value in person.items() if key != "persons"}
    for wrong in (person | {"rows": 4000}, counted, counted | {"rows": 500}, person | {"unit": {"name": "person"}}):
        with pytest.raises(ReceiptInvalid):
            check(wrong)


def test_the_signature_is_a_compact_jws_over_the_canonical_receipt() -> None:
    header, payload, signature = GOOD["signature"].split(".")
    pad = "=="
    assert json.loads(base64.urlsafe_b64decode(header + pad)) == {
        "alg": "Ed25519",
        "kid": KEY.private.thumbprint(),
        "typ": "privy-purse-receipt",
    }
    assert base64.urlsafe_b64decode(payload + pad) == canonical(GOOD["receipt"])
    assert len(base64.urlsafe_b64decode(signature + pad)) == 64
    assert KEYS["keys"][0]["kid"] == KEY.private.thumbprint()


def test_the_answers_of_a_receipt_are_within_its_plan() -> None:
    plan = calibrate(GD, Privacy(0.5, 1e-6))
    (query,) = plan.plan.queries
    partial = Plan((replace(query, count=60),))
    built = make(transcript=partial)
    assert built["queries"][0]["count"] == 60
    result = receipt.verify(document(built), KEYS)
    assert result.holds
    assert result.recomputed_epsilon is not None
    assert result.recomputed_epsilon < 0.9 * built["epsilon"]
    with pytest.raises(ReceiptInvalid, match="more answers than"):
        make(transcript=Plan((replace(query, count=101),)))
    with pytest.raises(ReceiptInvalid, match="more answers than"):
        make(transcript=Plan((replace(query, noise_multiplier=query.noise_multiplier / 2),)))


def test_a_receipt_from_another_processor_holds() -> None:
    """Its elementary functions have other last digits."""
    plan = calibrate(GD, Privacy(1.0, 1e-6))
    for stated, holds in ((plan.epsilon * (1 - 5e-10), True), (plan.epsilon * (1 - 2e-9), False)):
        assert _is_verified(plan, stated) is holds


@pytest.mark.slow
@pytest.mark.parametrize("queries", [SVRG, (Query("step", 5000, PoissonGaussian(2e-3)),)])
def test_a_composed_loss_from_another_processor_holds(queries: tuple[Query, ...]) -> None:
    """Two FFTs differed by a tenth of the error granted to one; a verifier leaves room for six tenths."""
    plan = calibrate(queries, Privacy(1.0, 1e-6))
    assert plan.accountant == "pld"
    for granted, holds in ((0.9, True), (VERIFIED_ERROR_SHARE + 0.01, True), (VERIFIED_ERROR_SHARE - 0.1, False)):
        assert _is_verified(plan, PldAccountant(error_share=granted).epsilon(plan.plan, plan.delta)) is holds


def test_less_than_the_truth_is_not_verified_where_the_grid_costs_nothing() -> None:
    """One use is certified exactly at the grid's points, where a tolerance of 1e-4 verified less than the truth."""
    plan = Plan((PlannedQuery("answer", 1, PoissonGaussian(0.5), 0.4082549997633471),))
    delta, truth = 3.69819857714598e-4, 10.150004051
    for stated, holds in ((10.148990132, False), (truth * (1 - 2e-8), False), (truth * (1 + 1e-8), True)):
        assert _is_verified(ReleasePlan(plan, stated, delta, "pld", "1"), stated) is holds


def _is_verified(plan: ReleasePlan, stated: float) -> bool:
    """Whether a receipt that states this epsilon for the plan is verified."""
    built = make(release_plan=replace(plan, epsilon=stated), transcript=plan.plan)
    result = receipt.verify(document(built), KEYS, ENTRY)
    assert (result.signature, result.holds) == (True, result.epsilon)
    return result.holds


@pytest.mark.parametrize("field", sorted(GOOD["receipt"]))
def test_no_field_can_be_changed(field: str) -> None:
    forged = copy.deepcopy(GOOD)
    value = forged["receipt"][field]
    changed: Any
    if isinstance(value, str):
        changed = ("0" if value[0] != "0" else "1") + value[1:]
    elif isinstance(value, int | float):
        changed = value * 2
    elif isinstance(value, dict):
        changed = value | {"noise_multiplier": 9.0}
    else:
        changed = [value[0] | {"count": 1}]
    forged["receipt"][field] = changed
    try:
        result = receipt.verify(forged, KEYS)
    except ReceiptInvalid:
        assert field in ("neighbors", "numerics", "unit")
        return
    assert not result.holds
    assert not result.signature
    assert result.recomputed_epsilon is None, "the event of an unsigned receipt is not recomputed"


def test_a_key_that_comes_along_is_not_trusted() -> None:
    mallory = signing.generate_key()
    forged = document(make(), mallory)
    result = receipt.verify(forged, KEYS)
    assert (result.holds, result.signature) == (False, False)
    with pytest.raises(ReceiptInvalid):
        receipt.verify(forged | {"keys": signing.jwks(mallory)}, KEYS)
    # The verifier computes the name of each key again.
    assert not receipt.verify(GOOD, renamed_key()).signature
    assert receipt.verify(GOOD, renamed_key("another")).signature


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_the_algorithm_and_the_header_are_pinned() -> None:
    for forged in headers():
        with pytest.raises(ReceiptInvalid):
            receipt.verify(forged, KEYS)


def test_the_payload_is_compared_byte_for_byte() -> None:
    """The same JSON value in other bytes, signed by the right key, is not the canonical receipt."""
    assert not receipt.verify(other_bytes(), KEYS).signature


@pytest.mark.parametrize("part", [0, 1, 2])
def test_no_bit_of_the_signature_can_be_changed(part: int) -> None:
    parts = GOOD["signature"].split(".")
    for at in range(0, len(parts[part]), max(1, len(parts[part]) // 20)):
        old = parts[part][at]
        forged = parts[part][:at] + ("A" if old != "A" else "B") + parts[part][at + 1 :]
        signature = ".".join([*parts[:part], forged, *parts[part + 1 :]])
        with contextlib.suppress(ReceiptInvalid):
            assert not receipt.verify(GOOD | {"signature": signature}, KEYS).holds


def test_other_keys_in_the_set_are_passed_over() -> None:
    assert receipt.verify(GOOD, {"keys": [*other_keys(), *KEYS["keys"]]}).holds


@pytest.mark.parametrize("trusted", NO_KEY_SETS)
def test_an_invalid_key_set_is_refused(trusted: Any) -> None:
    with pytest.raises(ReceiptInvalid):
        receipt.verify(GOOD, trusted)


@pytest.mark.parametrize(("signed_receipt", "entry"), other_releases())
def test_the_ledger_must_hold_the_release(signed_receipt: dict[str, Any], entry: Entry) -> None:
    """The entry releases another job or model, is not a release, or was edited. All of them are truly signed."""
    result = receipt.verify(signed_receipt, KEYS, entry)
    assert (result.signature, result.epsilon, result.chain, result.holds) == (True, True, False, False)


@pytest.mark.parametrize(
    "change",
    [
        {"event": {"type": "GaussianDpEvent", "noise_multiplier": 0}},
        {"event": {"type": "NoOpDpEvent"}},
        {"event": {"type": "ComposedDpEvent", "events": []}},
        {"event": {"type": "SelfComposedDpEvent", "count": 99, "event": GOOD["receipt"]["event"]["event"]}},
        {"delta": 0},
        {"event": {"type": "GaussianDpEvent", "noise_multiplier": 0.01}, "delta": 1e-10,
         "queries": [{"name": "a", "count": 1, "mechanism": "gaussian", "noise_multiplier": 9.0}]},
    ],
)  # fmt: skip
def test_a_signed_receipt_with_a_senseless_event_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ReceiptInvalid):
        receipt.verify(signed(change), KEYS)


@pytest.mark.parametrize("event", BAD_EVENTS.values(), ids=BAD_EVENTS.keys())
def test_an_event_tree_is_that_of_the_queries(event: Any) -> None:
    with pytest.raises(ReceiptInvalid):
        receipt.recompute(GOOD["receipt"] | {"event": event})


@pytest.mark.slow
def test_an_event_computed_on_another_platform_is_the_same_event() -> None:
    """The parts of a printed step are found by root finding: another libm's last digits are no other event."""
    built = make((Query("step", 50, SvrgStep(20, 20_000)),), Privacy(1.0, 1e-6))

    def scaled(event: Any, factor: float) -> Any:
        if isinstance(event, dict):
            return {key: scaled(value, factor) for key, value in event.items()}
        if isinstance(event, list):
            return [scaled(value, factor) for value in event]
        return event * factor if isinstance(event, float) else event

    again = built | {"event": scaled(built["event"], 1 + 1e-13)}
    assert again != built
    assert receipt.recompute(again) == receipt.recompute(built)
    for factor in (1 + 1e-8, 1 - 1e-8):
        with pytest.raises(ReceiptInvalid, match="differ"):
            receipt.recompute(built | {"event": scaled(built["event"], factor)})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow, on the way to giving up
@pytest.mark.parametrize(
    ("z", "rate"), [(1e-3, 1e-9), (0.05, 1e-9), (0.05, 0.5), (0.3, 1.0), (1e12, 1e-9), (1e12, 0.5)]
)
def test_extreme_but_well_formed_events_are_answered(z: float, rate: float) -> None:
    """At the ends of the allowed ranges one accountant may give up; then another answers."""
    plan = Plan((PlannedQuery("a", 1, PoissonGaussian(rate), z), PlannedQuery("b", 1, Gaussian(), z)))
    built = make(records=10**9) | {
        "event": plan.event(),
        "queries": receipt.build(receipt.ReleaseFacts(
            **{k: GOOD["receipt"][k] for k in ("id", "dataset", "dataset_name", "analyst", "job", "method",
                                               "model_sha256", "issued_at")},
            records=20_000, unit=Unit(), transcript=plan, entry=ENTRY,
            release_plan=ReleasePlan(plan, 100.0, 1e-6, "rdp", "1"),
        ))["queries"],
    }  # fmt: skip
    result = receipt.verify({"receipt": built, "signature": sign_json(built, KEY)}, KEYS)
    assert result.recomputed_epsilon is not None
    assert result.holds == (result.recomputed_epsilon <= 0.5)


class Overflowing:
    """An accountant at the end of its range."""

    name, version = "overflowing", "1"

    def epsilon(self, *_: Any) -> float:
        raise OverflowError("math range error")


class Undecided(Overflowing):
    def epsilon(self, *_: Any) -> float:
        return float("nan")


class Certain(Overflowing):
    def epsilon(self, *_: Any) -> float:
        return 1.0


@pytest.mark.parametrize("broken", [Overflowing(), Undecided()])
def test_an_accountant_that_gives_up_is_no_verdict(monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    monkeypatch.setattr("accounting.records.recomputation.ACCOUNTANTS", (broken, *ACCOUNTANTS))
    assert receipt.verify(GOOD, KEYS).accountant == "exact_gaussian"
    monkeypatch.setattr("accounting.records.recomputation.ACCOUNTANTS", (broken,))
    with pytest.raises(ReceiptInvalid, match="no accountant covers"):
        receipt.verify(GOOD, KEYS)


@pytest.mark.parametrize("field", BAD_FIELDS)
def test_malformed_fields_are_refused_with_their_name(field: str) -> None:
    for value in BAD_FIELDS[field]:
        with pytest.raises((ReceiptInvalid, CodecError)):
            receipt.verify(signed({field: value}), KEYS)
        forged = {"receipt": GOOD["receipt"] | {field: value}, "signature": GOOD["signature"]}
        if value in ([{}], [1]):
            assert not receipt.verify(forged, KEYS).signature, "not signed, and the queries are not read"
        else:
            with pytest.raises(ReceiptInvalid, match=f"{field}|canonical"):
                receipt.verify(forged, KEYS)


@pytest.mark.parametrize("queries", BAD_QUERIES)
def test_queries_that_no_receipt_states_are_refused(queries: Any) -> None:
    with pytest.raises(ReceiptInvalid):
        receipt.verify(signed({"queries": queries}), KEYS)


@pytest.mark.parametrize("field", sorted(GOOD["receipt"].keys() - {"unit"}))
def test_a_missing_field_is_refused(field: str) -> None:
    incomplete = {k: v for k, v in GOOD["receipt"].items() if k != field}
    with pytest.raises(ReceiptInvalid, match=field):
        receipt.verify({"receipt": incomplete, "signature": GOOD["signature"]}, KEYS)
    with pytest.raises(ReceiptInvalid):
        receipt.verify({"receipt": GOOD["receipt"] | {"seed": 1}, "signature": GOOD["signature"]}, KEYS)


@pytest.mark.parametrize("raw", [*NO_DOCUMENTS, b"\xff"])
def test_read_refuses_invalid_documents(raw: str | bytes) -> None:
    with pytest.raises(ReceiptInvalid):
        receipt.verify(receipt.read(raw), KEYS)


JSON = json_values()
SIGNATURES = st.text() | st.from_regex(r"[\w-]{0,30}\.[\w-]{0,30}\.[\w-]{0,30}") | st.just(GOOD["signature"]) | JSON


def b64(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.slow
@given(
    field=st.sampled_from(sorted(GOOD["receipt"])),
    value=JSON,
    header=JSON | st.fixed_dictionaries({"alg": st.just("Ed25519") | JSON, "kid": JSON, "typ": JSON}),
    signature=SIGNATURES,
    trusted=JSON | st.just(KEYS) | st.builds(lambda keys: {"keys": keys}, st.lists(JSON, max_size=3)),
    resign=st.booleans(),
)
@example(field="id", value="a", header=[], signature="W10.e30.", trusted=KEYS, resign=False)
@example(field="id", value="a", header=3, signature="Mw.e30.", trusted=KEYS, resign=False)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_malformed_documents_raise_receipt_invalid_and_nothing_else(
    field: str, value: Any, header: Any, signature: Any, trusted: Any, resign: bool
) -> None:
    """Try arbitrary fields, signatures and keys, and also malformed documents with a valid signature."""
    built = GOOD["receipt"] | {field: value}
    documents: list[Any] = [value, built, {"receipt": value, "signature": signature}, GOOD | {"signature": signature}]
    documents += [GOOD | {"signature": f"{b64(header)}.e30.AA"}, {"receipt": built, "signature": GOOD["signature"]}]
    if resign:
        with contextlib.suppress(CodecError):
            documents.append({"receipt": built, "signature": sign_json(built, KEY)})
    for candidate in documents:
        for keys in (trusted, KEYS):
            with contextlib.suppress(ReceiptInvalid):
                result = receipt.verify(candidate, keys)
                assert result.holds == (result.reason is None)
    with contextlib.suppress(ReceiptInvalid):
        receipt.recompute(built)


@pytest.mark.slow
@given(raw=st.binary() | st.text() | JSON.map(json.dumps))
def test_read_raises_receipt_invalid_and_nothing_else(raw: bytes | str) -> None:
    with contextlib.suppress(ReceiptInvalid):
        assert set(receipt.read(raw)) == {"receipt", "signature"}


def _planned(mechanism: Mechanism, z: float = 50.0) -> Plan:
    return Plan((PlannedQuery("answer", 1, mechanism, z),))


def _of(plan: Plan, **change: Any) -> receipt.Receipt:
    return make(release_plan=ReleasePlan(plan, 100.0, 1e-6, "any", "1"), transcript=plan, **change)


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 1)])
@pytest.mark.parametrize(("mechanism", "wrong_count"), OF_RECORDS.values(), ids=OF_RECORDS)
def test_the_queries_of_a_receipt_are_of_its_number_of_records(
    monkeypatch: pytest.MonkeyPatch, unit: Unit, mechanism: Mechanism, wrong_count: int
) -> None:
    """Another number of records, or a rate below one record, would overstate privacy. A selection's runs count too."""
    monkeypatch.setattr("accounting.records.recomputation.ACCOUNTANTS", (Certain(),))
    choice, run = _planned(Selection(2), 1e-2), _planned(mechanism)
    chosen = {"method": {"name": "tuning", "repeats": 2, "trials": [{"plan": plan_to_json(run)}]}}
    for records, holds in ((20_000, True), (wrong_count, False)):
        builds = [_of(run, records=records, unit=unit), _of(choice, records=records, unit=unit, **chosen)]
        for built in builds if run.gdp() is not None else builds[:1]:
            with contextlib.nullcontext() if holds else pytest.raises(ReceiptInvalid, match="records"):
                assert receipt.recompute(built).epsilon == 1.0


def test_a_receipt_too_long_to_read_back_is_not_signed() -> None:
    with pytest.raises(ReceiptInvalid, match="longer than"):
        sign_json(make(method={"name": "dp_gd", "notes": "x" * 100_000}), KEY)


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 4096)])
def test_a_receipt_judged_signable_is_signed_whatever_its_names(unit: Unit) -> None:
    """The check precedes the charge, so it refuses some receipts just below the limit and accepts none above it."""
    plan = calibrate(GD, Privacy(0.5, 1e-6))
    name = "\U0001f600" * 256
    texts = dict.fromkeys(("id", "dataset", "dataset_name", "analyst", "job"), name)
    facts: dict[str, Any] = texts | {"records": 2**53 - 1, "unit": unit, "share": 1 / 3, "entry": release_entry()}
    facts |= {"release_plan": replace(plan, accountant=name, accountant_version=name), "transcript": plan.plan}
    facts |= {"profile": {"job": name, "sha256": MODEL}, "issued_at": "2026-01-02T03:04:05.678901234+00:00"}

    def method(notes: int) -> dict[str, Any]:
        return {"name": "dp_gd", "notes": "x" * notes}

    signable, unsignable = 0, 100_000
    while signable < unsignable - 1:
        middle = (signable + unsignable) // 2
        if receipt.is_signable(method(middle), plan.plan):
            signable = middle
        else:
            unsignable = middle
    assert sign_json(make(method=method(signable), **facts), KEY)
    assert sign_json(make(method=method(signable + 9_000)), KEY)
    with pytest.raises(ReceiptInvalid, match="longer than"):
        sign_json(make(method=method(signable + 9_000), **facts), KEY)


def test_the_largest_plan_still_makes_a_receipt() -> None:
    names = [f"query {i} {'x' * 50}" for i in range(MAX_QUERIES)]
    plan = Plan(tuple(PlannedQuery(name, 10**9, PoissonGaussian(1 / 3), 1e12 / 7) for name in names))
    built = make(release_plan=ReleasePlan(plan, 1.0, 1e-6, "rdp", "1"), transcript=plan)
    assert check_json(built, sign_json(built, KEY), KEYS) is None


# The key file


def test_the_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / "keys" / "receipt-signing.json"
    key = signing.load_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [path.name], "no temporary file is left"
    again = signing.load_key(path)
    assert again.private.as_dict(private=True) == key.private.as_dict(private=True)
    assert receipt.verify(document(make(), key), signing.jwks(again)).holds


def test_two_that_start_at_once_get_one_key(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    keys = at_once(12, lambda _: signing.load_key(path))
    assert len({key.private.thumbprint() for key in keys}) == 1
    assert os.listdir(tmp_path) == ["key.json"]


def test_public_keys_are_public() -> None:
    assert KEYS["keys"][0].keys() == {"kty", "crv", "x", "kid", "use", "alg"}


def test_rotation_keeps_old_receipts_checkable(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    first = signing.load_key(path)
    old = document(make(), first)
    second = signing.rotate_key(path)
    third = signing.rotate_key(path)
    keys = signing.jwks(signing.load_key(path))
    assert [k["kid"] for k in keys["keys"]] == [k.private.thumbprint() for k in (third, second, first)]
    assert receipt.verify(old, keys).holds
    assert receipt.verify(document(make(), third), keys).holds
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stored = json.loads(path.read_text())["keys"]
    assert [("d" in key) for key in stored] == [True, False, False], "old private keys are gone"


def test_concurrent_rotations_lose_no_key(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    keys = [signing.load_key(path), *at_once(6, lambda _: signing.rotate_key(path))]
    stored_ids = {key["kid"] for key in signing.jwks(signing.read_key(path))["keys"]}
    assert stored_ids == {key.private.thumbprint() for key in keys}
    assert len(stored_ids) == 7


def test_a_key_file_that_is_full_or_missing_is_not_rotated(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    with pytest.raises(FileNotFoundError):
        signing.rotate_key(path)
    signing.load_key(path)
    key, *_ = json.loads(path.read_text())["keys"]
    path.write_text(json.dumps({"keys": [key, *KEYS["keys"] * 255]}))
    original = path.read_text()
    with pytest.raises(ReceiptInvalid, match="256 keys already"):
        signing.rotate_key(path)
    assert path.read_text() == original


BROKEN = {
    "empty": "",
    "object": "{}",
    "no key": '{"keys": []}',
    "list": "[]",
    "public only": json.dumps(KEYS),
    "short": '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA", "d": "AA"}]}',
    "NUL": "\x00",
    "another curve": json.dumps({"keys": [OKPKey.generate_key("X25519").as_dict(private=True)]}),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_key_file_is_refused_and_never_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(content)
    with pytest.raises(ReceiptInvalid, match="signing key"):
        signing.load_key(path)
    assert path.read_text() == content


@pytest.mark.slow
def test_checking_a_signature_a_chain_or_a_head_needs_no_numerical_library() -> None:
    """The client imports these modules without the extra `solvers`."""
    modules = ", ".join(f"accounting.records.{name}" for name in ("statement", "signing", "heads"))
    code = f"import sys, {modules}; print(sorted({{'numpy', 'scipy', 'dp_accounting'}} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert ran.stdout.strip() == "[]"


def test_a_receipt_without_a_canonical_form_is_refused() -> None:
    with pytest.raises(ReceiptInvalid):
        check_json({"epsilon": float("nan")}, GOOD["signature"], KEYS)
    with pytest.raises(ReceiptInvalid):
        receipt.verify({"receipt": GOOD["receipt"]}, KEYS)
