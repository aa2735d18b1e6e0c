"""The verifiers in Python and in the browser accept and refuse the same ledgers and receipts.

Every ledger and receipt is valid, or has one systematic change, with all hashes and signatures computed again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from html import unescape
from itertools import product
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser

from accounting import Privacy, Unit
from accounting.errors import AccountingError, OutOfRange, ReceiptInvalid
from accounting.filter import Filter, Kind
from accounting.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    ObjectivePerturbation,
    Parallel,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
    Resampled,
    RowObjectivePerturbation,
    Selection,
    SvrgStep,
    WithoutReplacement,
)
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.records import receipt
from accounting.records.chain import Entry, EntryKind, from_lines, to_lines
from accounting.records.codec import plan_to_json
from accounting.records.documents import canonical_text
from accounting.records.offline import verify_ledger, verify_receipt
from accounting.records.signing import sign_json
from app.pages.static_files import FOLDER
from tests.support import ledgers, sessions
from tests.support.javascript import Module, in_page
from tests.support.ledgers import relinked
from tests.support.receipts import KEY, KEYS, MODEL, make
from tests.support.tampering import changes, tampered, valid_ledgers

LEDGERS = valid_ledgers()
DISTINCT_ENTRIES = list(
    {(entry.kind, str(entry.body)): entry for entries in LEDGERS.values() for entry in entries}.values()
)
# For each refusal by Python that needs an accountant, a part of the statement of the pages that it is not checked.
NOT_CHECKED = {
    "charges less than its outside mechanism costs": "each outside release is charged at least the cost of its event",
    "reserves less than its plan costs": "each session is charged at least the cost of its plan",
    "returns more than the session's answers leave": "after a refund, of its recorded answers",
    "took the whole budget for a plan that costs more": "a session that reserved the whole budget keeps the epsilon",
    "the ledger charged less than these queries cost": "each job is charged at least the cost of its queries",
    "the events cost more than the stated epsilon": "the epsilon of answers that are neither Gaussian nor pure",
    "no accountant covers these queries": "the epsilon of answers that are neither Gaussian nor pure",
    "the queries and the event tree differ": "the events of such answers match their queries",
}


@pytest.fixture(scope="module")
def ledger(browser: Browser) -> Iterator[Module]:
    with in_page(browser, "ledger.js") as imported:
        yield imported


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Module]:
    with in_page(browser, "check.js") as imported:
        yield imported


def not_checked(reason: str) -> bool:
    """Return whether the pages state that they do not check what Python refused."""
    return any(part in reason for part in NOT_CHECKED)


def test_the_pages_list_every_difference_between_both_verifiers() -> None:
    template = (FOLDER.parent / "templates" / "receipt_form.html").read_text()
    _, stated = unescape(template).lower().split("not checked here", 1)
    for part in NOT_CHECKED.values():
        assert part.lower() in stated


def test_every_kind_of_entry_and_every_mechanism_is_changed() -> None:
    assert {entry.kind for entry in DISTINCT_ENTRIES} == {*get_args(EntryKind)}
    mechanisms = {query["mechanism"] for stated, _ in DOCUMENTS.values() for query in stated.get("queries", ())}
    names = {field.default for mechanism in get_args(Mechanism) for field in fields(mechanism) if field.name == "name"}
    assert mechanisms | {"gaussian", "laplace"} == names


def refusal(entries: Sequence[Entry]) -> str | None:
    """Return why `verify_ledger` refuses the exported ledger; None if it holds."""
    try:
        verify_ledger(from_lines(to_lines(entries)))
    except AccountingError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", LEDGERS)
def test_a_changed_ledger_is_refused_by_both_or_by_neither(ledger: Module, name: str) -> None:
    """An entry is added, left out, repeated, moved or of another kind, or one of its fields has another value."""
    cases = [LEDGERS[name], *tampered(LEDGERS[name], DISTINCT_ENTRIES)]
    answers = ledger.answers("summary", [[[entry.to_json() for entry in case]] for case in cases])
    assert "error" not in answers[0]
    verdicts = Counter[bool]()
    for case, answer in zip(cases, answers, strict=True):
        reason = refusal(case)
        verdicts[reason is None] += 1
        assert answer.get("error", "Invalid") == "Invalid", answer
        is_open = reason is not None and not_checked(reason)
        assert is_open or ("error" in answer) is (reason is not None), (reason, answer, case)
    assert min(verdicts[True], verdicts[False]) > 50


def test_thresholds_of_budgets_are_those_of_python(ledger: Module) -> None:
    """The largest thresholds are accepted at any epsilon and delta, and a threshold that is larger is refused."""
    cases, holds = list[list[Entry]](), list[bool]()
    for kind, epsilon, exponent in product(get_args(Kind), (1e-3, 0.02, 0.4, 1.0, 7.3, 40.0, 100.0), range(2, 13, 2)):
        delta = 0.0 if kind == "pure" else 10.0**-exponent
        for slack in (0.0, delta / 8) if kind == "rdp" else (0.0,):
            try:
                rule = Filter.open(kind, Privacy(epsilon, delta), slack)
            except OutOfRange:
                continue
            opening = ledgers.chain(rule=rule)[0]
            tops = rule.thresholds
            # A cover of an order is computed less exactly in the browser.
            relative_step = 10**7 if kind == "gdp_rdp" else 10**8
            for i, top in ((0, tops[0]), *((i, top + 3 + top // relative_step) for i, top in enumerate(tops))):
                raised = [*map(str, tops[:i]), str(top), *map(str, tops[i + 1 :])]
                body = opening.body | {"filter": opening.body["filter"] | {"thresholds": raised}}
                cases.append(relinked([replace(opening, body=body)]))
                holds.append(top == tops[i])
    assert [refusal(case) is None for case in cases] == holds
    page_results = ledger.answers("summary", [[[entry.to_json() for entry in case]] for case in cases])
    assert ["error" not in answer for answer in page_results] == holds


def of_queries(*queries: PlannedQuery, epsilon: float = 50.0, delta: float = 1e-6, **more: Any) -> receipt.Receipt:
    plan = Plan(queries)
    return make(release_plan=ReleasePlan(plan, epsilon, delta, "any", "1"), transcript=plan, **more)


def answers(*mechanisms: Mechanism) -> list[PlannedQuery]:
    return [PlannedQuery(f"q{i}", i + 1, mechanism, 50.0 + i) for i, mechanism in enumerate(mechanisms)]


def documents() -> dict[str, tuple[receipt.Receipt, list[Entry] | None]]:
    """Return receipts that hold, and the ledgers of some of them. Together they have every mechanism."""
    profile = {"job": "p1", "sha256": MODEL}
    jobs = ledgers.chain(*ledgers.job("p1", method="profile"), *ledgers.job("j1"))
    trial = {"plan": plan_to_json(Plan((PlannedQuery("score", 2, Gaussian(), 80.0),)))}
    tuning = of_queries(PlannedQuery("selection", 1, Selection(4), 50.0))
    gaussian = sessions.plan(sessions.many(sessions.GAUSSIAN, 10), relation="zero_out")
    pure = sessions.plan(sessions.many(sessions.PURE, 5), sessions.LAPLACE)
    return {
        "release": (ledgers.signed(entry=jobs[-1], profile=profile)["receipt"], jobs),
        "session": sessions.ended_session(sessions.RULE, gaussian, [4]),
        "pure session": sessions.ended_session(sessions.PURE_RULE, pure, [2, 1]),
        "tuning": (tuning | {"method": {"name": "tuning", "repeats": 2, "trials": [trial, trial]}}, None),
        "gaussian": (
            of_queries(
                *answers(LastIterate(100, 0.9), Parallel(Gaussian(), 5), PoissonGaussian(1.0)), unit=Unit("person", 8)
            ),
            None,
        ),
        "pure": (of_queries(*answers(Laplace(), Exponential(), Parallel(Laplace(), 9)), delta=0.0), None),
        "resampled": (of_queries(*answers(Resampled(Parallel(Laplace(), 7), 20_000))), None),
        "others": (
            of_queries(
                *answers(SvrgStep(10, 20_000), WithoutReplacement(10, 2000), RandomAllocation(0.5, 20)),
                PlannedQuery("iterate", 1, RandomIterate(20), 50.0),
                *(
                    PlannedQuery(each.name, 1, each, 50.0)
                    for each in (ObjectivePerturbation(0.1), PoissonGaussian(0.1))
                ),
                PlannedQuery("row", 1, RowObjectivePerturbation(0.1), 50.0),
            ),
            None,
        ),
    }


DOCUMENTS = documents()


def signed(stated: Any) -> str:
    """Return the text of the document, signed if the receipt has a canonical form that a signature may cover."""
    try:
        return canonical_text({"receipt": stated, "signature": sign_json(stated, KEY)})
    except AccountingError:
        return json.dumps({"receipt": stated, "signature": "a.b.c"})


def receipt_refusal(text: str, entries: list[Entry] | None) -> str | None:
    """Return why Python refuses the document; None if it holds."""
    try:
        document = receipt.read(text)
        result = verify_receipt(document, KEYS, entries) if entries else receipt.verify(document, KEYS)
    except ReceiptInvalid as error:
        return str(error)
    return result.reason


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_changed_receipt_is_refused_by_both_or_by_neither(page: Module, name: str) -> None:
    """The page shows as not computed what it does not decide."""
    stated, entries = DOCUMENTS[name]
    changed = changes(stated)
    if name == "others":  # its event tree is long, and is not compared in the browser
        changed = (stated | {"queries": queries} for queries in changes(stated["queries"]))
    texts = [signed(each) for each in (stated, *changed) if isinstance(each, dict)]
    files = [] if entries is None else [to_lines(entries).decode()]
    page_results = page.answers("results", [[[text, *files], json.dumps(KEYS)] for text in texts])
    for i, (text, answer) in enumerate(zip(texts, page_results, strict=True)):
        assert answer.get("error", "Invalid") == "Invalid", answer
        holds = "error" not in answer and answer["value"]["holds"]
        reason = receipt_refusal(text, entries)
        assert i > 0 or reason is None
        if holds is None:
            assert any("not recomputed here" in check["says"] for check in answer["value"]["checks"])
            assert reason is None or not_checked(reason), (reason, text)
        else:
            assert holds is (reason is None), (reason, answer, text)
