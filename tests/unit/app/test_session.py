"""The unit of work: writers never interleave, whether threads or processes; readers cannot write."""

import asyncio
import fcntl
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.persistence.dialect import Unusable
from app.persistence.session import Database, new_id
from app.persistence.sqlite import Turn
from tests.support.clocks import SetClock
from tests.support.engines import reader
from tests.support.patience import PATIENCE, until
from tests.support.threads import at_once

ROOT = Path(__file__).parents[3]
ROUNDS = 30

# One writer: reads a counter, dawdles, writes it back, and leaves a mark before and after. Without the lock it dawdles
# until the other has read it too.
WRITER = """
import sys, time
import sqlalchemy as sa
from app.persistence.session import Database
url, name, locked = sys.argv[1], sys.argv[2], sys.argv[3] == "locked"
database = Database(url)
unlocked = sa.create_engine(url, isolation_level="AUTOCOMMIT", connect_args={"timeout": 60})
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[4])):
    with database.write() if locked else unlocked.connect() as connection:
        value = connection.scalar(sa.text("select value from counter"))
        connection.execute(sa.text("insert into marks (who) values (:who)"), {"who": name})
        time.sleep(0.001)
        while not locked and not connection.scalar(sa.text("select 1 from marks where who <> :who"), {"who": name}):
            time.sleep(0.001)
        connection.execute(sa.text("update counter set value = :value"), {"value": value + 1})
        connection.execute(sa.text("insert into marks (who) values (:who)"), {"who": name})
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/purse.sqlite3")
    with database.write() as connection:
        connection.execute(sa.text("create table marks (number integer primary key autoincrement, who text)"))
        connection.execute(sa.text("create table counter (value integer)"))
        connection.execute(sa.text("insert into counter values (0)"))
    yield database
    database.close()


def _counter(database: Database) -> int:
    with database.read() as connection:
        return int(connection.scalar(sa.text("select value from counter")))


def _two_processes(url: str, mode: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, name, mode, str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=PATIENCE)
        assert writer.returncode == 0


def _interleaved(database: Database) -> int:
    """Pairs of marks that somebody else's mark broke up."""
    with database.read() as connection:
        marks = list(connection.scalars(sa.text("select who from marks order by number")))
    assert len(marks) == 4 * ROUNDS
    return sum(first != second for first, second in zip(marks[::2], marks[1::2], strict=True))


@pytest.mark.slow
def test_two_processes_interleave_only_without_the_lock(tmp_path: Path, database: Database) -> None:
    url = f"sqlite:///{tmp_path}/purse.sqlite3"
    _two_processes(url, "locked")
    assert _counter(database) == 2 * ROUNDS
    assert _interleaved(database) == 0
    with database.write() as connection:
        connection.execute(sa.text("delete from marks"))
        connection.execute(sa.text("update counter set value = 0"))
    _two_processes(url, "unlocked")  # the control
    assert _counter(database) < 2 * ROUNDS
    assert _interleaved(database) > 0


def test_threads_never_interleave(database: Database) -> None:
    def add(_: int) -> None:
        for _ in range(20):
            with database.write() as connection:
                value = connection.scalar(sa.text("select value from counter"))
                connection.execute(sa.text("update counter set value = :value"), {"value": value + 1})

    at_once(8, add)
    assert _counter(database) == 160


