"""`purse ledger` and `purse receipt verify --ledger` on files: what they choose, what they refuse, and why."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.filter import Filter
from accounting.records import signing
from accounting.records.chain import Entry, to_lines
from accounting.records.events import LedgerEvent, Opened, Promised, Refunded, Released, SessionRule, Started
from accounting.records.heads import sign_head
from accounting.records.ledger import advance
from accounting.records.signing import sign_json
from app.cli.entries import COLUMNS, EntryFilter, as_csv, rows
from app.cli.receipts import facts
from purse import Receipt
from purse.receipts import NotVerified
from purse.wire.receipts import KeySet, ReceiptDocument
from tests.support import cli, sessions
from tests.support.chains import charge_of
from tests.support.ledgers import chain, job
from tests.support.receipts import GD, KEY, KEYS, MODEL, make

RULE = Filter.open("gdp", Privacy(2.0, 1e-6))
COST = RULE.cost(calibrate(GD, Privacy(0.5, 1e-6)).plan)


def ledger() -> list[Entry]:
    promise = Privacy(0.5, 1e-6)
    events: list[LedgerEvent] = [
        Opened("d1", 20_000, RULE),
        charge_of("j1", COST, promise, "ada", "d1", "dp_gd"),
        Started("j1", 1),
        Released("j1", 1, MODEL),
        charge_of("j2", COST, promise, "bob"),
        Refunded("j2", COST, False),
    ]
    state, entries = None, []
    for day, event in enumerate(events, 1):
        state, entry = advance(state, event, f"2026-11-{day:02d}T12:00:00.000Z")
        entries.append(entry)
    return entries


LEDGER = ledger()


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (EntryFilter(), [1, 2, 3, 4, 5, 6]),
        (EntryFilter(kind="charged"), [2, 5]),
        (EntryFilter(job="j2"), [5, 6]),
        (EntryFilter(since=datetime(2026, 11, 4, 12)), [4, 5, 6]),
        (EntryFilter(since=datetime(2026, 11, 4, 12, 0, 1), kind="charged"), [5]),
        (EntryFilter(analyst="nobody"), []),
        (EntryFilter(analyst="ada"), [2, 3, 4]),
    ],
)
def test_entries_are_chosen(selection: EntryFilter, chosen: list[int]) -> None:
    assert [entry.sequence for entry in selection.among(LEDGER)] == chosen
    assert selection.is_all == (len(chosen) == len(LEDGER))


def test_csv_holds_no_formula_and_every_hash() -> None:
    table = list(csv.DictReader(io.StringIO(as_csv(LEDGER, LEDGER).decode())))
    assert [row["hash"] for row in table] == [entry.hash for entry in LEDGER]
    assert [tuple(row)[: len(COLUMNS)] for row in table] == [COLUMNS] * 6
    assert [table[1][name] for name in ("epsilon", "what", "who", "method")] == ["0.5", "j1", "ada", "dp_gd"]
    assert [row["who"] for row in table] == ["", "ada", "ada", "ada", "bob", "bob"]
    sly = [replace(LEDGER[0], kind="=cmd()")]
    assert next(csv.DictReader(io.StringIO(as_csv(LEDGER, sly).decode())))["kind"] == "'=cmd()"
    assert [row["share"] != "" for row in table] == [False, True, False, False, False, False]
    assert float(table[1]["share"]) == pytest.approx(COST[0] / RULE.thresholds[0])


def test_a_rule_for_sessions_is_listed_with_its_steward() -> None:
    _, entries = sessions.run(RULE, SessionRule("d1", "no_refund", "eve"))
    cells = dict(zip(COLUMNS, rows(entries, entries)[1], strict=True))
    assert [cells[name] for name in ("kind", "who", "what")] == ["session_rule", "eve", "no_refund"]


def test_a_table_has_a_cell_for_each_column() -> None:
    assert {len(row) for row in rows(LEDGER, LEDGER)} == {len(COLUMNS)}


Purse = Callable[..., tuple[int, str, str]]


@pytest.fixture
def purse(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Purse:
    """Runs `purse` beside an exported ledger, a receipt of its fourth entry, keys and a signed head."""
    built = make(entry=LEDGER[3], issued_at=LEDGER[3].body["at"])
    documents = {
        "receipt.json": {"receipt": built, "signature": sign_json(built, KEY)},
        "keys.json": KEYS,
        "strangers.json": signing.jwks(signing.generate_key()),
        "head.json": sign_head("d1", LEDGER[-1], KEY),
    }
    for name, document in documents.items():
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "ledger.jsonl").write_bytes(to_lines(LEDGER))
    (tmp_path / "cut.jsonl").write_bytes(to_lines(LEDGER[:5]))

    def run(*arguments: str) -> tuple[int, str, str]:
        resolved = [str(tmp_path / a) if (tmp_path / a).is_file() else a for a in arguments]
        return cli.purse(capsys, *resolved)

    return run


def test_an_export_is_verified_against_saved_heads(purse: Purse) -> None:
    heads = ("--head", str(LEDGER[1].head), "--head", "head.json", "--head", "receipt.json", "--keys", "keys.json")
    code, out, err = purse("ledger", "verify", "ledger.jsonl", *heads)
    assert (code, err) == (0, "")
    assert out.count("contains") == 3
    report = json.loads(purse("ledger", "verify", "ledger.jsonl", "--json")[1])
    assert (report["entries"], report["jobs"], report["head"]) == (6, 1, str(LEDGER[-1].head))
    assert 0 < report["spent"]["epsilon"] < 0.5 < report["remaining"]["epsilon"] < report["budget"]["epsilon"] == 2.0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("cut.jsonl", "--head", "head.json", "--keys", "keys.json"), "is not valid: the chain ends at entry 5"),
        (("ledger.jsonl", "--head", f"3:{'0' * 64}"), "is not valid: the chain does not contain the head 3:0"),
        (("ledger.jsonl", "--head", "3"), "--head 3: a head must be SEQUENCE:HASH"),
        (("ledger.jsonl", "--head", "head.json"), "with --keys"),
        (("ledger.jsonl", "--head", "head.json", "--keys", "strangers.json"), "no trusted key made this signature"),
        (("ledger.jsonl", "--head", "ledger.jsonl", "--keys", "keys.json"), "is not JSON"),
        (("keys.json",), "is not an exported ledger in JSON lines"),
    ],
)
def test_a_failed_verification_is_reported_on_one_line(purse: Purse, arguments: tuple[str, ...], why: str) -> None:
    code, out, err = purse("ledger", "verify", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert why in err


def test_a_receipt_is_looked_up_in_an_export(purse: Purse) -> None:
    verify = ("receipt", "verify", "receipt.json")
    code, out, _ = purse(*verify, "--ledger", "ledger.jsonl", "--head", "head.json")
    assert code == 0
    assert "has this release" in out
    code, _, err = purse(*verify, "--ledger", "cut.jsonl", "--head", "head.json")
    assert (code, "entries are missing" in err) == (1, True)
    code, _, err = purse(*verify, "--head", "head.json")
    assert (code, "purse: " in err, "head" in err) == (1, True, True)
    code, _, err = purse(*verify, "--ledger", "ledger.jsonl", "--keys", "strangers.json")
    assert (code, "trusted key" in err) == (1, True)


def test_entries_of_a_session_name_it_and_its_analyst() -> None:
    _, entries = sessions.ended_session(sessions.RULE, sessions.plan(sessions.many(sessions.GAUSSIAN, 5)), [2])
    reserved, settled = rows(entries, EntryFilter(analyst="ada").among(entries))
    assert [row[2:5] for row in (reserved, settled)] == [("reserved", "ada", "s1"), ("settled", "ada", "s1")]
    assert 0 < float(str(reserved[-1])) < 1, "what stays charged"
    assert settled[-1] == ""


def test_a_changed_budget_is_stated() -> None:
    ledger = chain(*job("j1"), Promised(RULE.raised(Privacy(6.0, 1e-6)), "eve"))
    assert rows(ledger, ledger)[-1][2:5] == ("promised", "eve", "budget of epsilon 6")


def test_the_receipt_of_a_session_is_shown_and_verified(purse: Purse, tmp_path: Path) -> None:
    stated, entries = sessions.ended_session(sessions.RULE, sessions.plan(sessions.many(sessions.GAUSSIAN, 5)), [2])
    document = sessions.signed(stated)
    (tmp_path / "session.json").write_text(json.dumps(document))
    (tmp_path / "sessions.jsonl").write_bytes(to_lines(entries))
    code, out, err = purse("receipt", "verify", "session.json", "--keys", "keys.json", "--ledger", "sessions.jsonl")
    assert (code, err) == (0, "")
    assert "has this session" in out
    saved = Receipt(ReceiptDocument.model_validate(document), KeySet.model_validate(KEYS))
    fields = dict(facts(saved))
    assert fields["analyst, session"] == "ada, s1"
    assert str(fields["recorded"]).startswith("2 of 5 GaussianDpEvent")
    assert "s1" in repr(saved)
    with pytest.raises(NotVerified):
        saved.verify(model={"kind": "linear"})
