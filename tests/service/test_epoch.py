"""A database restored from an older copy is noticed at start, and goes on by an explicit order alone, in the ledger."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from accounting.errors import CodecError
from accounting.records.chain import Head
from accounting.records.replay import replay
from app.http.errors import ApiError
from app.jobs import rollback
from app.ledger import audit, batches, epoch, store
from app.ledger.epoch import BelowEpoch, Epoch
from app.persistence.files import StartRefused, locked
from app.sessions import settling
from tests.service.conftest import MakeService
from tests.support import held_sessions as sessions
from tests.support.cli import purse
from tests.support.patience import PATIENCE
from tests.support.service import Service
from tests.support.threads import at_once
from tests.support.world import World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a service with an epoch and two datasets, one of which has a released job."""
    world = World.at(tmp_path_factory.mktemp("template") / "home")
    Epoch.open(world.settings, world.database)
    released, _ = world.dataset(), world.dataset()
    world.release(released)
    world.database.close()
    return world.settings.home


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Iterator[World]:
    """A copy of it."""
    world = World.at(Path(shutil.copytree(template, tmp_path / "home")))
    world.number_of_datasets = 2
    Epoch.open(world.settings, world.database)
    yield world
    world.database.close()


def _datasets(world: World) -> list[str]:
    """Return the datasets, the one with the longer ledger first."""
    return sorted(_heads(world), key=lambda dataset: -_heads(world)[dataset].sequence)


def _heads(world: World) -> dict[str, Head]:
    with world.database.read() as connection:
        return batches.heads(connection)


def _published_heads(world: World) -> dict[str, Head]:
    """Return the heads in the epoch file."""
    heads = map(json.loads, world.settings.epoch.read_text().splitlines()[1:])
    return {head["ledger"]: Head.parse(head["head"]) for head in heads}


def _version(world: World) -> tuple[int, int, bytes]:
    """Return what every write of the epoch file changes; reading the file may change its access time."""
    status = world.settings.epoch.stat()
    return status.st_ino, status.st_mtime_ns, world.settings.epoch.read_bytes()


def _lost(world: World) -> dict[str, Any]:
    lost: dict[str, Any] = json.loads(world.settings.epoch.read_text().splitlines()[0])["lost"]
    return lost


def _copied(world: World) -> Callable[[], World]:
    """Back up the database and return the function that restores it. Other files of the home are kept."""
    file = world.settings.home / "purse.sqlite3"
    backup = file.with_suffix(".copy")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)

    def restore() -> World:
        world.database.close()
        for part in file.parent.glob("purse.sqlite3*"):
            part.unlink()
        shutil.copy(backup, file)
        return World.at(world.settings.home)

    return restore


def _open(world: World) -> Epoch:
    return Epoch.open(world.settings, world.database)


def _fail(*_: Any) -> None:
    raise OSError(28, "s3cr3t")


def test_the_file_follows_every_commit_and_no_rollback(world: World) -> None:
    first, second = _datasets(world)
    assert _published_heads(world) == _heads(world)
    assert world.settings.epoch.stat().st_mode & 0o777 == 0o600
    version_before = _version(world)
    with suppress(ZeroDivisionError), world.database.write() as connection:
        connection.info[second] = Head(99, "0" * 64)
        _ = 1 // 0
    with world.database.write():
        pass
    assert _version(world) == version_before, "neither a rolled back nor an empty transaction is published"
    world.release(second)
    assert _published_heads(world) == _heads(world)
    assert _published_heads(world)[first].sequence == _published_heads(world)[second].sequence == 4
    _open(world)


def test_an_older_copy_is_refused_with_the_missing_heads(world: World, make_service: MakeService) -> None:
    restore, (first, second) = _copied(world), _datasets(world)
    world.release(first)
    heads_before = _published_heads(world)
    restored = restore()
    assert list(audit.verify(restored.database).values()) == [None, None], "by itself it holds"
    with pytest.raises(BelowEpoch, match=f"{first} lacks its head {heads_before[first]}.*accept-rollback") as refusal:
        _open(restored)
    assert second not in str(refusal.value)
    restored.database.close()
    with pytest.raises(BelowEpoch), make_service(world.settings.home):
        pytest.fail("it started")
    assert _published_heads(world) == heads_before