def test_write_takes_the_lock_before_it_reads(tmp_path: Path, database: Database) -> None:
    """`write` starts with BEGIN IMMEDIATE: inside the block no other connection can begin a write transaction."""
    other_engine = sa.create_engine(f"sqlite:///{tmp_path}/purse.sqlite3", connect_args={"timeout": 0})
    with database.write(), other_engine.connect() as connection, pytest.raises(sa.exc.OperationalError, match="locked"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    with other_engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def test_write_is_all_or_nothing(database: Database) -> None:
    def half() -> None:
        with database.write() as connection:
            connection.execute(sa.text("update counter set value = 7"))
            connection.execute(sa.text("create table half (x integer)"))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        half()
    assert _counter(database) == 0
    with database.write() as connection:
        assert "half" not in sa.inspect(connection).get_table_names()


def test_read_cannot_write(database: Database) -> None:
    with pytest.raises(Unusable), database.read() as connection:
        connection.execute(sa.text("update counter set value = 7"))
    assert _counter(database) == 0


def test_read_is_one_snapshot_and_does_not_wait_for_writers(database: Database) -> None:
    with database.read() as reader:
        assert reader.scalar(sa.text("select value from counter")) == 0
        with database.write() as writer:
            writer.execute(sa.text("update counter set value = 7"))
            assert _counter(database) == 0
        assert reader.scalar(sa.text("select value from counter")) == 0
    assert _counter(database) == 7


def test_a_single_query_reads_committed_rows(database: Database) -> None:
    counter = sa.table("counter", sa.column("value", sa.Integer))
    question = sa.select(counter.c.value).where(counter.c.value > sa.bindparam("least", type_=sa.String))
    with database.write() as connection:
        connection.execute(sa.text("update counter set value = 7"))
        assert asyncio.run(database.ask(question, {"least": "0"})) == []
    assert [tuple(row) for row in asyncio.run(database.ask(question, {"least": "0"}))] == [(7,)]


def test_a_single_query_raises_the_same_errors_as_a_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere: sa.Select[Any] = (
        sa.select(sa.column("x")).select_from(sa.table("nowhere")).where(sa.bindparam("who") == "s3cr3t")
    )
    with pytest.raises(sa.exc.DBAPIError, match="nowhere") as raised:
        asyncio.run(database.ask(nowhere, {"who": "s3cr3t"}))
    assert "s3cr3t" not in str(raised.value)

    def full() -> None:
        error = sqlite3.OperationalError("full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(reader(database), "raw_connection", full)
    with pytest.raises(OSError, match="no room"):
        asyncio.run(database.ask(nowhere, {"who": ""}))


def test_the_pragmas_make_committed_rows_durable(database: Database) -> None:
    with database.write() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_write_inside_write_is_refused_and_harmless(database: Database) -> None:
    with database.write(), pytest.raises(RuntimeError, match="within"), database.write():
        pass
    with database.write():
        pass


def test_errors_do_not_repeat_values(database: Database) -> None:
    with pytest.raises(sa.exc.DatabaseError) as caught, database.write() as connection:
        connection.execute(sa.text("insert into marks values (1, :who), (1, :who)"), {"who": "canary4711"})
    assert "canary4711" not in str(caught.value)


def test_turns_come_in_the_order_of_asking(tmp_path: Path) -> None:
    turn, order = Turn(tmp_path / "purse.sqlite3"), []

    def ask(i: int) -> None:
        with turn.hold():
            order.append(i)

    def in_line(count: int) -> bool:
        return len(turn.waiting) == count

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(30)]
    with turn.hold():
        for i, thread in enumerate(threads):
            thread.start()
            until(partial(in_line, i + 2))
    for thread in threads:
        thread.join()
    assert order == list(range(30))


def test_a_writer_of_another_process_waits_for_a_lock_without_polling(tmp_path: Path) -> None:
    """Each process has its own `Turn`."""
    file = tmp_path / "purse.sqlite3"
    order: list[str] = []
    first, second = Turn(file), Turn(file)

    def ask() -> None:
        with second.hold():
            order.append("second")

    thread = threading.Thread(target=ask)
    with first.hold():
        thread.start()
        until(lambda: second.waiting)
        with (tmp_path / ".purse.sqlite3.lock").open("ab") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    with pytest.raises(ZeroDivisionError), first.hold():
        raise ZeroDivisionError
    with second.hold():
        pass


FORKED = """
import fcntl, os, sys
from pathlib import Path
from app.persistence.files import locked
file = Path(sys.argv[1])
done, ours = os.pipe()
with locked(file):
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.read(done, 1)
        os._exit(0)
with file.with_name(f".{file.name}.lock").open("ab") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.close(ours)
os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_a_process_forked_while_a_lock_is_held_does_not_keep_the_lock(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKED, tmp_path / "purse.sqlite3"], cwd=ROOT, check=True, timeout=PATIENCE)


def test_stamps_are_of_the_given_clock(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/purse.sqlite3", SetClock())
    assert database.timestamp() == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize("url", ["sqlite://", "mysql://localhost/purse"])
def test_an_unsupported_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="only sqlite"):
        Database(url)


def test_identifiers_are_long_and_distinct() -> None:
    identifiers = {new_id("job") for _ in range(1000)}
    assert len(identifiers) == 1000
    assert all(len(i) == 24 and i.startswith("job_") and i[4:].isalnum() and i == i.lower() for i in identifiers)
