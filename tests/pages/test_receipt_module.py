"""The check of a receipt in the browser, a second writing of `accounting.records.receipt`: both say the same."""

import contextlib
import hashlib
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from typing import Any, get_args

import mpmath
import numpy as np
import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser

from accounting import Unit
from accounting.errors import CodecError, ReceiptInvalid
from accounting.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    Parallel,
    PoissonGaussian,
    RowObjectivePerturbation,
    Selection,
    SvrgStep,
)
from accounting.plan import Plan, PlannedQuery, Query, ReleasePlan
from accounting.records import receipt, signing
from accounting.records.chain import Entry
from accounting.records.codec import plan_to_json
from accounting.records.documents import canonical, parse
from accounting.records.signing import sign_json
from accounting.records.statement import SessionStatement, Statement
from app.pages.static_files import FOLDER
from tests.support import sessions
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
from tests.support.issued import ISSUED, MISMATCHED
from tests.support.javascript import Module, Thrown, in_page
from tests.support.members import name_of
from tests.support.receipts import ENTRY, GOOD, KEY, KEYS, OF_RECORDS, document, make, signed

EXACT = {
    "gaussian": (Query("a", 100, Gaussian()),),
    "one answer": (Query("a", 1, Gaussian()),),
    "several": (Query("a", 7, Gaussian(), 0.3), Query("b", 2, Gaussian()), Query("c", 1, LastIterate(1_000_000, 0.9))),
    "last iterate": (Query("a", 3, LastIterate(10_000, 1.0)),),
    "parallel": (Query("a", 2, Parallel(Gaussian(), 50)),),
    "whole batches": (Query("a", 5, PoissonGaussian(1.0)),),
}
PURE = {
    "laplace": (Query("a", 3, Laplace()),),
    "choices": (Query("a", 2, Laplace(), 0.5), Query("b", 3, Exponential()), Query("c", 1, Parallel(Laplace(), 9))),
}


@pytest.fixture(scope="module")
def module(browser: Browser) -> Iterator[Module]:
    with in_page(browser, "receipt.js") as imported:
        yield imported


def checked(module: Module, of: Any, keys: Any = KEYS, entry: Any = None) -> Any:
    """Return the module's findings about a document, or None if it refuses the document as malformed."""
    (answer,) = module.answers("verify", [arguments(of, keys, entry)])
    if "error" in answer:
        assert answer["error"] == "Invalid"
        return None
    return answer["value"]


def results(report: Any) -> dict[str, Any]:
    """Return the result of each check, or None if it was not made."""
    return {check["what"]: check["holds"] for check in report["checks"]}


def arguments(receipt_document: Any, keys: Any = KEYS, entry: Any = None) -> list[Any]:
    options = {} if entry is None else {"entry": json.dumps(entry.to_json())}
    return [
        receipt_document if isinstance(receipt_document, str) else json.dumps(receipt_document),
        json.dumps(keys),
        options,
    ]


def test_every_issued_receipt_is_valid_and_names_what_is_not_recomputed(module: Module) -> None:
    """Gaussian and pure receipts are recomputed to the server's digits."""
    entry = Entry.from_json(ISSUED["entry"])
    recomputed = set()
    for issued in ISSUED["issued"]:
        if issued["document"]["receipt"]["id"] in MISMATCHED:
            assert checked(module, issued["document"], ISSUED["keys"], entry) is None
            continue
        report = checked(module, issued["document"], ISSUED["keys"], entry)
        checks = results(report)
        assert (checks["signature"], checks["ledger"], report["reason"]) == (True, True, None)
        assert report["holds"] is checks["epsilon"]
        if report["holds"]:
            assert report["recomputed"] == pytest.approx(issued["recomputed_epsilon"], rel=1e-12)
            recomputed |= {query["mechanism"] for query in issued["document"]["receipt"]["queries"]}
        else:
            (says,) = [check["says"] for check in report["checks"] if check["what"] == "epsilon"]
            assert says.startswith("not recomputed here: ")
            assert says.endswith("needs `purse receipt verify`")
    assert recomputed == {"gaussian", "poisson_gaussian", "laplace", "exponential", "last_iterate", "parallel"}


