"""The migrations lead to exactly the tables that the code names."""

import threading
from pathlib import Path

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from app.persistence.session import Database
from app.persistence.tables import metadata


def _migrated(folder: Path) -> Database:
    database = Database(f"sqlite:///{folder}/purse.sqlite3")
    database.migrate()
    return database


def _differences(database: Database, target: sa.MetaData) -> list[object]:
    with database.write() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, target))


def _statements(connection: sa.Connection) -> dict[str, set[str]]:
    rows = connection.execute(sa.text("select name, sql from sqlite_master where sql is not null"))
    return {name: {line.strip().rstrip(",").rstrip() for line in sql.splitlines()} for name, sql in rows}


def test_autogenerate_finds_no_difference(tmp_path: Path) -> None:
    database = _migrated(tmp_path)
    assert _differences(database, metadata) == []
    other = sa.MetaData()
    sa.Table("tokens", other, sa.Column("id", sa.String(64), primary_key=True))
    assert _differences(database, other) != []
    database.close()


def test_checks_and_keys_are_the_same_too(tmp_path: Path) -> None:
    """Autogenerate does not look at CHECK constraints: so the statements themselves, line by line."""
    database = _migrated(tmp_path)
    direct = sa.create_engine("sqlite://")
    metadata.create_all(direct)
    with database.read() as migrated, direct.connect() as created:
        found, expected = _statements(migrated), _statements(created)
    assert {name: lines for name, lines in found.items() if name != "alembic_version"} == expected
    assert any("CHECK" in line for line in expected["jobs"])
    database.close()


def test_migrating_again_and_at_the_same_time_changes_nothing(tmp_path: Path) -> None:
    first, second = (Database(f"sqlite:///{tmp_path}/purse.sqlite3") for _ in range(2))
    threads = [threading.Thread(target=database.migrate) for database in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.migrate()
    assert _differences(first, metadata) == []
    first.close()
    second.close()
