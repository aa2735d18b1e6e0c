"""The ledger that a browser follows, a second writing of `accounting.records.offline`: both say the same."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Browser

from accounting import Privacy, Unit
from accounting.calibration import calibrate
from accounting.errors import LedgerInvalid
from accounting.filter import Filter
from accounting.mechanisms import Laplace
from accounting.plan import Query
from accounting.records.chain import Entry
from accounting.records.events import (
    External,
    Joined,
    LedgerEvent,
    Opened,
    Promised,
    Refunded,
    RolledBack,
    SessionPolicy,
    SessionRule,
    Settled,
    Started,
)
from accounting.records.filters import cost_to_json
from accounting.records.ledger import LedgerState, advance, spent_epsilon
from accounting.records.offline import shares, verify_ledger
from tests.support.chains import AT, charge_of
from tests.support.javascript import Module, Thrown, in_page
from tests.support.ledgers import LEDGER, NOT_HELD, RULE, chain, job, relinked, signed, unrecorded_receipt
from tests.support.receipts import GD, SVRG
from tests.support.sessions import GAUSSIAN, SAMPLED, TARGETED, ended_session, many, plan, reserved, settled
from tests.support.sessions import RELEASE as CALIBRATED
from tests.support.sessions import RULE as MIXED
from tests.support.sessions import run as run_sessions

OUTSIDE = External("d1", "old", GAUSSIAN, MIXED.cost(plan(GAUSSIAN)), True, "eve")
RAISED = Promised(MIXED.raised(Privacy(20.0, 1e-6)), "eve")
PLANS = {"ada": (GD, 0.5), "bob": (SVRG, 0.3), "cyn": (GD, 0.2)}


@pytest.fixture(scope="module")
def module(browser: Browser) -> Iterator[Module]:
    with in_page(browser, "ledger.js") as imported:
        yield imported


def computed(module: Module, entries: Sequence[Entry], epsilons: Sequence[float] = (), delta: float = 1e-6) -> Any:
    return module.call("summary", [entry.to_json() for entry in entries], list(epsilons), delta)


def extended(entries: Sequence[Entry], state: LedgerState, *events: LedgerEvent) -> tuple[list[Entry], LedgerState]:
    longer = list(entries)
    for event in events:
        state, entry = advance(state, event, AT)
        longer.append(entry)
    return longer, state


@pytest.mark.parametrize(("ledger", "why"), NOT_HELD.values(), ids=NOT_HELD)
def test_a_receipt_that_is_not_in_the_ledger_is_detected(module: Module, ledger: list[Entry], why: str) -> None:
    """The reason is the same as in Python, except for the queries' charge, which the page does not compute."""
    reason = module.call("wrong", [entry.to_json() for entry in ledger], unrecorded_receipt(ledger, why)["receipt"])
    assert reason == (None if "these queries" in why else why)


def test_a_receipt_in_its_ledger_is_confirmed(module: Module) -> None:
    joined = chain(*job("j1", dataset="d0"), Joined("d2", 50, "ada"), *job("j2", dataset="d2"), dataset="d0")
    for dataset, rows, holds in (("d2", 50, True), ("d2", 20_000, False), ("d0", 20_000, False), ("d1", 50, False)):
        statement = signed(entry=joined[7], job="j2", dataset=dataset, records=rows)["receipt"]
        assert (module.call("wrong", [entry.to_json() for entry in joined], statement) is None) is holds
    for registered, claimed in product((Unit(), Unit("person", 8)), repeat=2):
        state, first = advance(None, Opened("d1", 20_000, RULE, unit=registered), AT)
        entries, _ = extended([first], state, *job("j1"))
        statement = signed(entry=entries[3], unit=claimed)["receipt"]
        reason = module.call("wrong", [entry.to_json() for entry in entries], statement)
        assert (reason is None) is (claimed == registered)


def busy(kind: Any) -> tuple[list[Entry], LedgerState]:
    """Return a ledger with three analysts, a refund and a larger budget, and its state."""
    privacy = Privacy(2.0, 0.0 if kind == "pure" else 1e-6)
    rule = Filter.open(kind, privacy)
    entries = chain(rule=rule)
    state = verify_ledger(entries)
    for analyst, (queries, epsilon) in PLANS.items():
        charged_queries = (Query("a", 3, Laplace()),) if kind == "pure" else GD if kind == "gdp" else queries
        own = Privacy(epsilon, privacy.delta)
        cost = rule.cost(calibrate(charged_queries, own).plan)
        entries, state = extended(
            entries, state, charge_of(f"j-{analyst}", cost, own, analyst, "d1", f"m-{len(charged_queries)}")
        )
    refund = Refunded("j-cyn", rule.cost(calibrate(charged_queries, own).plan), False)
    larger = Promised(rule.raised(Privacy(2.5, privacy.delta)), "steward")
    return extended(entries, state, Started("j-ada", 1), refund, larger)


