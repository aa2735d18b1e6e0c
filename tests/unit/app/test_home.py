"""A home and its database are of one service: any other pair is refused, and nothing of either is touched."""

import logging
import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.datasets import folders
from app.identity.home import IDENTITY_FILE, Misplaced, open_database
from app.persistence.files import write_whole
from app.persistence.session import Database
from app.persistence.tables import service
from app.settings import Settings
from tests.support.cli import purse
from tests.support.world import World


def _identity(settings: Settings) -> str:
    database = open_database(settings)
    with database.read() as connection:
        [stored] = connection.scalars(sa.select(service.c.id))
    database.close()
    assert (settings.home / IDENTITY_FILE).read_text().strip() == stored
    return str(stored)


def _everything(home: Path) -> dict[str, bytes]:
    files = (path for path in home.rglob("*") if path.is_file() and "sqlite3-" not in path.name)
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A service with a dataset."""
    world = World.at(tmp_path / "home")
    world.dataset()
    world.database.close()
    return world


def test_the_identity_is_created_once_and_stored(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    first = _identity(settings)
    assert first.startswith("svc_")
    assert _identity(settings) == first
    assert (settings.home / IDENTITY_FILE).stat().st_mode & 0o777 == 0o600
    assert _identity(Settings(home=tmp_path / "another")) != first


def test_a_home_whose_database_is_lost_is_refused_and_nothing_is_deleted(world: World) -> None:
    """Review: a start on an empty database deleted every dataset folder."""
    (world.settings.home / "purse.sqlite3").rename(world.settings.home / "aside")
    files_before = _everything(folders.root(world.settings.home))
    with pytest.raises(Misplaced, match="1 datasets"):
        open_database(world.settings)
    assert _everything(folders.root(world.settings.home)) == files_before != {}


@pytest.mark.slow
def test_another_services_database_is_refused(world: World, tmp_path: Path) -> None:
    other_world = World.at(tmp_path / "other")
    other_world.dataset()
    mixed = Settings(home=world.settings.home, database_url=other_world.settings.database)
    files_before = _everything(world.settings.home), _everything(other_world.settings.home)
    with pytest.raises(Misplaced, match="PURSE_DATABASE_URL"):
        open_database(mixed)
    assert (_everything(world.settings.home), _everything(other_world.settings.home)) == files_before


def test_another_home_is_refused(world: World, tmp_path: Path) -> None:
    elsewhere = Settings(home=tmp_path / "elsewhere", database_url=world.settings.database)
    with pytest.raises(Misplaced, match="has no identity"):
        open_database(elsewhere)
    assert not (elsewhere.home / IDENTITY_FILE).exists()


@pytest.mark.parametrize(
    "command",
    [
        "ledger verify",
        "ledger new-key --is-lost",
        "ledger accept-rollback --reason lost",
        "token create me --role steward --local",
        "server copy-database --to sqlite:///elsewhere",
        "server backup copy",
    ],
)
@pytest.mark.parametrize("folder", ["mistyped", "."], ids=["absent", "another's"])
def test_a_command_makes_no_home_of_a_mistyped_one(
    command: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Review: each began a service there, and `ledger verify` found it sound."""
    monkeypatch.chdir(tmp_path)
    code, _, err = purse(capsys, *command.split(), "--home", str(tmp_path / folder))
    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert "data folder" in err


def test_a_start_that_ended_between_file_and_row_is_taken_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    settings.make_home()
    (settings.home / IDENTITY_FILE).write_text("svc_begun\n")
    assert _identity(settings) == "svc_begun"


class TestOlder:
    """A database from before there were identities."""

    def _forget(self, world: World) -> None:
        (world.settings.home / IDENTITY_FILE).unlink()
        database = Database(world.settings.database)
        with database.write() as connection:
            connection.execute(sa.delete(service))
        database.close()

    def test_is_taken_with_the_home_that_holds_its_datasets(self, world: World) -> None:
        self._forget(world)
        assert _identity(world.settings).startswith("svc_")

    def test_is_refused_beside_another_home(self, world: World, tmp_path: Path) -> None:
        self._forget(world)
        elsewhere = Settings(home=tmp_path / "elsewhere", database_url=world.settings.database)
        with pytest.raises(Misplaced, match="the home"):
            open_database(elsewhere)


def test_a_sweep_quarantines_unknown_folders_and_deletes_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    home = world.settings.home
    [registered] = (path.name for path in folders.root(home).iterdir())
    again = World.at(home)
    for round_ in (1, 2):
        for name in ("ds_orphan", ".incoming-dead"):
            (folders.root(home) / name).mkdir()
            (folders.root(home) / name / "values.npy").write_bytes(b"rows of somebody %d" % round_)
        with caplog.at_level(logging.INFO), again.database.write() as connection:
            folders.sweep(home, connection)
    assert [path.name for path in folders.root(home).iterdir()] == [registered]
    quarantined = {path.name: (path / "values.npy").read_bytes()[-1:] for path in (home / "quarantine").iterdir()}
    assert quarantined == {"ds_orphan": b"1", "incoming-dead": b"1", "ds_orphan-2": b"2", "incoming-dead-2": b"2"}
    assert [record.getMessage() for record in caplog.records][:2] == [
        "quarantined incoming-dead",
        "quarantined ds_orphan",
    ]


def test_a_file_that_is_named_as_an_upload_is_nobodys_upload(world: World) -> None:
    home = world.settings.home
    (folders.root(home) / ".incoming-file").write_bytes(b"rows of somebody")
    with folders.incoming(home) as filling, world.database.write() as connection:
        assert folders.sweep(home, connection) == ["incoming-file"]
        assert filling.exists()
    assert (home / "quarantine" / "incoming-file").read_bytes() == b"rows of somebody"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = tmp_path / "key"
    write_whole(file, b"first")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(OSError, match="No space"):
            write_whole(file, b"second")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("key", b"first")]
