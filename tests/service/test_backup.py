"""A backup is restored into a fresh home and goes on; an older one is caught by the epoch, which it never holds."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from app.identity.home import open_database
from app.ledger import audit
from app.ledger.audit import refuse_unsound
from app.ledger.epoch import Epoch
from app.ledger.keys import KeyLost, SigningKeys
from app.operations.backup import back_up
from app.persistence.files import StartRefused
from app.settings import Settings
from tests.service.conftest import MakeService
from tests.support.cli import purse
from tests.support.service import JOB
from tests.support.world import World


def _lived(tmp_path: Path) -> World:
    """A service whose epoch is on another disk, with a job that was released."""
    world = World.at(tmp_path / "home", epoch_file=tmp_path / "elsewhere")
    Epoch.open(world.settings, world.database)
    world.release(world.dataset())
    return world


def _restored(world: World, backup: Path) -> World:
    """Return the restored home, checked as at a start."""
    home = backup.with_name("restored")
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(backup, home)
    with closing(open_database(Settings(home=home))) as database:
        SigningKeys.of(home, database)
        refuse_unsound(database)
    return World.at(home, epoch_file=world.settings.epoch_file)


@pytest.mark.slow
def test_a_backup_of_a_running_service_starts_elsewhere_unchanged(tmp_path: Path) -> None:
    world = _lived(tmp_path)
    with world.database.write():  # a server that is writing is no obstacle
        back_up(world.settings, tmp_path / "copy")
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").iterdir()}
    assert copied == {"purse.sqlite3", "identity", "signing-key.json", "datasets"}
    restored = _restored(world, tmp_path / "copy")
    Epoch.open(restored.settings, restored.database)
    assert audit.verify(restored.database) == audit.verify(world.database)
    assert restored.keys.jwks() == world.keys.jwks()
    (dataset,) = audit.verify(restored.database)
    values = Path("datasets")
    for file in (world.settings.home / values).rglob("*"):
        if file.is_file():
            assert (restored.settings.home / file.relative_to(world.settings.home)).read_bytes() == file.read_bytes()
    restored.release(dataset)


def test_without_the_key_it_starts_once_the_key_is_back(tmp_path: Path) -> None:
    world = _lived(tmp_path)
    back_up(world.settings, tmp_path / "copy", with_key=False)
    with pytest.raises(KeyLost):
        _restored(world, tmp_path / "copy")
    shutil.copy2(world.settings.home / "signing-key.json", tmp_path / "copy")
    Epoch.open((restored := _restored(world, tmp_path / "copy")).settings, restored.database)


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    world = _lived(tmp_path)
    (folder,) = (world.settings.home / "datasets").glob("[!.]*")
    folder.rename(tmp_path / "aside")
    with pytest.raises(StartRefused, match="deleted"):
        back_up(world.settings, tmp_path / "backups" / "copy")
    assert list((tmp_path / "backups").iterdir()) == []
    (tmp_path / "aside").rename(folder)
    back_up(world.settings, tmp_path / "backups" / "copy")
    with pytest.raises(StartRefused, match="overwrites nothing"):
        back_up(world.settings, tmp_path / "backups" / "copy")


@pytest.mark.slow
def test_purse_backup_of_a_running_server_is_restored_by_copying(
    make_service: MakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURSE_EPOCH_FILE", str(tmp_path / "elsewhere"))
    with make_service(tmp_path / "home", epoch_file=tmp_path / "elsewhere") as service:
        job = service.done(JOB | {"dataset": service.dataset()})["id"]
        code, _, err = purse(capsys, "server", "backup", str(tmp_path / "copy"), "--home", str(tmp_path / "home"))
        assert (code, "datasets: 1" in err) == (0, True)
        receipt = service.receipt(job, "auditor")
        tokens = service.tokens
    shutil.copytree(tmp_path / "copy", tmp_path / "restored")
    with make_service(tmp_path / "restored", epoch_file=tmp_path / "elsewhere") as restored:
        restored.tokens = tokens
        assert restored.receipt(job, "auditor") == receipt
    assert Settings(home=tmp_path / "restored").epoch == tmp_path / "elsewhere"