@pytest.mark.parametrize("kind", ["gdp", "rdp", "gdp_rdp", "pure"])
def test_shares_and_the_curve_equal_those_of_the_server(module: Module, kind: Any) -> None:
    entries, state = busy(kind)
    delta = state.filter.privacy.delta
    result = computed(module, entries, (0.05, 0.5, 1.0, 2.0, 5.0), delta)
    assert result["head"] == str(entries[-1].head)
    parts = shares(entries, state)
    by = {entry.body["analyst"]: parts[entry.sequence] for entry in entries if entry.sequence in parts}
    assert {name: share for name, share, _ in result["analysts"]} == pytest.approx(by, rel=1e-12)
    assert sum(share for _, share, _ in result["methods"]) == pytest.approx(sum(by.values()), rel=1e-12)
    assert result["share"] == pytest.approx(sum(by.values()), rel=1e-12)
    assert result["epsilon"] == pytest.approx(spent_epsilon(state), rel=1e-8)
    history = result["history"]
    assert history["total"][-1] == pytest.approx(result["share"], rel=1e-12)
    assert history["total"][2] > history["total"][3], "the refund reduces the share"
    assert [name for name, _ in history["parts"]] == [*PLANS]
    if kind != "pure":
        for epsilon, found_delta in zip((0.05, 0.5, 1.0, 2.0, 5.0), result["deltas"], strict=True):
            assert 0 < found_delta <= 1 + 1e-6
            again = computed(module, entries, (), found_delta)["epsilon"]
            assert again <= epsilon * (1 + 1e-9), "the smallest epsilon"
            assert computed(module, entries, (again,))["deltas"][0] == pytest.approx(found_delta, rel=1e-9)
    else:
        assert result["deltas"] == [None] * 5


def test_a_job_that_took_the_whole_budget_has_all_of_it(module: Module) -> None:
    """After a rollback, lost charges are possible, so no job has all of it."""
    paid = (RULE.thresholds[0] + 1,)
    entries, state = extended(chain(), verify_ledger(chain()), charge_of("j", paid, Privacy(2.0, 1e-6), "ada"))
    assert state.whole
    assert computed(module, entries)["analysts"] == [["ada", 1, 1]]
    lost = extended(chain(), verify_ledger(chain()), RolledBack("a disk", None))[0]
    forged = [*lost, entries[1]]
    with pytest.raises(Thrown, match="does not follow"):
        computed(module, forged)


def test_no_byte_of_an_entry_can_be_changed(module: Module) -> None:
    for at, entry in enumerate(LEDGER):
        changes: list[dict[str, Any]] = [{"sequence": entry.sequence + 1}, {"kind": "failed"}, {"hash": "ab" * 32}]
        changes += [{"previous_hash": "0" * 64}, {"body": entry.body | {"at": "2027"}}, {"more": 1}, {"body": [1]}]
        for change in changes:
            document = [each.to_json() for each in LEDGER]
            if document[at] | change != document[at]:
                document[at] = document[at] | change
                with pytest.raises(Thrown):
                    module.call("summary", document)


def test_a_charge_beyond_the_filter_is_refused_although_every_hash_is_right(module: Module) -> None:
    """A charge falsely states that it fits, takes the whole budget besides others, or is a second one of its job."""
    dear = chain(*job("j1"))
    second = {**dear[1].body, "job": "j2", "cost": [str(RULE.thresholds[0])]}
    for body in (second, second | {"whole": True}, dear[1].body):
        forged = relinked([*dear, Entry(5, "charged", body, "", "")])
        with pytest.raises(Thrown, match="entry 5"):
            computed(module, forged)
    negative = relinked([*dear, Entry(5, "charged", second | {"cost": ["-1"]}, "", "")])
    with pytest.raises(Thrown, match="entry 5"):
        computed(module, negative)
    assert computed(module, dear)["share"] > 0


PLANNED = plan(many(SAMPLED, 20), SAMPLED)
OWN = Privacy(CALIBRATED.epsilon, CALIBRATED.delta)