@pytest.mark.parametrize("neighbors", ["replace_one", "zero_out"])
@pytest.mark.parametrize("queries", [*EXACT.values(), *PURE.values()], ids=[*EXACT, *PURE])
def test_epsilon_is_recomputed_under_both_relations(module: Module, queries: tuple[Query, ...], neighbors: Any) -> None:
    """It agrees with the server to ten digits. A statement that is 2e-9 too low is refused, as by the server."""
    plan = Plan(tuple(PlannedQuery(q.name, q.count, q.mechanism, 31.7 * q.count) for q in queries), neighbors)
    delta = 0.0 if queries in PURE.values() else 1e-6
    stated = receipt.recompute(make() | statement_fields(plan, 100.0, delta)).epsilon
    for factor, holds in ((1.0, True), (1 + 1e-3, True), (1 - 5e-10, True), (1 - 2e-9, False), (0.5, False)):
        built = make() | statement_fields(plan, stated * factor, delta)
        report = checked(module, {"receipt": built, "signature": sign_json(built, KEY)})
        assert report["recomputed"] == pytest.approx(stated, rel=1e-11)
        assert (report["holds"], receipt.verify(signed(built), KEYS).holds) == (holds, holds)
        assert results(report)["epsilon"] is holds


@pytest.mark.parametrize("neighbors", ["replace_one", "zero_out"])
def test_the_runs_of_a_choice_must_match_its_number_and_price(module: Module, neighbors: Any) -> None:
    """As in Python, a run that costs too much or is not stated is refused, whoever signed the receipt."""
    plan = Plan((PlannedQuery("selection", 1, Selection(4), 50.0),), neighbors)

    def verified(method: Any, plan: Plan = plan) -> tuple[Any, bool]:
        built = make() | statement_fields(plan, 100.0, 1e-6) | {"method": method}
        try:
            is_recomputed = receipt.recompute(built).epsilon < 100
        except ReceiptInvalid:
            is_recomputed = False
        return checked(module, document(built)), is_recomputed

    def trial(z: float, relation: Any = neighbors, *more: PlannedQuery) -> dict[str, Any]:
        return {"plan": plan_to_json(Plan((PlannedQuery("score", 2, Gaussian(), z), *more), relation))}

    smallest_multiplier = 50.0 * math.sqrt(2)
    steps = PlannedQuery("steps", 1, SvrgStep(10, 10), 1e6)
    good: dict[str, Any] = {"name": "tuning", "repeats": 2, "trials": [trial(smallest_multiplier), trial(100.0)]}
    report, is_recomputed = verified(good)
    assert is_recomputed
    assert (results(report)["runs"], results(report)["epsilon"]) == (True, None)
    other_relation = "zero_out" if neighbors == "replace_one" else "replace_one"
    once = PlannedQuery("batch", 1, PoissonGaussian(0.5), 1e6)
    wrongs: list[dict[str, Any]] = [
        good | {"trials": [trial(smallest_multiplier), trial(smallest_multiplier * (1 - 1e-6))]},
        good | {"trials": [trial(smallest_multiplier), trial(100.0, other_relation)]},
        good | {"trials": [trial(smallest_multiplier), trial(100.0, neighbors, once)]},
        good | {"trials": [trial(smallest_multiplier)]},
        *(good | {"repeats": repeats} for repeats in (1, 3)),
        {"name": "tuning"},
    ]
    for wrong in wrongs:
        assert verified(wrong) == (None, False), wrong
    alone = Plan((PlannedQuery("a", 1, Gaussian(), 50.0),), neighbors)
    assert verified(good, alone) == (None, False)
    unknown, _ = verified(good | {"trials": [trial(smallest_multiplier), trial(100.0, neighbors, steps)]})
    assert results(unknown)["runs"] is None


