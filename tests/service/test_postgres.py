"""Tests on a real PostgreSQL of behavior that may differ by database, and of features that only it has."""

import json
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from app.identity.home import Misplaced
from app.jobs import queue as claims
from app.jobs import rollback, service
from app.ledger import audit
from app.ledger import store as ledger
from app.ledger.epoch import BelowEpoch, Epoch
from app.operations.backup import back_up
from app.persistence import postgres
from app.persistence.dialect import Unavailable
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.tables import datasets, jobs, metadata
from app.worker.dispatcher import Dispatcher
from tests.service.conftest import MakeService
from tests.support.cli import purse
from tests.support.engines import writer
from tests.support.inline_engine import InlineEngine
from tests.support.patience import until
from tests.support.postgres import Cluster
from tests.support.queues import replace_jobs
from tests.support.service import JOB
from tests.support.steps import STEPS, everything_ends
from tests.support.world import World, run_out

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("on_postgres")]


def _end_session(connection: Any) -> None:
    """Let the server end this session, as a restart or an operator does."""
    with closing(psycopg.connect(connection.info.dsn, autocommit=True)) as administrator:
        administrator.execute("select pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])


@contextmanager
def _lost_at(database: Database, statement: int) -> Iterator[None]:
    """Lose the connection before the n-th statement of the next write, or the commit's answer after the last."""
    remaining, engine = statement, writer(database)
    commit = engine.dialect.do_commit

    def count(connection: sa.Connection, *_: Any) -> None:
        nonlocal remaining
        if remaining == 0:
            _end_session(connection.connection.dbapi_connection)
        remaining -= 1

    def unheard(connection: Any) -> None:
        nonlocal remaining
        if remaining == 0:
            _end_session(connection.driver_connection)
        commit(connection)
        if remaining == 1:
            connection.driver_connection.close()
            raise psycopg.OperationalError("the answer was lost")
        remaining -= 2

    sa.event.listen(engine, "before_cursor_execute", count)
    engine.dialect.do_commit = unheard  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        engine.dialect.do_commit = commit  # type: ignore[method-assign]
        sa.event.remove(engine, "before_cursor_execute", count)


LOST = ("submit", "claim", "release", "cancel_queued", "delete")


@pytest.mark.parametrize("name", LOST)
def test_a_connection_lost_at_any_statement_leaves_all_or_nothing(name: str, world: World) -> None:
    """It may be lost at a statement, at the commit or after it. A repeated request is executed once."""
    step, state_before, unheard = STEPS[name](world), world.dump(), 0
    for statement in range(100):
        try:
            with _lost_at(world.database, statement):
                step()
        except Unavailable:
            world.check()
            unheard += world.dump() != state_before
            if unheard:
                break
        else:
            break
    assert statement >= 3, "there was something to lose"
    assert unheard, "the last step was committed without an answer"
    everything_ends(world)


def test_a_claim_whose_commit_was_not_acknowledged_is_run(tmp_path: Path) -> None:
    """Its holder is alive, so no server takes it over, and it is no longer queued."""
    world, engine = World.at(tmp_path / "home"), InlineEngine()
    dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
    job = world.submit(world.dataset()).id
    for statement in range(30):
        with suppress(Unavailable), _lost_at(world.database, statement):
            dispatcher.step()
        if world.job(job).state == "running":
            break
    assert engine.submitted == []
    dispatcher.step()
    run_out(world, dispatcher)
    assert (world.job(job).state, engine.submitted) == ("done", [(job, 2)])
    world.check()


def test_a_claim_steps_through_the_queue(world: World) -> None:
    """It goes from one analyst to the next by an index, never from the index's beginning."""
    queries: list[tuple[str, Any]] = []
    dataset = world.dataset()
    people = [world.analyst.id, *(world.join(f"analyst {n}").id for n in range(9))]
    world.submit(dataset)
    replace_jobs(world, 200 * [(analyst, dataset) for analyst in people], [])
    with world.database.write() as connection:
        connection.execute(sa.text("analyze jobs"))
    with world.database.read() as connection:

        @sa.event.listens_for(connection, "before_cursor_execute")
        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
            queries.append((statement, parameters))

        assert claims.claimable(connection, [], (), claims.NO_LIMITS) is not None
        plans = [
            "\n".join(connection.exec_driver_sql(f"EXPLAIN {statement}", values).scalars())
            for statement, values in list(queries)
            if "RECURSIVE" in statement
        ]
    steps = [step.partition("Index Cond: ")[2] for plan in plans for step in plan.split("ix_jobs_queued")[1:]]
    assert len(steps) == 3
    assert all(step.startswith(("(state = 'queued'", "((state = 'queued'")) for step in steps), plans


def test_a_job_that_is_cancelled_at_any_statement_of_its_claim_is_refunded_or_runs(tmp_path: Path) -> None:
    """Another server cancels it between the claim's reads and the lock of the ledger. Never do both happen."""
    world = World.at(tmp_path / "home")
    neighbour, dataset = World.at(tmp_path / "home"), world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
    engine, refunded = writer(world.database), Counter[bool]()
    world.release(dataset)

    def is_over_or_locked_out(cancelling: threading.Thread) -> bool:
        with neighbour.database.read() as connection:
            locked = connection.scalar(sa.text("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"))
        return bool(locked) or not cancelling.is_alive()

    for statement in range(100):
        remaining, cancelling = statement, None
        job = world.submit(dataset, privacy={"epsilon": 0.1}).id

        def cancel(*_: Any, job: str = job) -> None:
            nonlocal remaining, cancelling
            if remaining == 0:
                cancelling = threading.Thread(target=service.cancel, args=(neighbour.database, world.analyst, job))
                cancelling.start()
                until(partial(is_over_or_locked_out, cancelling))
            remaining -= 1

        sa.event.listen(engine, "before_cursor_execute", cancel)
        try:
            claim = world.claim()
        finally:
            sa.event.remove(engine, "before_cursor_execute", cancel)
        if cancelling is None:
            break
        cancelling.join()
        refunded[claim is None] += 1
        world.check()
    assert refunded[True] > 2, "before the lock"
    assert refunded[False] > 2, "and behind it"
    neighbour.database.close()


def test_without_the_database_requests_get_503_and_nothing_is_lost(
    tmp_path: Path, make_service: MakeService, cluster: Cluster
) -> None:
    with make_service(tmp_path / "home") as service:
        request: dict[str, Any] = {"json": JOB | {"dataset": service.dataset()}, "headers": {"Idempotency-Key": "k"}}
        finished = service.finished(service.call("analyst", "POST", "/v1/jobs", **request).json()["id"])
        again = request | {"headers": {"Idempotency-Key": "k2"}}
        cluster.stop(signal.SIGKILL)
        for call in (
            ("POST", "/v1/jobs", again),
            ("GET", f"/v1/jobs/{finished['id']}", {}),
            ("GET", "/v1/datasets", {}),
        ):
            answer = service.call("analyst", call[0], call[1], **call[2])
            assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
            assert int(answer.headers["Retry-After"]) > 0
        assert service.client.get("/health/ready").status_code == 503
        assert service.client.get("/health/live").status_code == 200
        cluster.start()
        response = service.call("analyst", "POST", "/v1/jobs", **again)
        assert response.status_code == 202
        assert service.finished(response.json()["id"])["state"] == service.finished(finished["id"])["state"] == "done"
        until(lambda: service.client.get("/health/ready").status_code == 200)


def test_a_request_that_waits_too_long_for_a_ledger_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped writer holds the lock of one ledger. Other ledgers accept jobs meanwhile."""
    monkeypatch.setitem(postgres.WRITER_TIMEOUTS, "lock_timeout", "300ms")
    world = World.at(tmp_path / "home")
    first, second = world.dataset(), world.dataset()
    neighbour = World.at(tmp_path / "home")
    with world.database.write() as connection:
        ledger.lock(connection, datasets.c.id == first)
        with pytest.raises(Unavailable):
            neighbour.submit(first)
        assert neighbour.submit(second).state == "queued"
    assert neighbour.submit(first).state == "queued"
    neighbour.database.close()


def test_a_writer_that_was_stopped_loses_lock_and_write(tmp_path: Path) -> None:
    """Other servers continue after a SIGSTOP in a transaction, whose changes are rolled back."""
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    neighbour = World.at(tmp_path / "home")
    limit = "idle_in_transaction_session_timeout"

    def stopped() -> None:
        with world.database.write() as connection:
            assert connection.scalar(sa.text(f"show {limit}")) == "1min"
            # The limit holds for this transaction only, so that slow ones are not cut off.
            connection.execute(sa.text(f"set local {limit} = '300ms'"))
            ledger.lock(connection, datasets.c.id == dataset)
            connection.execute(sa.update(datasets).values(name="lost"))
            assert neighbour.submit(dataset).state == "queued"

    with pytest.raises(Unavailable):
        stopped()
    world.check()
    with world.database.read() as connection:
        assert connection.scalars(sa.select(datasets.c.name)).all() == ["people 1"]
    neighbour.database.close()


def test_without_room_it_says_so(world: World) -> None:
    with pytest.raises(OSError, match="no room") as caught, world.database.write() as connection:
        connection.execute(sa.text("do $$ begin raise exception 'full' using errcode = '53100'; end $$"))
    assert not isinstance(caught.value, Unavailable)


def test_a_start_does_not_upgrade_a_database_that_other_servers_may_use(cluster: Cluster) -> None:
    """Our tables are created beside another application's only by `purse server migrate`."""
    database = Database(cluster.emptied())
    with database.write() as connection:
        connection.execute(sa.text("create table another_application (id integer)"))
    with pytest.raises(StartRefused, match="purse server migrate"):
        database.migrate(at_start=True)
    database.migrate()
    database.migrate(at_start=True)
    database.close()


def test_the_address_of_the_database_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSE_DATABASE_URL", f"postgresql://purse:s3cr3t@/purse?host={tmp_path}")
    with pytest.raises(StartRefused, match="does not answer") as refused:
        World.at(tmp_path / "home")
    assert "s3cr3t" not in str(refused.value)


def test_a_dump_is_restored_as_documented_and_an_older_one_is_detected(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, load = cluster.program("pg_dump"), cluster.program("pg_restore")
    if dump is None or load is None:
        pytest.skip("pg_dump or pg_restore is not there")
    monkeypatch.setenv("PURSE_EPOCH_FILE", str(tmp_path / "elsewhere"))
    world = World.at(tmp_path / "home")
    Epoch.open(world.settings, world.database)
    dataset = world.dataset()
    world.release(dataset)
    file = tmp_path / "service.dump"
    subprocess.run([dump, "--format=custom", "--file", file, world.settings.database], check=True)
    back_up(world.settings, tmp_path / "copy")

    def restored(name: str) -> World:
        fresh = cluster.database("template0")
        subprocess.run([load, "--exit-on-error", "--dbname", fresh, file], check=True)
        shutil.copytree(tmp_path / "copy", tmp_path / name)
        monkeypatch.setenv("PURSE_DATABASE_URL", fresh)
        return World.at(tmp_path / name)

    first = restored("first")
    assert purse(capsys, "ledger", "verify", "--home", str(tmp_path / "first"))[0] == 0
    Epoch.open(first.settings, first.database)
    assert audit.verify(first.database) == audit.verify(world.database) == {dataset: None}
    first.release(dataset)  # which the dump does not know

    second = restored("second")
    assert purse(capsys, "ledger", "verify", "--home", str(tmp_path / "second"))[0] == 1
    with pytest.raises(BelowEpoch, match=f"{dataset} lacks its head"):
        Epoch.open(second.settings, second.database)
    assert set(rollback.accept(second.database, second.settings, "the drill").ledgers) == {dataset}
    Epoch.open(second.settings, second.database)
    with second.database.read() as connection:
        state = ledger.load_state(connection, dataset)
    assert state.frozen
    for each in (world, first, second):
        each.database.close()


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An installation on SQLite, with a release and a job that waits."""
    with monkeypatch.context() as patch:
        patch.delenv("PURSE_DATABASE_URL")
        world = World.at(tmp_path / "home")
        Epoch.open(world.settings, world.database)
        world.submit(world.dataset(family="people"))
        claim = world.claimed()
        world.end(claim)
        world.submit(world.dataset(family="people"), key="waits")
    yield world
    world.database.close()


def _copy(world: World, capsys: pytest.CaptureFixture[str]) -> Any:
    code, out, _ = purse(capsys, "server", "copy-database", "--home", str(world.settings.home), "--json")
    answer = json.loads(out)
    return answer if code == 0 else answer["detail"]


def test_an_installation_moves_as_a_whole(
    moved: World, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row moves. The home keeps its keys and its epoch, and the old database is refused from then on."""
    with psycopg.connect(cluster.url("purse"), autocommit=True) as target:
        target.execute("create table somebodys (x int)")
        assert "empty database" in _copy(moved, capsys)
        target.execute("drop table somebodys")
    with moved.database.read() as connection:
        rows_before = [connection.execute(sa.select(t).order_by(*t.primary_key)).all() for t in metadata.sorted_tables]
    report = _copy(moved, capsys)
    assert (len(report["ledgers"]), report["receipts"], report["rows"]["jobs"]) == (1, 1, 2)
    world = World.at(tmp_path / "home")
    with world.database.read() as connection:
        rows_after = [connection.execute(sa.select(t).order_by(*t.primary_key)).all() for t in metadata.sorted_tables]
    assert [set(rows) for rows in rows_before] == [set(rows) for rows in rows_after]
    Epoch.open(world.settings, world.database)
    [dataset, _] = [row.id for row in rows_before[metadata.sorted_tables.index(datasets)]]
    world.submit(dataset, key="next")
    with world.database.read() as connection:
        assert sorted(connection.scalars(sa.select(jobs.c.number))) == [1, 2, 3]
    everything_ends(world)
    with pytest.raises(BelowEpoch):
        Epoch.open(moved.settings, moved.database)
    assert "service moved" in _copy(moved, capsys)
    monkeypatch.delenv("PURSE_DATABASE_URL")
    with pytest.raises(Misplaced, match="service moved"):
        World.at(tmp_path / "home")


def test_an_inconsistent_database_is_not_copied(
    moved: World, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    spoils = {
        "jobs.receipt": "no key of the home signed its receipt",
        "ledgers.state": "state.filter",
        "ledger_entries.body": "the chain breaks",
    }
    for place, wrong in spoils.items():
        table, column = place.split(".")
        with moved.database.write() as connection:
            spoiled = f"update {table} set {column} = replace({column}, '1', '2') where {column} is not null"
            connection.execute(sa.text(spoiled))
        detail = _copy(moved, capsys)
        assert "nothing was copied" in detail
        assert wrong in detail
        with psycopg.connect(cluster.url("purse")) as target:
            assert target.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)
