"""A start from a signed checkpoint leads to the state of a whole replay, and no tampering gets past it for long."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from accounting.errors import CodecError
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.chain import Head
from accounting.records.documents import canonical, parse
from accounting.records.events import Joined, Opened
from accounting.records.ledger import advance
from accounting.records.replay import Replay
from accounting.records.signing import rotate_key
from app import services
from app.ledger import audit, batches, checkpoints, store
from app.ledger.audit import UnsoundLedger
from app.ledger.checkpoints import Checkpoints
from app.ledger.epoch import Epoch
from app.ledger.keys import SigningKeys
from tests.service.conftest import MakeService
from tests.support import held_sessions as sessions
from tests.support.patience import PATIENCE, until
from tests.support.world import World

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after each entry, several pages in a ledger of five, and a first look at once."""
    monkeypatch.setattr(checkpoints, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "MOST_UNSIGNED", 1)
    monkeypatch.setattr(audit, "PAGE", 2)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A ledger with a released and a queued job, whose checkpoint is two entries old."""
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    world.release(dataset)
    _signed(world)
    world.submit(dataset, privacy={"epsilon": 0.2})
    yield world
    world.database.close()


def _verified_checkpoints(world: World, refused: Callable[[str], None] = pytest.fail) -> Checkpoints:
    """Return checkpoints that were verified as at a start."""
    checkpoints = Checkpoints(world.database, SigningKeys(world.settings.home), refused)
    checkpoints.verify(_heads(world))
    return checkpoints


def _heads(world: World) -> dict[str, Head]:
    """Return the newest heads, as the epoch file has them after every commit was published."""
    with world.database.read() as connection:
        return batches.heads(connection)


def _signed(world: World) -> None:
    """Sign checkpoints as a clean stop does."""
    checkpoints = _verified_checkpoints(world)
    checkpoints.start()
    until(lambda: checkpoints.are_confirmed)
    checkpoints.stop()


def _documents(world: World) -> list[tuple[str, str, str]]:
    with world.database.read() as connection:
        return [tuple(row) for row in connection.execute(sa.text("select * from checkpoints order by 1"))]


def _change(world: World, statement: str, **values: object) -> None:
    with world.database.write() as connection:
        assert connection.execute(sa.text(statement), values).rowcount > 0


def test_a_start_follows_only_the_entries_after_the_checkpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, read = audit.verify(world.database), list[int]()
    entries = store.entries

    def noted(connection: sa.Connection, dataset: str, after: int = 0, limit: int = 100) -> object:
        read.append(after)
        return entries(connection, dataset, after, limit)

    with monkeypatch.context() as patch:
        patch.setattr(store, "entries", noted)
        _verified_checkpoints(world)
    assert min(read) == 4
    assert set(whole.values()) == {None}
    _signed(world)
    [(ledger, document, _)] = _documents(world)
    replay = Replay()
    with world.database.read() as connection:
        replay.follow(store.entries(connection, ledger))
        rows = batches.rows_of(connection, [ledger])[ledger].sha256
    assert json.loads(document) == {"replay": replay.to_json(), "rows": rows}


def _forged(document: str) -> str:
    content = json.loads(document)
    state = content["replay"]["state"]
    state["spent"] = ["1"] * len(state["spent"])
    return json.dumps(content)


def _followed(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ledgers whose rows a start compares with their entries."""
    followed, follow = list[str](), audit.follow

    def noted(connection: sa.Connection, ledger: str, *arguments: Any) -> str | None:
        followed.append(ledger)
        return follow(connection, ledger, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(audit, "follow", noted)
        _verified_checkpoints(world)
    return followed


def test_a_start_compares_only_ledgers_with_other_rows_than_at_their_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [dataset] = _heads(world)
    _signed(world)
    assert _followed(world, monkeypatch) == []
    changed = world.dataset()
    assert _followed(world, monkeypatch) == [changed]
    _signed(world)
    world.submit(dataset, privacy={"epsilon": 0.2})
    assert _followed(world, monkeypatch) == [dataset]


def test_rows_from_the_time_of_the_checkpoint_do_not_hide_later_entries(world: World) -> None:
    """Otherwise the budget of later charges would be spent again."""
    [dataset] = _heads(world)
    _signed(world)
    with world.database.read() as connection:
        state = connection.scalar(sa.text("select state from ledgers"))
        [spend] = connection.execute(sa.text("select charges, spent from analyst_spend"))
    world.submit(dataset, privacy={"epsilon": 0.2})
    _change(world, "update ledgers set state = :state", state=state)
    _change(world, "update analyst_spend set charges = :charges, spent = :spent", **spend._mapping)
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


def test_a_start_of_another_version_compares_all_rows_and_signs_them_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _signed(world)
    monkeypatch.setattr(batches, "VERSION", "another version")
    assert _followed(world, monkeypatch) == [*_heads(world)]
    _signed(world)
    assert _followed(world, monkeypatch) == []


def test_a_checkpoint_of_another_format_is_not_used(world: World) -> None:
    """An earlier version signed the replay alone, and a later one may sign more."""
    keys = SigningKeys(world.settings.home)
    [(ledger, document, _)] = _documents(world)
    content = json.loads(document)
    formats: tuple[Any, ...] = (content["replay"], content | {"more": 1}, content | {"replay": {}}, [], 1)
    for document_of_format in formats:
        text = json.dumps(document_of_format)
        values = {"text": text, "signature": keys.sign_checkpoint(checkpoints.signed_statement(ledger, text))}
        _change(world, "update checkpoints set document = :text, signature = :signature", **values)
        assert _verified_checkpoints(world).are_confirmed, "every ledger was verified from its first entry"


def test_a_checkpoint_of_another_version_of_replays_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the rows have not changed since, a thread could not compare its replay with one of this version."""
    _signed(world)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "VERSION", 3)
        assert _verified_checkpoints(world).are_confirmed, "every ledger was verified from its first entry"
    assert not _verified_checkpoints(world).are_confirmed


UNUSABLE: dict[str, Callable[[World], None]] = {
    "missing": lambda world: _change(world, "delete from checkpoints"),
    "damaged": lambda world: _change(world, "update checkpoints set document = '{'"),
    "forged": lambda world: _change(
        world, "update checkpoints set document = :forged", forged=_forged(_documents(world)[0][1])
    ),
    "of bytes": lambda world: _change(world, "update checkpoints set document = X'00', signature = X'00'"),
    "of another ledger": lambda world: _relabel(world),
    "of another signature": lambda world: _change(world, "update checkpoints set signature = 'a.b.c'"),
    "of a key that was replaced": lambda world: _rotate(world),
}


def _relabel(world: World) -> None:
    """Sign the same content for another ledger."""
    keys, [(_, document, _)] = SigningKeys(world.settings.home), _documents(world)
    signature = keys.sign_checkpoint(checkpoints.signed_statement("ds_other", document))
    _change(world, "update checkpoints set signature = :signature", signature=signature)


def _rotate(world: World) -> None:
    rotate_key(world.settings.home / "signing-key.json")


@pytest.mark.parametrize("spoil", UNUSABLE.values(), ids=UNUSABLE)
def test_a_checkpoint_that_cannot_be_trusted_is_not_used(world: World, spoil: Callable[[World], None]) -> None:
    spoil(world)
    checkpoints = _verified_checkpoints(world)
    assert checkpoints.are_confirmed, "every ledger was verified from its first entry"
    _change(world, "update ledger_entries set body = replace(body, 'job_', 'jab_') where sequence = 2")
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


def test_a_ledger_that_was_changed_meanwhile_is_reported_at_a_clean_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    UNUSABLE["of another signature"](world)  # so that the start verifies every ledger from its first entry
    verified = _verified_checkpoints(world, reports.append)
    _change(world, "update analyst_spend set charges = charges + 1")
    monkeypatch.setattr(checkpoints, "FIRST_SECONDS", PATIENCE)  # no check before the stop
    verified.start()
    verified.stop()
    assert len(reports) == 1
    assert not _documents(world)


def test_a_forged_checkpoint_that_agrees_with_all_states_is_refused(world: World) -> None:
    """The checkpoint, the stored state and the analyst's sum all return budget. Only the signature is missing."""
    _signed(world)
    [(ledger, document, _)] = _documents(world)
    replay = json.loads(document)["replay"]
    cheap = ["1"] * len(replay["state"]["spent"])
    replay["state"] |= {"charges": 1, "spent": cheap}
    replay["jobs"] = {}
    _change(world, "update ledgers set state = :forged", forged=json.dumps(replay["state"]))
    _change(world, "update analyst_spend set charges = 1, spent = :forged", forged=json.dumps(cheap))
    with world.database.read() as connection:
        forged = {"replay": replay, "rows": batches.rows_of(connection, [ledger])[ledger].sha256}
    _change(world, "update checkpoints set document = :forged", forged=json.dumps(forged))
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


def test_a_checkpoint_past_the_published_head_is_not_used(world: World) -> None:
    """Otherwise a published head might be searched in entries that were not verified."""
    [(ledger, head)] = _heads(world).items()
    for published in ({}, {ledger: replace(head, sequence=3)}):
        checkpoints = Checkpoints(world.database, SigningKeys(world.settings.home), pytest.fail)
        checkpoints.verify(published)
        assert checkpoints.are_confirmed


def test_a_checkpoint_from_the_future_of_a_restored_database_is_not_used(world: World) -> None:
    documents_before = _documents(world)
    _signed(world)
    assert documents_before != _documents(world)
    newest = json.loads(_documents(world)[0][1])["replay"]["state"]["sequence"]
    with world.database.write() as connection:  # the entries and states of an older copy, with the newer checkpoint
        connection.execute(sa.text("delete from ledger_entries where sequence = :last"), {"last": newest})
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


@pytest.mark.parametrize(
    "statement",
    [
        r"""update ledgers set state = replace(state, '"charges"\:2', '"charges"\:1')""",
        "update ledgers set family = 'another'",
        "update analyst_spend set charges = charges + 1",
        """update analyst_spend set spent = replace(spent, '["', '["1')""",
        "delete from analyst_spend",
        "delete from ledger_entries where sequence = 5",
        "update ledger_entries set hash = previous_hash where sequence = 5",
        "update datasets set rows = rows + 1",
        "update datasets set spec = replace(spec, 'age', 'aged')",
        "update datasets set folder = 'another'",
        "update datasets set data = 'deleted'",
        "update datasets set holdout_of = 'another'",
    ],
)
def test_rows_that_differ_from_those_at_the_checkpoint_are_found_before_the_start(world: World, statement: str) -> None:
    _signed(world)
    _change(world, statement)
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


@pytest.mark.parametrize(
    "statement",
    [
        r"""update ledgers set state = replace(state, '"charges"\:2', '"charges"\:1')""",
        "update analyst_spend set charges = charges + 1",
        "delete from ledger_entries where sequence = 5",
        "update ledger_entries set body = replace(body, 'job_', 'jab_') where sequence = 5",
    ],
)
def test_entries_after_a_checkpoint_are_verified_before_the_start(world: World, statement: str) -> None:
    _change(world, statement)
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


@pytest.mark.parametrize(
    "statement",
    [
        "update ledger_entries set body = replace(body, 'job_', 'jab_') where sequence = 2",
        "update ledger_entries set body = '{' where sequence = 2",
        "delete from ledger_entries where sequence = 2",
    ],
)
def test_a_tampered_older_entry_is_found_while_the_server_runs(world: World, statement: str) -> None:
    _change(world, statement)
    reports, is_reported = list[str](), threading.Event()

    def refused(wrong: str) -> None:
        reports.append(wrong)
        is_reported.set()

    checkpoints = _verified_checkpoints(world, refused)
    checkpoints.start()
    assert is_reported.wait(PATIENCE)
    checkpoints.stop()
    assert len(reports) == 1
    assert not _documents(world), "the next start verifies every entry"
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


@pytest.mark.parametrize(
    "statement",
    [
        "update ledger_entries set body = replace(body, 'replace_one', 'zero_out') where sequence = 1",
        "update ledger_entries set body = '{' where sequence = 1",
        "delete from ledger_entries where sequence = 1",
        "update datasets set spec = replace(spec, 'replace_one', 'zero_out')",
        "update datasets set rows = 100000",
    ],
)
def test_a_tampered_registration_is_found_before_the_start(world: World, statement: str) -> None:
    """Jobs, external charges and new members of a family are accounted for by the facts that it states."""
    _change(world, statement)
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)