@pytest.mark.parametrize(("mechanism", "other_count"), OF_RECORDS.values(), ids=OF_RECORDS)
def test_queries_must_fit_the_number_of_records(module: Module, mechanism: Mechanism, other_count: int) -> None:
    """As in Python, queries must fit the number of records, also in the runs of a choice."""
    choice = statement_fields(Plan((PlannedQuery("selection", 1, Selection(2), 1e-2),)), 100.0, 1e-6)
    run = Plan((PlannedQuery("answer", 1, mechanism, 50.0),))
    chosen = choice | {"method": {"name": "tuning", "repeats": 2, "trials": [{"plan": plan_to_json(run)}]}}
    for records, holds in ((20_000, True), (other_count, False)):
        for statement in (
            (statement_fields(run, 100.0, 1e-6), chosen)
            if run.gdp() is not None
            else (statement_fields(run, 100.0, 1e-6),)
        ):
            report = checked(module, document(make(records=records) | statement))
            assert (report is not None and report["reason"] is None) is holds


def test_an_unknown_mechanism_is_refused(module: Module) -> None:
    """The page knows every mechanism of Python."""
    (query,) = GOOD["receipt"]["queries"][:1]
    for name in map(name_of, get_args(Mechanism)):
        for named, is_known in ((name, True), (f"subsampled_{name}", False)):
            (answer,) = module.answers("recompute", [[GOOD["receipt"] | {"queries": [query | {"mechanism": named}]}]])
            assert ("unknown mechanism" in answer.get("says", "")) is not is_known


def test_a_mechanism_without_a_rule_for_records_is_refused(browser: Browser) -> None:
    """A new mechanism in the table would otherwise be accepted with any number of records."""
    with in_page(browser, "receipt.js") as own:
        assert checked(own, GOOD)["holds"]
        own.evaluate("delete module.MECHANISMS.gaussian.fits")
        assert checked(own, GOOD) is None


def test_a_large_text_is_read_without_a_deep_stack(module: Module) -> None:
    """A string of millions of characters or escapes overflowed the stack of the browser's regular expressions."""
    for text in (json.dumps({"a": "x" * 9_000_000}), '{"a": "' + "\\n" * 3_000_000 + '"}'):
        assert checked(module, text) is None


def test_one_row_is_a_record_if_the_receipt_accounts_by_row(module: Module) -> None:
    says = statement_fields(Plan((PlannedQuery("minimizer", 1, RowObjectivePerturbation(0.1), 9.0),)), 100.0, 1e-6)
    for unit, holds in ((Unit(), True), (Unit("person", 1), True), (Unit("person", 2), False)):
        built = make(unit=unit) | says
        assert (checked(module, document(built)) is not None) is holds
        with contextlib.nullcontext() if holds else pytest.raises(ReceiptInvalid):
            receipt.recompute(built)


def test_a_run_of_pure_answers_is_left_to_python(module: Module) -> None:
    """Its mu is that of randomized response, which the page does not compute. The result is undecided."""
    choice = statement_fields(Plan((PlannedQuery("selection", 1, Selection(2), 1.0),)), 100.0, 1e-6)
    run = plan_to_json(Plan((PlannedQuery("answer", 1, Laplace(), 50.0), PlannedQuery("score", 1, Gaussian(), 50.0))))
    built = make() | choice | {"method": {"name": "tuning", "repeats": 2, "trials": [{"plan": run}]}}
    assert receipt.recompute(built).epsilon < 100
    report = checked(module, document(built))
    assert results(report)["runs"] is None


def statement_fields(plan: Plan, epsilon: float, delta: float) -> dict[str, Any]:
    """Return the fields in which the receipt of this plan differs from the usual one."""
    built = make(release_plan=ReleasePlan(plan, epsilon, delta, "any", "1"), transcript=plan)
    return {name: built[name] for name in ("epsilon", "delta", "queries", "event", "neighbors")}


def test_the_profile_is_right_to_ten_digits_in_every_tail(module: Module) -> None:
    """delta(epsilon) in 60 digits, and its inverse; epsilon is never below the truth."""
    mpmath.mp.dps = 60
    deltas, epsilons = [], []
    for mu in (2e-4, 0.01, 0.3, 1.0, 1.9, 2.1, 7.0, 60.0):
        for delta in (1e-12, 1e-9, 1e-5, 1e-2):
            (inverse,) = module.answers("gaussEpsilon", [[mu, delta]])
            if inverse["value"] > 0:
                epsilons.append((delta, float(exact(mu, inverse["value"] * (1 + 5e-11)) / delta)))
                assert exact(mu, inverse["value"]) <= delta, "rounded up"
                assert exact(mu, inverse["value"] * (1 - 1.1e-9)) > delta, "rounded up by at most 1.1e-9"
                deltas.append((mu, inverse["value"]))
    assert len(epsilons) > 20
    for (mu, epsilon), answer in zip(deltas, module.answers("gaussDelta", deltas), strict=True):
        assert answer["value"] == pytest.approx(float(exact(mu, epsilon)), rel=2e-10)
    assert module.call("gaussEpsilon", 0.02, 1e-2) == 0
    assert module.call("gaussEpsilon", 1e-7, 1e-6) == pytest.approx(module.call("gaussEpsilon", 1e-5, 1e-6))


