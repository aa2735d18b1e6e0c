"""The migrations lead to the tables in app/persistence/tables.py, and homes of released versions are upgraded."""

import os
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.ledger.epoch import Epoch
from app.persistence.files import StartRefused
from app.persistence.schema import NEWEST, OLDEST, config, is_current, upgrade
from app.persistence.session import Database
from app.persistence.tables import metadata
from app.worker.dispatcher import Dispatcher
from tests.support.inline_engine import InlineEngine
from tests.support.postgres import Cluster
from tests.support.threads import at_once
from tests.support.world import World, run_out

FROZEN_HOMES = sorted(Path(__file__).parent.glob("home_*.zip"))


def _database(folder: Path) -> Database:
    """Return a database that is empty; on PostgreSQL if the test runs there."""
    return Database(os.environ.get("PURSE_DATABASE_URL") or f"sqlite:///{folder}/purse.sqlite3")


def _upgraded(folder: Path) -> Database:
    """Return a database of the oldest released version, upgraded by every migration."""
    oldest = FROZEN_HOMES[0]
    if "PURSE_DATABASE_URL" not in os.environ:
        shutil.unpack_archive(oldest, folder)
    database = _database(folder)
    with database.write() as connection:
        if connection.dialect.name == "postgresql":
            for statement in oldest.with_suffix(".sql").read_text().split(";\n"):
                if statement:
                    connection.exec_driver_sql(statement)
            MigrationContext.configure(connection).stamp(ScriptDirectory.from_config(config(connection)), OLDEST)
        upgrade(connection)
    return database


def _differences(database: Database, target: sa.MetaData) -> list[object]:
    with database.write() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, target))


def _statements(database: Database) -> dict[str, set[str]]:
    """Return the lines of each table's and index's definition; autogenerate does not compare CHECK constraints."""
    with database.read() as connection:
        rows = connection.execute(sa.text("select name, sql from sqlite_master where sql is not null")).all()
    return {name: {line.strip().rstrip(",").rstrip() for line in sql.splitlines()} for name, sql in rows}


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_autogenerate_finds_no_difference(tmp_path: Path) -> None:
    database = _upgraded(tmp_path)
    assert _differences(database, metadata) == []
    changed = sa.MetaData()
    sa.Table("tokens", changed, sa.Column("id", sa.String(64), primary_key=True))
    assert _differences(database, changed) != []
    database.close()


def test_a_new_database_equals_an_upgraded_one(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    new, upgraded = Database(f"sqlite:///{tmp_path}/new/purse.sqlite3"), _upgraded(tmp_path)
    new.migrate()
    assert _statements(new) == _statements(upgraded)
    assert any("CHECK" in line for line in _statements(new)["jobs"])
    for database in (new, upgraded):
        with database.read() as connection:
            assert is_current(connection)
            assert ScriptDirectory.from_config(config(connection)).get_heads() == [NEWEST]
        database.close()


_CATALOG_QUERIES = (
    "select table_name, column_name, data_type, character_maximum_length, is_nullable, column_default "
    "from information_schema.columns where table_schema = 'public'",
    "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint "
    "where connamespace = 'public'::regnamespace",
    "select indexname, indexdef, null from pg_indexes where schemaname = 'public'",
    "select sequencename, null, null from pg_sequences where schemaname = 'public'",
)


def _schema(database: Database) -> set[tuple[object, ...]]:
    """Return the columns, constraints, indexes and sequences as PostgreSQL describes them."""
    with database.read() as connection:
        return {tuple(row) for query in _CATALOG_QUERIES for row in connection.execute(sa.text(query))}


@pytest.mark.slow
@pytest.mark.usefixtures("on_postgres")
def test_a_new_database_equals_an_upgraded_one_on_postgresql(tmp_path: Path, cluster: Cluster) -> None:
    upgraded, new = _upgraded(tmp_path), Database(cluster.database())
    new.migrate()
    assert _schema(upgraded) == _schema(new)
    assert len(_schema(new)) > 100, "there was something to compare"
    upgraded.close()
    new.close()


@pytest.mark.usefixtures("each_database")
def test_migrating_again_and_at_the_same_time_changes_nothing(tmp_path: Path) -> None:
    first, second = databases = [_database(tmp_path) for _ in range(2)]
    at_once(2, lambda i: databases[i].migrate())
    first.migrate()
    assert _differences(first, metadata) == []
    first.close()
    second.close()


@pytest.mark.parametrize(("revision", "advice"), [("0001", "Export"), ("0025", "Export"), ("9999", "newer")])
@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.usefixtures("each_database")
def test_a_schema_of_an_unreleased_or_newer_version_is_refused(
    tmp_path: Path, revision: str, advice: str, at_start: bool
) -> None:
    database = _database(tmp_path)
    database.migrate()
    with database.write() as connection:
        connection.execute(sa.text("update alembic_version set version_num = :revision"), {"revision": revision})
    with pytest.raises(StartRefused, match=advice):
        database.migrate(at_start=at_start)
    database.close()


@pytest.mark.parametrize("archive", FROZEN_HOMES, ids=lambda archive: archive.stem)
def test_a_home_of_a_released_version_is_upgraded(tmp_path: Path, archive: Path) -> None:
    """`World.check` verifies the ledger and each issued receipt; a queued job runs under its old charge."""
    shutil.unpack_archive(archive, tmp_path / "home")
    world = World.at(tmp_path / "home")
    assert world.check() == {"done": 1, "cancelled": 1, "queued": 1}
    Epoch.open(world.settings, world.database)
    with world.database.read() as connection:
        assert is_current(connection)
    dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine())
    dispatcher.step()
    run_out(world, dispatcher, seconds=10_000.0)  # a new clock starts before the submission
    assert world.check() == {"done": 2, "cancelled": 1}


def test_a_frozen_home_of_an_older_version_exists() -> None:
    assert [archive.stem for archive in FROZEN_HOMES][:1] == ["home_0_2_0"]


@pytest.mark.parametrize(
    ("query", "search"),
    [
        (
            "where number > 0 and owner_id = 'idn_1' order by number limit 9",
            "INDEX ix_jobs_owner (owner_id=? AND number>?)",
        ),
        (
            "where dataset_id = 'ds_1' and kind = 'profile' and state = 'done' "
            "order by finished_at desc, number desc limit 1",
            "INDEX ix_jobs_released (dataset_id=? AND kind=? AND state=?)",
        ),
    ],
    ids=["jobs of an owner", "latest profile of a dataset"],
)
def test_frequent_queries_use_an_index(tmp_path: Path, query: str, search: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/purse.sqlite3")
    database.migrate()
    with database.read() as connection:
        plan = connection.execute(sa.text(f"explain query plan select id from jobs {query}")).all()
    assert [row.detail for row in plan] == [f"SEARCH jobs USING {search}"]
    database.close()