def test_a_ledger_with_other_entries_is_refused(world: World) -> None:
    """The restored ledger is as long as the published one, or longer, but has other entries."""
    restore, (first, _) = _copied(world), _datasets(world)
    world.release(first)
    restored = restore()
    restored.release(first)
    restored.release(first)
    assert _heads(restored)[first].sequence > _published_heads(world)[first].sequence
    with pytest.raises(BelowEpoch, match=first):
        _open(restored)


def test_a_copy_without_a_whole_dataset_is_refused(world: World) -> None:
    restore = _copied(world)
    third = world.dataset()
    restored = restore()
    with pytest.raises(BelowEpoch, match=f"{third} lacks its head 1:"):
        _open(restored)
    lost = rollback.accept(restored.database, restored.settings, "restored")
    assert (lost.ledgers, list(lost.missing)) == ({}, [third])
    rollbacks = _lost(world)
    assert rollbacks[third]["reason"] == "restored"
    assert third not in _published_heads(world)
    _open(restored)
    assert _lost(world) == rollbacks, "it is stored permanently"


def test_a_copy_that_lacks_recorded_answers_is_refused_and_their_session_expires(world: World) -> None:
    """No entry of a ledger follows from a recorded answer."""
    dataset = _datasets(world)[1]
    session = sessions.open_session(world, dataset, sessions.many(10))
    restore = _copied(world)
    kinds_before = world.kinds(dataset)
    sessions.record(world, session.id, 3)
    assert _published_heads(world)[session.id].sequence == 3
    assert world.kinds(dataset) == kinds_before
    _open(world)
    restored = restore()
    with pytest.raises(BelowEpoch, match=f"{session.id} lacks recorded answers up to 3:"):
        _open(restored)
    assert list(epoch.shortfall(restored.settings, restored.database)) == [session.id]
    lost = rollback.accept(restored.database, restored.settings, "restored")
    assert (lost.ledgers, lost.missing, lost.sessions) == ({}, {}, [session.id])
    expired = sessions.get(restored, session.id)
    assert (expired.state, expired.charged) == ("expired", session.reserved)
    _open(restored)
    assert session.id not in _published_heads(restored)


def test_a_rollback_expires_the_open_sessions_of_its_ledgers(world: World) -> None:
    first, second = _datasets(world)
    lost, intact = (sessions.open_session(world, dataset, sessions.many(10)) for dataset in (first, second))
    sessions.record(world, lost.id, 2)
    restore = _copied(world)
    world.release(first)
    restored = restore()
    accepted = rollback.accept(restored.database, restored.settings, "restored")
    assert (list(accepted.ledgers), accepted.sessions) == ([first], [lost.id])
    assert sessions.get(restored, lost.id).charged == lost.reserved
    assert [sessions.get(restored, each.id).state for each in (lost, intact)] == ["expired", "open"]
    assert restored.kinds(first)[-2:] == ["rolled_back", "settled"]
    assert sessions.close(restored, lost.id).state == "expired"
    audit.refuse_unsound(restored.database)


def test_a_repeated_request_publishes_what_a_stopped_server_recorded(world: World) -> None:
    """Another server answers the repetition, and its program then computes the answer."""
    session = sessions.open_session(world, _datasets(world)[1], sessions.many(10))
    published, world.database.after_commit = world.database.after_commit, None  # the first server is killed there
    sessions.record(world, session.id, 3, key="a key of the program")
    assert session.id not in _published_heads(world)
    world.database.after_commit = published
    sessions.record(world, session.id, 3, key="a key of the program")
    assert _published_heads(world)[session.id].sequence == 3


def _closed(world: World, dataset: str) -> str:
    """Return the id of a session that recorded three answers and was closed."""
    session = sessions.open_session(world, dataset, sessions.many(10))
    sessions.record(world, session.id, 3)
    sessions.close(world, session.id)
    return session.id