def exact(mu: float, epsilon: float) -> Any:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


# The page refuses the forgeries that Python refuses in tests/unit/accounting/test_receipt.py.


def test_a_changed_receipt_is_not_the_signed_one_and_not_recomputed(module: Module) -> None:
    """test_verifiers_agree.py changes each field of signed receipts."""
    for change in ({"epsilon": 0.25}, {"analyst": "bob"}, {"share": 0.25}):
        report = checked(module, {"receipt": GOOD["receipt"] | change, "signature": GOOD["signature"]})
        assert (report["holds"], report["recomputed"], results(report)["signature"]) == (False, None, False)
    without_unit = {name: value for name, value in GOOD["receipt"].items() if name != "unit"}
    report = checked(module, {"receipt": without_unit, "signature": GOOD["signature"]})
    assert results(report)["signature"] is False
    assert checked(module, {"receipt": GOOD["receipt"] | {"seed": 1}, "signature": GOOD["signature"]}) is None
    assert checked(module, GOOD | {"keys": KEYS}) is None


def test_a_field_has_the_type_of_the_statement(module: Module) -> None:
    """The fields are those of `Statement`, and the values are those that Python refuses."""
    for field, values in BAD_FIELDS.items():
        for value in values:
            forged = {"receipt": GOOD["receipt"] | {field: value}, "signature": GOOD["signature"]}
            assert checked(module, forged) is None or field == "queries"
    for change in ({"share": 0.25}, {"profile": {"job": "j", "sha256": "ab" * 32}}, {"id": "𝒳" * 256}):
        assert checked(module, signed(change))["holds"]
    person = make(records=500, unit=Unit("person", 8))
    assert checked(module, document(person))["holds"]
    names = {field.name for field in fields(Statement)}
    assert names == {*GOOD["receipt"], "share", "profile", "persons"}
    assert checked(module, signed({"id": "r2"}))["receipt"].keys() == GOOD["receipt"].keys()


