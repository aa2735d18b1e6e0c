"""The ledger that a browser follows, a second writing of `accounting.records.offline`: both say the same."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Browser

from accounting import Privacy, Unit
from accounting.calibration import calibrate
from accounting.filter import Filter
from accounting.mechanisms import Laplace
from accounting.plan import Query
from accounting.records.chain import Entry
from accounting.records.events import Charged, Joined, LedgerEvent, Opened, Promised, Refunded, RolledBack, Started
from accounting.records.ledger import LedgerState, advance, spent_epsilon
from accounting.records.offline import shares, verify_ledger
from tests.support.javascript import Module, Thrown, in_page
from tests.support.ledgers import BROKEN, LEDGER, NOT_HELD, RULE, chain, job, relinked, signed, told_of
from tests.support.receipts import AT, GD, SVRG

PLANS = {"ada": (GD, 0.5), "bob": (SVRG, 0.3), "cyn": (GD, 0.2)}


@pytest.fixture(scope="module")
def module(browser: Browser) -> Iterator[Module]:
    with in_page(browser, "ledger.js") as imported:
        yield imported


def told(module: Module, entries: Sequence[Entry], epsilons: Sequence[float] = (), delta: float = 1e-6) -> Any:
    return module.call("told", [entry.to_json() for entry in entries], list(epsilons), delta)


def extended(entries: Sequence[Entry], state: LedgerState, *events: LedgerEvent) -> tuple[list[Entry], LedgerState]:
    found = list(entries)
    for event in events:
        state, entry = advance(state, event, AT)
        found.append(entry)
    return found, state


@pytest.mark.parametrize(("ledger", "why"), NOT_HELD.values(), ids=NOT_HELD)
def test_a_receipt_that_the_ledger_does_not_hold_is_found(module: Module, ledger: list[Entry], why: str) -> None:
    """In the same words, except what a charge must be for these queries, which is not computed here."""
    found = module.call("wrong", [entry.to_json() for entry in ledger], told_of(ledger, why)["receipt"])
    assert found == (None if "these queries" in why else why)


def test_a_receipt_is_found_in_its_ledger(module: Module) -> None:
    joined = chain(*job("j1"), Joined("d2", 50, "ada"), *job("j2"), dataset="d0")
    for dataset, rows, holds in (("d0", 20_000, True), ("d2", 50, True), ("d2", 20_000, False), ("d1", 50, False)):
        said = signed(entry=joined[7], job="j2", dataset=dataset, records=rows)["receipt"]
        assert (module.call("wrong", [entry.to_json() for entry in joined], said) is None) is holds
    for registered, claimed in product((None, Unit(), Unit("person", 8)), (Unit(), Unit("person", 8))):
        state, first = advance(None, Opened("d1", 20_000, RULE, unit=registered), AT)
        entries, _ = extended([first], state, *job("j1"))
        said = signed(entry=entries[3], unit=claimed)["receipt"]
        found = module.call("wrong", [entry.to_json() for entry in entries], said)
        assert (found is None) is (claimed == (registered or Unit()))


def busy(kind: Any) -> tuple[list[Entry], LedgerState]:
    """Three analysts, a refund, a larger promise."""
    privacy = Privacy(2.0, 0.0 if kind == "pure" else 1e-6)
    rule = Filter.open(kind, privacy)
    entries = chain(rule=rule)
    state = verify_ledger(entries)
    for who, (queries, epsilon) in PLANS.items():
        asked = (Query("a", 3, Laplace()),) if kind == "pure" else GD if kind == "gdp" else queries
        own = Privacy(epsilon, privacy.delta)
        cost = rule.cost(calibrate(asked, own).plan)
        entries, state = extended(entries, state, Charged(f"j-{who}", cost, own, who, "d1", f"m-{len(asked)}"))
    refund = Refunded("j-cyn", rule.cost(calibrate(asked, own).plan), False)
    larger = Promised(rule.raised(Privacy(2.5, privacy.delta)), "steward")
    return extended(entries, state, Started("j-ada", 1), refund, larger)


@pytest.mark.parametrize("kind", ["gdp", "rdp", "gdp_rdp", "pure"])
def test_shares_and_the_curve_are_those_of_the_server(module: Module, kind: Any) -> None:
    entries, state = busy(kind)
    delta = state.filter.privacy.delta
    found = told(module, entries, (0.05, 0.5, 1.0, 2.0, 5.0), delta)
    assert found["head"] == str(entries[-1].head)
    parts = shares(entries, state)
    by = {entry.body["analyst"]: parts[entry.sequence] for entry in entries if entry.sequence in parts}
    assert {name: share for name, share, _ in found["analysts"]} == pytest.approx(by, rel=1e-12)
    assert sum(share for _, share, _ in found["methods"]) == pytest.approx(sum(by.values()), rel=1e-12)
    assert found["share"] == pytest.approx(sum(by.values()), rel=1e-12)
    assert found["epsilon"] == pytest.approx(spent_epsilon(state), rel=1e-8)
    history = found["history"]
    assert history["total"][-1] == pytest.approx(found["share"], rel=1e-12)
    assert history["total"][2] > history["total"][3], "what was refunded is back"
    assert [name for name, _ in history["parts"]] == [*PLANS]
    if kind != "pure":
        for epsilon, found_delta in zip((0.05, 0.5, 1.0, 2.0, 5.0), found["deltas"], strict=True):
            assert 0 < found_delta <= 1 + 1e-6
            again = told(module, entries, (), found_delta)["epsilon"]
            assert again <= epsilon * (1 + 1e-9), "the least"
            assert told(module, entries, (again,))["deltas"][0] == pytest.approx(found_delta, rel=1e-9)
    else:
        assert found["deltas"] == [None] * 5


def test_a_job_that_took_the_whole_budget_has_all_of_it(module: Module) -> None:
    """And what was lost in a rollback may have been charged: then nobody takes all."""
    paid = (RULE.thresholds[0] + 1,)
    entries, state = extended(chain(), verify_ledger(chain()), Charged("j", paid, Privacy(2.0, 1e-6), "ada"))
    assert state.whole
    assert told(module, entries)["analysts"] == [["ada", 1, 1]]
    lost = extended(chain(), verify_ledger(chain()), RolledBack("a disk", None))[0]
    forged = [*lost, entries[1]]
    with pytest.raises(Thrown, match="does not follow"):
        told(module, forged)


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - {"nothing", "the end is missing", "rewritten"}))
def test_what_was_done_to_a_ledger_is_found(module: Module, name: str) -> None:
    """What needs a head to be found, a head finds: `tests/pages/test_audit.py`."""
    entries = BROKEN[name][0]()
    assert told(module, LEDGER)["head"] == str(LEDGER[-1].head)
    with pytest.raises(Thrown):
        told(module, entries)


def test_no_byte_of_an_entry_can_be_changed(module: Module) -> None:
    for at, entry in enumerate(LEDGER):
        changes: list[dict[str, Any]] = [{"sequence": entry.sequence + 1}, {"kind": "failed"}, {"hash": "ab" * 32}]
        changes += [{"previous_hash": "0" * 64}, {"body": entry.body | {"at": "2027"}}, {"more": 1}, {"body": [1]}]
        for change in changes:
            document = [each.to_json() for each in LEDGER]
            if document[at] | change != document[at]:
                document[at] = document[at] | change
                with pytest.raises(Thrown):
                    module.call("told", document)


def test_more_than_the_filter_admits_is_refused_though_every_hash_is_right(module: Module) -> None:
    """A charge that says it fits and does not; one beside others that takes all; a job charged twice."""
    dear = chain(*job("j1"))
    second = {**dear[1].body, "job": "j2", "cost": [str(RULE.thresholds[0])]}
    for body in (second, second | {"whole": True}, dear[1].body):
        forged = relinked([*dear, Entry(5, "charged", body, "", "")])
        with pytest.raises(Thrown, match="entry 5"):
            told(module, forged)
    negative = relinked([*dear, Entry(5, "charged", second | {"cost": ["-1"]}, "", "")])
    with pytest.raises(Thrown, match="entry 5"):
        told(module, negative)
    assert told(module, dear)["share"] > 0