def test_a_running_server_removes_the_lines_of_ended_sessions(world: World) -> None:
    dataset = _datasets(world)[1]
    still_open = sessions.open_session(world, dataset, sessions.many(10)).id
    sessions.record(world, still_open, 2)
    closed = [_closed(world, dataset) for _ in range(3)]
    epoch = _open_beside(world)
    assert set(closed) <= set(_published_heads(world))
    epoch.forget_ended(world.database)
    assert set(_published_heads(world)) == set(_heads(world)) | {still_open}
    assert not set(closed) & set(epoch.heads), "its memory is bounded as well"
    version_before = _version(world)
    epoch.forget_ended(world.database)
    assert _version(world) == version_before
    sessions.record(world, still_open, 1)
    assert _published_heads(world)[still_open].sequence == 3
    _open(world)


def _open_beside(world: World) -> Epoch:
    """Return the epoch of another server, which read the file as it is."""
    epoch = Epoch.read(world.settings, world.database)
    world.database.after_commit = epoch.publish
    return epoch


@pytest.mark.parametrize("is_published", [True, False], ids=["published", "killed before the publication"])
def test_a_copy_without_the_end_of_a_session_is_refused(world: World, is_published: bool) -> None:
    """The line of the session is removed only if the published head of its ledger covers the end."""
    dataset = _datasets(world)[1]
    session = sessions.open_session(world, dataset, sessions.many(10))
    restore = _copied(world)
    sessions.record(world, session.id, 3)
    if not is_published:
        world.database.after_commit = None
    sessions.close(world, session.id)
    _open_beside(world).forget_ended(world.database)
    assert (session.id in _published_heads(world)) is not is_published
    lacking = f"{dataset} lacks its head" if is_published else f"{session.id} lacks recorded answers up to 3:"
    restored = restore()
    with pytest.raises(BelowEpoch, match=lacking):
        _open(restored)


def test_a_start_publishes_the_end_of_each_session_whose_line_it_removes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server commits the end of a session while this one starts, and is killed before it publishes the end."""
    dataset = _datasets(world)[1]
    session = sessions.open_session(world, dataset, sessions.many(10))
    restore = _copied(world)
    sessions.record(world, session.id, 3)
    starting = World.at(world.settings.home)

    @contextmanager
    def locked_after_the_end(file: Path) -> Iterator[None]:
        world.database.after_commit = None
        sessions.close(world, session.id)
        with locked(file):
            yield

    with monkeypatch.context() as patch:
        patch.setattr(epoch, "locked", locked_after_the_end)
        _open(starting)
    assert _published_heads(world) == _heads(world)
    starting.database.close()
    restored = restore()
    with pytest.raises(BelowEpoch, match=f"{dataset} lacks its head"):
        _open(restored)


def test_a_ledger_with_other_entries_keeps_the_lines_of_its_sessions(world: World) -> None:
    """While a server runs, its database may be replaced by a copy in which the session ended in another entry."""
    dataset = _datasets(world)[1]
    session = sessions.open_session(world, dataset, sessions.many(10))
    sessions.record(world, session.id, 1)
    restore = _copied(world)
    sessions.record(world, session.id, 3)
    world.release(dataset)
    restored = restore()
    sessions.close(restored, session.id)
    published = Epoch.read(restored.settings, restored.database)
    assert _heads(restored)[dataset].sequence <= published.heads[dataset].sequence
    published.forget_ended(restored.database)
    assert _published_heads(restored)[session.id].sequence == 4


def test_a_crash_while_lines_are_removed_leaves_the_old_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    first, second = _datasets(world)
    session, epoch = _closed(world, second), _open_beside(world)
    content_before = world.settings.epoch.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            epoch.forget_ended(world.database)
    assert world.settings.epoch.read_bytes() == content_before
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", _fail)
        epoch.forget_ended(world.database)
    assert world.settings.epoch.read_bytes() == content_before
    assert session in epoch.heads
    world.release(first)
    epoch.forget_ended(world.database)
    assert _published_heads(world) == _heads(world)
    _open(world)


def test_servers_that_share_a_file_remove_the_lines_of_each_others_sessions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server may still know the session, and write its line again with its own next rewrite."""
    neighbour = World.at(world.settings.home)
    first, second = _datasets(world)
    ours, theirs = _open_beside(world), _open_beside(neighbour)
    session = sessions.open_session(neighbour, second, sessions.many(10))
    sessions.record(neighbour, session.id, 3)
    sessions.close(world, session.id)
    ours.forget_ended(world.database)
    assert session.id not in _published_heads(world)
    with monkeypatch.context() as patch:
        patch.setattr(epoch, "MOST_LINES", 0)  # the next write replaces the file
        neighbour.release(first)
    assert session.id in _published_heads(world)
    theirs.forget_ended(neighbour.database)
    assert _published_heads(world) == _heads(world)
    assert ours.behind == theirs.behind == 0


