"""Versions of the database schema, and the upgrade to the newest one. Alembic is loaded only for an upgrade."""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from app.persistence.files import StartRefused
from app.persistence.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config  # late: few starts migrate

OLDEST = "0200"  # the first revision that was released, with version 0.2.0
NEWEST = "0202"
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = sa.Table(  # as Alembic creates it
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def is_current(connection: sa.Connection) -> bool:
    """Return whether the schema is the newest one."""
    return _revision(connection) == NEWEST


def create(connection: sa.Connection) -> bool:
    """Create all tables in an empty database; return False, and change nothing, if the database has any table."""
    if sa.inspect(connection).get_table_names():
        return False
    _create_tables(connection)
    return True


def _create_tables(connection: sa.Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    _VERSION.create(connection)
    connection.execute(_VERSION.insert().values(version_num=NEWEST))


def refuse_unknown(connection: sa.Connection) -> None:
    """Raise `StartRefused` if the schema is that of an unreleased version, or of a version newer than this one."""
    revision = _revision(connection)
    if revision is not None and revision < OLDEST:
        raise StartRefused(
            f"the database was created by an unreleased version of Privy Purse (schema {revision}), which this version "
            "cannot read. Export the models and receipts that you need with that version, then start a new home "
            "(PURSE_HOME) with an empty database"
        )
    if revision is not None and revision > NEWEST:
        raise StartRefused(
            f"the database was upgraded by a newer version of Privy Purse (schema {revision}), which this version "
            "cannot read. Start the newer version, or restore home and database from a backup of this version"
        )


def upgrade(connection: sa.Connection) -> None:
    """Run the missing migrations in the connection's transaction, or create all tables beside those of others."""
    if _revision(connection) is None:
        _create_tables(connection)
        return
    from alembic import command  # late: few starts migrate

    command.upgrade(config(connection), "head")


def config(connection: sa.Connection) -> "Config":
    """Return the Alembic configuration for this connection."""
    from alembic.config import Config  # late: few starts migrate

    configuration = Config()
    configuration.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    configuration.attributes["connection"] = connection
    return configuration


def _revision(connection: sa.Connection) -> str | None:
    """Return the revision of the schema, or None if the database has none of our tables."""
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    return connection.scalar(sa.select(_VERSION.c.version_num))