def test_a_ledger_whose_opening_dataset_is_missing_is_refused(tmp_path: Path) -> None:
    """Another dataset could be charged on it, by a stored state that was not compared with the entries."""
    world = World.at(tmp_path / "home")
    world.dataset()
    with world.database.write() as connection:
        connection.execute(sa.text("pragma defer_foreign_keys = on"))
        connection.execute(sa.text("update datasets set id = 'dst_renamed'"))
        for table in ("grants", "stored_values"):
            connection.execute(sa.text(f"update {table} set dataset_id = 'dst_renamed'"))
    with pytest.raises(UnsoundLedger):
        audit.refuse_unsound(world.database)
    with pytest.raises(UnsoundLedger):
        _verified_checkpoints(world)
    world.database.close()


def test_a_server_that_finds_it_writes_nothing_any_more_and_says_so(tmp_path: Path, make_service: MakeService) -> None:
    with make_service(tmp_path / "home") as service:
        dataset = service.upload().json()["id"]
        services.stop_spending(service.database, f"{dataset}: the chain breaks at entry 1")
        refused = service.call("steward", "POST", "/v1/tokens", json={"name": "ada", "role": "analyst"})
        assert (refused.status_code, refused.json()["code"]) == (503, "database_unavailable")
        until(lambda: "ledgers" in service.client.get("/health/ready").text)


