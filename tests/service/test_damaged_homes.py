"""A start, and a command, on a home or a database that cannot be used ends in one sentence that says what to do."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.identity.home import IDENTITY_FILE
from app.ledger.epoch import Epoch
from app.ledger.keys import KEY_FILE
from app.main import create_app
from app.persistence import session
from app.persistence.dialect import Unavailable
from app.persistence.files import StartRefused
from app.settings import Settings
from tests.support.calculations import InlineCalculators
from tests.support.cli import purse
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE
from tests.support.world import World

pytestmark = pytest.mark.slow
DATABASE_FILE = "purse.sqlite3"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a service with a released job."""
    world = World.at(tmp_path_factory.mktemp("template") / "home")
    Epoch.open(world.settings, world.database)
    world.release(world.dataset())
    world.database.close()
    return world.settings.home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(template, tmp_path / "home"))


def _replaced(name: str, content: bytes | None) -> Callable[[Path], None]:
    """Replace the file's content, or the file by a directory if the content is None."""

    def damage(home: Path) -> None:
        for path in home.glob(f"{name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if content is None:
            (home / name).mkdir()
        else:
            (home / name).write_bytes(content)

    return damage


def _cut(home: Path) -> None:
    """Overwrite the second half of the database."""
    file = home / DATABASE_FILE
    written = file.read_bytes()
    _replaced(DATABASE_FILE, written[: len(written) // 2] + b"\x55" * (len(written) // 2))(home)


def _file_for_home(home: Path) -> None:
    shutil.rmtree(home)
    home.write_text("a file")


DATABASE = {
    "text for a database": _replaced(DATABASE_FILE, b"not a database " * 1000),
    "half a database": _cut,
    "a directory for a database": _replaced(DATABASE_FILE, None),
}
HOME = {
    "an empty key": _replaced(KEY_FILE, b""),
    "a key set without keys": _replaced(KEY_FILE, b'{"keys": []}'),
    "a directory for a key": _replaced(KEY_FILE, None),
    "a binary identity": _replaced(IDENTITY_FILE, b"\xff\xfe"),
    "a directory for an identity": _replaced(IDENTITY_FILE, None),
    "a directory for a lock": _replaced("server.lock", None),
    "a directory for an epoch": _replaced("epoch", None),
    "a file for datasets": _replaced("datasets", b""),
    "a file for a home": _file_for_home,
}


def _start(home: Path) -> None:
    application = create_app(Settings(home=home), engine=InlineEngine(), calculators=InlineCalculators())
    with TestClient(application):
        pytest.fail("it started")


@pytest.mark.parametrize("damage", (DATABASE | HOME).values(), ids=DATABASE | HOME)
def test_a_start_is_refused_with_one_sentence(home: Path, damage: Callable[[Path], None]) -> None:
    damage(home)
    with pytest.raises(StartRefused) as refused:
        _start(home)
    assert str(home) in str(refused.value)
    assert "Errno" not in str(refused.value)


UNREADABLE = (DATABASE_FILE, f".{DATABASE_FILE}.lock", KEY_FILE, IDENTITY_FILE, "epoch", "datasets")
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
STARTS = """
import sys
from pathlib import Path
from app.persistence.files import StartRefused
from tests.service.test_damaged_homes import _start
for home in sys.argv[1:]:
    try:
        _start(Path(home))
    except StartRefused as refused:
        print(refused)
"""


def test_a_start_with_unreadable_files_is_refused_with_one_sentence(template: Path, tmp_path: Path) -> None:
    prefix = WITHOUT_RIGHTS if os.getuid() == 0 else ()
    if prefix and (shutil.which("setpriv") is None or subprocess.call([*prefix, "true"]) != 0):
        pytest.skip("root may read every file, and setpriv cannot take this right away")
    homes = [Path(shutil.copytree(template, tmp_path / f"home {name}")) for name in UNREADABLE]
    for home, name in zip(homes, UNREADABLE, strict=True):
        (home / name).chmod(0)
    command = [*prefix, sys.executable, "-c", STARTS, *map(str, homes)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE
    )
    assert "Errno" not in run.stdout
    for home, name, sentence in zip(homes, UNREADABLE, run.stdout.splitlines(), strict=True):
        assert str(home / name) in sentence


@pytest.mark.parametrize("damage", DATABASE.values(), ids=DATABASE)
@pytest.mark.parametrize(
    "command", ["server migrate", "ledger verify", "ledger accept-rollback --reason lost", "server backup {}"]
)
def test_a_command_says_in_one_line_that_the_database_is_damaged(
    home: Path, damage: Callable[[Path], None], command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    damage(home)
    code, out, err = purse(capsys, *command.format(tmp_path / "copy").split(), "--home", str(home))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert DATABASE_FILE in err


def test_a_backup_of_a_damaged_key_is_refused(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    HOME["an empty key"](home)
    code, _, err = purse(capsys, "server", "backup", str(tmp_path / "copy"), "--home", str(home))
    assert (code, err.count("\n")) == (1, 1)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("moment", range(1, 13))
def test_a_start_is_refused_if_the_database_stops_answering(
    home: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database may stop at any read or write of the start."""
    transactions = 0
    for name in ("read", "write"):
        whole = getattr(session.Database, name)

        def unavailable(self: session.Database, whole: Callable[..., object] = whole, **how: object) -> object:
            nonlocal transactions
            if threading.current_thread().name == "AnyIO worker thread":  # not a thread that runs in the background
                transactions += 1
                if transactions == moment:
                    raise Unavailable
            return whole(self, **how)

        monkeypatch.setattr(session.Database, name, unavailable)
    with pytest.raises(StartRefused, match="does not answer"):
        _start(home)