def test_a_head_that_waits_for_the_file_is_not_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch, session = _open_beside(world), _closed(world, _datasets(world)[1])

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _fail)
        epoch.publish({session: Head(4, "0" * 64)})
    assert epoch.behind == 1
    epoch.forget_ended(world.database)
    world.release(_datasets(world)[0])
    assert epoch.behind == 0
    epoch.forget_ended(world.database)
    assert _published_heads(world) == _heads(world)


def test_a_late_head_that_cannot_be_written_is_published_with_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread publishes a recorded answer right after the line of its session was removed."""
    epoch, session = _open_beside(world), _closed(world, _datasets(world)[1])
    removing, forgotten = threading.Event(), threading.Event()
    publication = threading.Thread(target=epoch.publish, args=({session: Head(4, "0" * 64)},))

    def fail_after_the_removal(*_: Any) -> None:
        removing.set()
        assert forgotten.wait(PATIENCE)
        raise OSError(28, "no room")

    @contextmanager
    def followed_by_the_publication() -> Iterator[None]:
        with writing:
            yield
        patch.setattr(epoch, "_writing", writing)
        patch.setattr(os, "fdatasync", fail_after_the_removal)
        publication.start()
        assert removing.wait(PATIENCE)

    writing = epoch._writing
    with monkeypatch.context() as patch:
        patch.setattr(epoch, "_writing", followed_by_the_publication())
        epoch.forget_ended(world.database)
        forgotten.set()
        publication.join()
    assert epoch.behind == 1
    world.release(_datasets(world)[0])
    assert epoch.behind == 0
    assert _published_heads(world).items() >= _heads(world).items()


def test_an_expired_session_is_ended_and_its_line_removed(world: World) -> None:
    dataset = _datasets(world)[1]
    abandoned, still_open = (
        sessions.open_session(world, dataset, sessions.many(10), lifetime=seconds).id for seconds in (60, 3600)
    )
    for session in (abandoned, still_open):
        sessions.record(world, session, 3)
    epoch = _open_beside(world)
    settling.expire(world.database)
    assert world.kinds(dataset)[-1] == "reserved"
    world.clock.pass_(61)
    settling.expire(world.database)
    assert world.kinds(dataset)[-1] == "settled"
    assert sessions.receipt(world, abandoned)["receipt"]["state"] == "expired"
    epoch.forget_ended(world.database)
    assert set(_published_heads(world)) == set(_heads(world)) | {still_open}


def test_a_crash_between_commit_and_epoch_allows_the_next_start(world: World) -> None:
    first, _ = _datasets(world)
    world.database.after_commit = None  # it is killed there, again and again
    world.release(first)
    world.release(first)
    behind = _published_heads(world)
    assert behind[first].sequence < _heads(world)[first].sequence
    _open(world)
    assert _published_heads(world) == _heads(world) != behind


def test_a_last_line_that_a_crash_truncated_is_ignored(world: World) -> None:
    first, second = _datasets(world)
    heads_before = _published_heads(world)
    world.release(first)
    file = world.settings.epoch
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 2 + 3, "whose it is; the head of each ledger at the start; three entries of the job"
    file.write_bytes(b"".join(lines)[:-9])
    heads_read = Epoch.read(world.settings, world.database).heads
    assert heads_before[first].sequence < heads_read[first].sequence == _heads(world)[first].sequence - 1
    assert heads_read[second] == heads_before[second]
    _open(world)
    assert _published_heads(world) == _heads(world)
    assert len(file.read_bytes().splitlines()) == 3


def test_a_long_file_is_rewritten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch, "MOST_LINES", 3)
    first, _ = _datasets(world)
    for _ in range(4):
        world.release(first)
        assert len(world.settings.epoch.read_bytes().splitlines()) <= 1 + 2 + 3
        assert _published_heads(world) == _heads(world)


def test_heads_that_cannot_be_written_are_logged_and_written_with_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = _datasets(world)
    heads_before = _published_heads(world)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _fail)
        patch.setattr(epoch, "write_whole", _fail)
        patch.setattr(os, "write", lambda *_: 5)
        world.release(first)
    assert _published_heads(world) == heads_before
    assert {record.getMessage() for record in caplog.records} == {"epoch_not_written OSError"}
    world.release(second)
    assert _published_heads(world) == _heads(world)


def test_a_monitor_sees_that_the_file_lags(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(epoch, "write_whole", _fail)
        patch.setattr(os, "fdatasync", _fail)
        service.dataset()
        assert "purse_epoch_behind 1.0" in service.call("auditor", "GET", "/metrics").text
    service.dataset()
    assert "purse_epoch_behind 0.0" in service.call("auditor", "GET", "/metrics").text


def test_late_heads_do_not_go_back_and_all_are_written(world: World) -> None:
    first, _ = _datasets(world)
    published = _open(world)
    at_once(35, lambda i: published.publish({first: Head(39 - i, "a" * 64)}))
    assert _published_heads(world)[first] == Head(39, "a" * 64)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (Path.unlink, "is missing"),
    "empty": (lambda file: file.write_text(""), "cannot be read"),
    "torn inside": (lambda file: file.write_bytes(file.read_bytes().replace(b'"head"', b'"he', 1)), "cannot be read"),
    "lost is no object": (lambda file: file.write_text('{"service": "svc_1", "lost": []}\n'), "cannot be read"),
    "another service's": (lambda file: file.write_text('{"service": "svc_1", "lost": {}}\n'), "to the service svc_1"),
}


@pytest.mark.parametrize(("change", "why"), BROKEN.values(), ids=BROKEN)
def test_an_invalid_epoch_is_refused(world: World, change: Callable[[Path], object], why: str) -> None:
    change(world.settings.epoch)
    with pytest.raises(BelowEpoch, match=f"{why}.*PURSE_EPOCH_FILE"):
        _open(world)
    assert list(epoch.shortfall(world.settings, world.database)) == ["epoch"]
    lost = rollback.accept(world.database, world.settings, "the disk with the epoch is gone")
    assert lost.ledgers == dict.fromkeys(_datasets(world))
    assert _published_heads(world) == _heads(world)
    _open(world)
    assert [world.kinds(dataset)[-1] for dataset in _datasets(world)] == ["rolled_back"] * 2


def test_an_older_service_gets_an_epoch_and_requires_it_afterwards(tmp_path: Path) -> None:
    world = World.at(tmp_path / "home", epoch_file=tmp_path / "epoch of another disk")
    world.release(world.dataset())
    _open(world)
    assert _published_heads(world) == _heads(world)
    assert not (tmp_path / "home" / "epoch").exists()
    world.settings.epoch.unlink()
    with pytest.raises(BelowEpoch, match="is missing"):
        _open(world)


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    world = World.at(tmp_path / "home", epoch_file=tmp_path / "no disk here" / "epoch")
    with pytest.raises(StartRefused, match="PURSE_EPOCH_FILE"):
        _open(world)


def test_an_accepted_rollback_is_in_the_chain_and_ends_what_was_open(world: World) -> None:
    first, second = _datasets(world)
    waiting, running = (world.submit(first, privacy={"epsilon": 0.1}).id for _ in range(2))
    claimed = world.claimed()
    open_then = {waiting: "queued", running: "queued"} | {claimed.id: "running"}
    untouched = world.submit(second, privacy={"epsilon": 0.1}).id
    restore = _copied(world)
    world.end(claimed)  # released, after the copy was made
    published = _published_heads(world)[first]
    restored = restore()
    assert {job: restored.job(job).state for job in open_then} == open_then
    lost = rollback.accept(restored.database, restored.settings, "disk lost")
    assert (lost.ledgers, lost.missing) == ({first: published}, {})
    with restored.database.read() as connection:
        entries = store.entries(connection, first)
    assert (entries[-1].kind, entries[-1].body["reason"]) == ("rolled_back", "disk lost")
    assert entries[-1].body["lacks"] == str(published)
    spent = replay(entries).spent
    assert {restored.job(job).state for job in open_then} == {"failed"}, "none runs again, and none is refunded"
    assert restored.job(untouched).state == "queued"
    assert list(audit.verify(restored.database).values()) == [None, None]
    _open(restored)
    claim = restored.claimed()
    assert claim.id == untouched
    assert restored.claim() is None
    with restored.database.read() as connection:
        state = store.load_state(connection, first)
    assert (state.spent, state.charges) == (spent, 3)
    with pytest.raises(ApiError, match="dataset_frozen") as refused:
        restored.submit(first, privacy={"epsilon": 0.1})
    assert "older copy" in str(refused.value.detail)


@pytest.mark.parametrize("reason", ["", "x" * 257, "a\nb"])
def test_an_acceptance_needs_a_valid_reason(world: World, reason: str) -> None:
    restore, (first, _) = _copied(world), _datasets(world)
    world.release(first)
    restored = restore()
    state_before = restored.dump()
    with pytest.raises(CodecError, match="reason"):
        rollback.accept(restored.database, restored.settings, reason)
    assert restored.dump() == state_before


def test_the_command_accepts_once_and_only_if_heads_are_missing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    restore, (first, _) = _copied(world), _datasets(world)
    order = ("ledger", "accept-rollback", "--home", str(world.settings.home), "--reason", "copy of the night before")
    code, _, err = purse(capsys, *order)
    assert (code, "nothing to accept" in err) == (1, True)
    world.release(first)
    published = _published_heads(world)[first]
    restore().database.close()
    look = ("ledger", "verify", "--home", str(world.settings.home))
    code, out, _ = purse(capsys, *look)
    text = " ".join(out.split())
    assert (code, f"lacks its published head {published}" in text, out.count("valid")) == (1, True, 1)
    code, out, _ = purse(capsys, *order, "--json")
    assert (code, json.loads(out)) == (0, [{"ledger": first, "lacks": str(published), "is": "frozen"}])
    code, _, err = purse(capsys, *order)
    assert (code, "nothing to accept" in err) == (1, True)
    assert purse(capsys, *look)[0] == 0
    code, out, _ = purse(capsys, *look, "--head", str(published))
    assert (code, "cut or rewritten" in out) == (1, True)


@pytest.mark.parametrize("log_format", ["text", pytest.param("json", marks=pytest.mark.slow)])
def test_a_start_is_refused_with_a_sentence_and_no_stack_trace(world: World, log_format: str) -> None:
    """Issue 29, friction 44: with JSON logs, each line is JSON."""
    restore, (first, _) = _copied(world), _datasets(world)
    world.release(first)
    restore().database.close()
    command = [sys.executable, "-m", "app.cli", "serve", "--home", str(world.settings.home)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=ROOT,
        env=os.environ | {"PURSE_PORT": "0", "PURSE_LOG_FORMAT": log_format},
    )
    assert run.returncode == 1
    lines, sentence = run.stderr.strip().splitlines(), "the database is older than its published heads"
    if log_format == "json":
        assert json.loads(lines[-1])["message"].startswith(f"start_refused: {sentence}")
        assert [json.loads(line)["level"] for line in lines].count("critical") == 1
    else:
        assert lines[-1].startswith(f"purse: {sentence}")
    assert "Traceback" not in run.stderr


def test_servers_that_share_a_file_lose_none_of_each_others_heads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either server may rewrite the file, restart or read a truncated line. Heads may come in any order."""
    neighbour = World.at(world.settings.home)
    first, second = _datasets(world)
    ours, theirs = _open(world), _open(neighbour)
    for round_ in range(4):
        neighbour.release(second)
        if round_ == 1:
            with world.settings.epoch.open("ab") as file:
                file.write(b'{"ledger":"cut o')
        if round_ == 2:
            monkeypatch.setattr(epoch, "MOST_LINES", 0)
        world.release(first)
        assert Epoch.read(world.settings, world.database).heads == _heads(world)
    head = _heads(world)[second]
    ours.publish({second: Head(head.sequence - 1, "0" * 64)})
    _open(World.at(world.settings.home))
    assert Epoch.read(world.settings, world.database).heads == _heads(world)
    assert ours.behind == theirs.behind == 0