def test_a_running_server_ends_expired_sessions_and_removes_their_lines(
    world: World, make_service: MakeService
) -> None:
    [dataset] = _heads(world)
    Epoch.open(world.settings, world.database)
    session = sessions.open_session(world, dataset, sessions.many(2), lifetime=60).id  # expired decades ago
    sessions.record(world, session)
    world.database.close()
    assert session in world.settings.epoch.read_text()
    with make_service(world.settings.home):
        until(lambda: session not in world.settings.epoch.read_text())
    assert "settled" in world.kinds(dataset)  # not always the last entry: the queued job may start meanwhile


def test_the_opening_dataset_is_known_after_a_checkpoint_under_any_name() -> None:
    """Canonical JSON sorts keys, so it loses the order of the datasets."""
    followed, state = Replay(), None
    for event in (Opened("d2", 5, Filter.open("pure", Privacy(1.0, 0.0)), "family"), Joined("d1", 5, "eve")):
        state, entry = advance(state, event, "2026-01-01T00:00:00.000Z")
        followed.follow([entry])
    again = Replay.from_json(parse(canonical(followed.to_json())))
    assert (followed.opened, again.opened) == ("d2", "d2")


def test_a_checkpoint_has_only_jobs_that_have_not_ended() -> None:
    followed = Replay()
    _, entry = advance(None, Opened("d1", 5, Filter.open("pure", Privacy(1.0, 0.0)), None), "2026-01-01T00:00:00.000Z")
    followed.follow([entry])
    document = followed.to_json()
    assert Replay.from_json(document | {"jobs": {"job_1": ["started", ["1"]]}}).to_json()["jobs"]
    with pytest.raises(CodecError, match="jobs"):
        Replay.from_json(document | {"jobs": {"job_1": ["ended", ["1"]]}})
