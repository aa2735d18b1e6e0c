"""CPU time of a server's start against the entries of its ledger, with and without a checkpoint."""

import secrets
import tempfile
import time
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from app.ledger import audit
from app.ledger.checkpoints import Checkpoints
from app.ledger.epoch import published
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.settings import Settings
from benchmarks.load import callers, serving
from benchmarks.load_ledger import grow

ENTRIES = (1_000, 10_000, 55_000)


def report(seeds: int) -> None:
    """Print CPU seconds: of the verification before a start, and of the server's process until it answers."""
    print("entries   verified from the first entry   verified from a checkpoint")
    print("          verification   whole start      verification   whole start")
    for entries in ENTRIES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            token = secrets.token_urlsafe(32)
            with serving(folder, token) as server:
                tokens = callers(server, token)
                server.call("POST", "/v1/jobs", tokens.analyst(0), tokens.job())
            grow(folder / "home", tokens.dataset, entries // 3, 0, ended=True)
            whole = _seconds(folder, token, seeds, has_checkpoint=False)
            tail = _seconds(folder, token, seeds, has_checkpoint=True)
        print(f"{entries:7d}   {whole[0]:10.3f} s   {whole[1]:9.2f} s      {tail[0]:10.3f} s   {tail[1]:9.2f} s")


def _seconds(folder: Path, token: str, repeats: int, *, has_checkpoint: bool) -> tuple[float, float]:
    """Return the least CPU seconds of the verification and of a whole start."""
    verified, started = [], []
    for _ in range(repeats):
        (_sign if has_checkpoint else _forget)(folder / "home")
        verified.append(_verified(folder / "home"))
        with serving(folder, token) as server:
            started.append(sum(server.process.cpu_times()[:2]))
    return min(verified), min(started)


def _database(home: Path) -> Database:
    return Database(f"sqlite:///{home / 'purse.sqlite3'}")


def _verified(home: Path) -> float:
    """Return the CPU seconds of the verification before a server starts."""
    with closing(_database(home)) as database:
        checkpoints = Checkpoints(database, SigningKeys(home), print)
        start = time.process_time()
        checkpoints.verify(published(Settings(home=home), database))
        return time.process_time() - start


def _forget(home: Path) -> None:
    with closing(_database(home)) as database, database.write() as connection:
        connection.execute(sa.text("delete from checkpoints"))


def _sign(home: Path) -> None:
    """Make the checkpoint of a clean stop, and check that it exists."""
    with closing(_database(home)) as database:
        checkpoints = Checkpoints(database, SigningKeys(home), print)
        checkpoints.verify(published(Settings(home=home), database))
        checkpoints.start()
        checkpoints.stop()  # makes a checkpoint if everything was verified from the first entry
        assert set(audit.verify(database).values()) == {None}