def test_sessions_are_followed_as_in_python(module: Module) -> None:
    """Sessions are refunded in part, in full and not at all, and one takes the whole budget."""
    lost, no_refund = RolledBack("disk lost", None), SessionRule("d1", "no_refund", "eve")
    without_refund = Settled("s1", [1], MIXED.zero_cost, False, "closed")
    stories: list[list[LedgerEvent]] = [
        [reserved(MIXED, PLANNED), settled(MIXED, PLANNED, [3, 0])],
        [reserved(MIXED, PLANNED), settled(MIXED, PLANNED, [0, 0])],
        [reserved(MIXED, PLANNED), Settled("s1", [3, 0], MIXED.zero_cost, False, "expired")],
        [reserved(MIXED, PLANNED), lost, Settled("s1", [3, 0], MIXED.zero_cost, False, "closed")],
        [reserved(MIXED, PLANNED), reserved(MIXED, PLANNED, "s2"), settled(MIXED, PLANNED, [3, 1], "s2")],
        [reserved(MIXED, TARGETED, guarantee=OWN), settled(MIXED, TARGETED, [1], whole=True)],
        [reserved(MIXED, TARGETED, guarantee=OWN), settled(MIXED, TARGETED, [0], whole=True)],
        [reserved(MIXED, TARGETED, guarantee=OWN), OUTSIDE, without_refund],
        [reserved(MIXED, TARGETED, guarantee=OWN), OUTSIDE, settled(MIXED, TARGETED, [0])],
        [reserved(MIXED, TARGETED, guarantee=OWN), OUTSIDE, RAISED, settled(MIXED, TARGETED, [1])],
        [reserved(MIXED, PLANNED), no_refund, settled(MIXED, PLANNED, [3, 0])],
        [no_refund, SessionRule("d1", "refund", "eve"), reserved(MIXED, PLANNED), settled(MIXED, PLANNED, [3, 0])],
    ]
    for story in stories:
        state, entries = run_sessions(MIXED, *story)
        result = computed(module, entries)
        assert result["head"] == str(entries[-1].head)
        assert result["share"] == pytest.approx(sum(shares(entries, state).values()), rel=1e-12)
        assert result["history"]["total"][-1] == pytest.approx(result["share"], rel=1e-12)


def test_no_refund_of_answers_is_followed(module: Module) -> None:
    """test_verifiers_agree.py changes each value of the entries of a session, and their order."""
    _, good = run_sessions(MIXED, reserved(MIXED, PLANNED), settled(MIXED, PLANNED, [3, 0]))
    _, whole = run_sessions(MIXED, reserved(MIXED, TARGETED, guarantee=OWN), settled(MIXED, TARGETED, [1], whole=True))
    changes: list[tuple[list[Entry], dict[str, Any]]] = [
        (good, {"refund": good[1].body["cost"]}),
        (good, {"recorded": [21, 0]}),
        (good, {"reason": "expired"}),
        (good, {"session": "s2"}),
        (whole, {"refund": ["1", *whole[2].body["refund"][1:]]}),
    ]
    for entries, change in changes:
        forged = relinked([*entries[:2], replace(entries[2], body=entries[2].body | change)])
        with pytest.raises(Thrown):
            computed(module, forged)


def test_a_refund_that_a_rule_or_a_whole_budget_forbids_is_refused(module: Module) -> None:
    """Python never writes such a ledger, or refuses it."""
    _, whole = run_sessions(MIXED, reserved(MIXED, TARGETED, guarantee=OWN), OUTSIDE, settled(MIXED, TARGETED, [0]))
    part = {"recorded": [1], "refund": cost_to_json(settled(MIXED, TARGETED, [1]).refund)}
    forged = [relinked([*whole[:3], replace(whole[3], body=whole[3].body | part)])]
    rules: tuple[SessionPolicy, ...] = ("no_refund", "refused")
    for rule in rules:
        reservation: list[LedgerEvent] = [reserved(MIXED, PLANNED), settled(MIXED, PLANNED, [3, 0])]
        forged.append(run_sessions(MIXED, SessionRule("d1", rule, "eve"), *reservation)[1])
        opening, *later = run_sessions(MIXED, *reservation)[1]
        forged.append(relinked([replace(opening, body=opening.body | {"session_rule": rule}), *later]))
    for entries in forged:
        with pytest.raises(LedgerInvalid):
            verify_ledger(entries)
        with pytest.raises(Thrown):
            computed(module, entries)


def test_another_currency_after_a_full_refund_is_followed(module: Module) -> None:
    """The history restarts, because earlier charges are vectors of another length."""
    rule = Filter.open("gdp", MIXED.privacy)
    gaussian = plan(GAUSSIAN)
    state, entries = run_sessions(rule, reserved(rule, gaussian), settled(rule, gaussian, [0]))
    entries, _ = extended(entries, state, Promised(MIXED, "steward"), reserved(MIXED, PLANNED, "s2"))
    result = computed(module, entries)
    assert result["head"] == str(entries[-1].head)
    assert result["history"]["total"] == [result["share"]]


def test_the_receipt_of_a_session_is_found_in_its_ledger(module: Module) -> None:
    stated, entries = ended_session(MIXED, PLANNED, [3, 1])
    ledger = [entry.to_json() for entry in entries]
    assert module.call("wrong", ledger, stated) is None
    first, second = stated["plan"]
    for change, why in (
        ({"analyst": "bob"}, "the ledger reserved for another analyst or dataset"),
        ({"plan": [first | {"count": 19}, second]}, "the ledger reserved another plan"),
        ({"charged": "plan"}, "the ledger charged another part of the plan"),
        ({"rows": 7}, "the ledger has no such dataset, or other records or neighbors"),
        ({"plan": [first | {"recorded": 2}, second]}, "the ledger's entry is not this session"),
        ({"session": "s2"}, "the ledger's entry is not this session"),
        ({"sequence": 9}, "the ledger ends before this session"),
    ):
        assert module.call("wrong", ledger, stated | change) == why