@pytest.mark.parametrize("part", [0, 1, 2])
def test_no_character_of_the_signature_can_be_changed(module: Module, part: int) -> None:
    parts = GOOD["signature"].split(".")
    places = {*range(0, len(parts[part]), max(1, len(parts[part]) // 20)), len(parts[part]) - 1}
    forged = []
    for at in sorted(places):
        for letter in "AB_":
            changed_part = parts[part][:at] + letter + parts[part][at + 1 :]
            if changed_part != parts[part]:
                forged.append(
                    arguments(GOOD | {"signature": ".".join([*parts[:part], changed_part, *parts[part + 1 :]])})
                )
    forged += [arguments(GOOD | {"signature": GOOD["signature"] + end}) for end in ("=", " ", "A", "\n", ".")]
    answers = module.answers("verify", forged)
    assert all(answer.get("error") == "Invalid" or answer["value"]["holds"] is False for answer in answers)


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_only_a_trusted_key_signs_and_only_by_this_algorithm(module: Module) -> None:
    mallory = signing.generate_key()
    forged, renamed = document(make(), mallory), renamed_key()
    assert results(checked(module, forged))["signature"] is False
    assert checked(module, GOOD, renamed)["holds"] is False
    assert checked(module, forged, {"keys": [*KEYS["keys"], *renamed["keys"], *signing.jwks(mallory)["keys"]]})["holds"]
    assert checked(module, GOOD, renamed_key("another"))["holds"]
    for pinned in headers():
        assert checked(module, pinned) is None
    assert results(checked(module, other_bytes()))["signature"] is False


def test_other_keys_are_ignored_and_an_invalid_key_set_is_refused(module: Module) -> None:
    foreign_keys = other_keys()
    assert checked(module, GOOD, {"keys": [*foreign_keys, *KEYS["keys"]]})["holds"]
    assert checked(module, GOOD, {"keys": foreign_keys})["holds"] is False
    for trusted in NO_KEY_SETS:
        assert checked(module, GOOD, trusted) is None


def test_the_ledgers_entry_must_be_this_release(module: Module) -> None:
    assert checked(module, GOOD, entry=ENTRY)["holds"]
    for release, entry in other_releases():
        report = checked(module, release, entry=entry)
        assert (report["holds"], results(report)["ledger"]) == (False, False)


def test_a_receipt_is_for_one_model(module: Module) -> None:
    model = {"coefficients": {"b": 0.1, "ä": [1e-7, 3.0, 1e21]}, "kind": "model"}
    digest = hashlib.sha256(canonical(model)).hexdigest()
    receipt_document = document(make(model_sha256=digest))
    for given_model, holds in ((model, True), (model | {"kind": "other"}, False)):
        (answer,) = module.answers(
            "verify", [[json.dumps(receipt_document), json.dumps(KEYS), {"model": json.dumps(given_model)}]]
        )
        assert answer["value"]["holds"] is holds


def test_queries_that_no_receipt_states_are_refused(module: Module) -> None:
    for change in (*({"queries": queries} for queries in BAD_QUERIES), {"delta": 0}):
        assert checked(module, signed(change)) is None


def test_a_document_is_read_strictly(module: Module) -> None:
    """The page refuses the texts that Python refuses. A signature covers the value of a document, not its text."""
    for raw in NO_DOCUMENTS:
        assert checked(module, raw) is None
    text = json.dumps(GOOD)
    for equal_text in (
        json.dumps(GOOD, indent=3),
        json.dumps(GOOD, sort_keys=True, ensure_ascii=False),
        text + "\r\n\t ",
    ):
        assert checked(module, equal_text)["holds"]


def test_numbers_and_keys_are_canonical_as_in_the_standard(module: Module) -> None:
    """RFC 8785, 3.2.3 and appendix B, and 2,000 doubles of random bits."""
    bits = np.random.default_rng(8785).integers(0, 2**64, 2200, dtype=np.uint64)
    drawn = [
        value for value in (struct.unpack("<d", int(b).to_bytes(8, "little"))[0] for b in bits) if value - value == 0
    ]
    numbers = [0.0, -0.0, 5e-324, 1.7976931348623157e308, 9007199254740992.0, 1e21, 1e-6, 1e-7, 333333333.3333332,
               *islice(drawn, 2000)]  # fmt: skip
    answers = module.answers("canonical", [[value] for value in numbers])
    assert [answer["value"] for answer in answers] == [rfc8785.dumps(value).decode() for value in numbers]
    keys = {"€": 1, "\r": 2, "דּ": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7, "__proto__": 8, "constructor": 9}
    nested = {"b": [keys, '\x7f\x1f"\\/\u2028', True, None], "a": {}}
    assert module.call("canonical", nested) == canonical(nested).decode()
    assert module.call("canonical", json.loads(canonical(nested))) == canonical(nested).decode()
    with pytest.raises(Thrown, match="surrogate"):
        module.call("canonical", json.loads('{"a": 1}') | {"b": ["\ud800"]})


def test_any_text_is_read_as_python_reads_it(module: Module) -> None:
    """Small texts out of the pieces of JSON, good ones and broken ones."""
    marks, words = list("{}[],:"), ["true", "null", "NaN", " ", "\n", "\u00a0", '"', '{"a": 1, "b": [2]}']
    texts_and_numbers = ['"a"', '"b"', '"\\u0061"', "1", "-0", "1.5e3", "01", "1e400", "9007199254740993"]
    pieces = st.sampled_from([*marks, *words, *texts_and_numbers])

    @given(texts=st.lists(st.lists(pieces, max_size=8).map("".join), min_size=50, max_size=50))
    @settings(max_examples=6, suppress_health_check=list(HealthCheck))
    def agree(texts: list[str]) -> None:
        for text, answer in zip(texts, module.answers("parse", [[text] for text in texts]), strict=True):
            try:
                expected = parse(text)
                canonical(expected)
            except CodecError:
                assert answer.get("error") == "Invalid", text
            else:
                assert "error" not in answer, text
                assert answer["value"] == expected

    agree()


def test_the_module_needs_no_other_file() -> None:
    """The module has no import and sends no request, so the file alone is the whole check."""
    source = (FOLDER / "receipt.js").read_text()
    assert not any(word in source for word in ("import ", "import(", "fetch(", "XMLHttpRequest", "eval(", "Function("))


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_session_is_recomputed_under_both_relations(module: Module, relation: Any) -> None:
    """The page recomputes Gaussian and pure plans to ten digits. It names other mechanisms, which Python recomputes."""
    gaussian, pure = (
        sessions.plan(sessions.many(sessions.GAUSSIAN, 10), relation=relation),
        sessions.plan(sessions.many(sessions.PURE, 5), sessions.LAPLACE, relation=relation),
    )
    for ours, planned, recorded in (
        (sessions.RULE, gaussian, [4]),
        (sessions.RULE, gaussian, [0]),
        (sessions.PURE_RULE, pure, [2, 1]),
    ):
        stated, ledger = sessions.ended_session(ours, planned, recorded)
        report = checked(module, sessions.signed(stated), entry=ledger[-1])
        assert results(report) == {"signature": True, "epsilon": True, "charge": True, "ledger": True}
        assert (report["holds"], report["recomputed"]) == (True, pytest.approx(stated["epsilon"], rel=1e-11))
        for field in ("epsilon", "charged_epsilon"):
            cheaper = sessions.signed(stated | {field: stated[field] * (1 - 1e-6)})
            is_zero = stated[field] == 0
            assert checked(module, cheaper)["holds"] is is_zero is receipt.verify(cheaper, KEYS).holds
    stated, ledger = sessions.ended_session(
        sessions.RULE, sessions.plan(sessions.SAMPLED, sessions.DRAWN, sessions.ALLOCATED, relation=relation), [1, 0, 1]
    )
    report = checked(module, sessions.signed(stated), entry=ledger[1])
    assert results(report) == {"signature": True, "epsilon": None, "charge": None, "ledger": False}
    expired, ledger = sessions.ended_session(sessions.RULE, gaussian, [4], expired=True)
    assert checked(module, sessions.signed(expired), entry=ledger[-1])["holds"]


def test_invalid_session_receipts_are_refused_as_python_refuses_them(module: Module) -> None:
    """test_verifiers_agree.py changes each field of a receipt of Gaussian and of pure answers."""
    stated, _ = sessions.ended_session(
        sessions.RULE, sessions.plan(sessions.many(sessions.GAUSSIAN, 10), sessions.DRAWN), [4, 0]
    )
    first, second = stated["plan"]
    plans: list[Any] = [
        [first] * 65,
        [first | {"recorded": 11}],
        [first | {"count": 10**10}],
        [first | {"event": {"type": "NonPrivateDpEvent"}}],
        [first | {"event": {"type": "toString"}}],
        [second | {"event": sessions.DRAWN | {"sample_size": 1001}}],
        [second | {"event": sessions.DRAWN | {"event": sessions.LAPLACE}}],
        [second | {"event": sessions.DRAWN | {"source_dataset_size": 20_001}}],
        [second | {"event": sessions.SAMPLED | {"sampling_probability": 1e-6}}],
        [second | {"event": sessions.ALLOCATED | {"form": "equal"}}],
    ]
    changes: list[dict[str, Any]] = [{"plan": planned} for planned in plans]
    changes += [{"kind": "job"}, {"job": "j1"}, {"title": ""}, {"persons": 5}, {"state": "expired"}, {"delta": 0.0}]
    for change in changes:
        forged = {"receipt": stated | change, "signature": signing.sign_json(stated | change, KEY)}
        assert checked(module, forged) is None, change
        with pytest.raises(ReceiptInvalid):
            receipt.verify(forged, KEYS)
    names = {field.name for field in fields(SessionStatement)}
    assert names == {*stated, "persons"}
