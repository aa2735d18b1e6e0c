"""The schema's version, and the way to the newest. Alembic is loaded only when there is a step to take."""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from app.persistence.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

NEWEST = "0025"
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = sa.Table(  # as Alembic makes it
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def is_current(connection: sa.Connection) -> bool:
    """Whether every step has been taken."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return False
    return connection.scalars(sa.text("SELECT version_num FROM alembic_version")).all() == [NEWEST]


def create(connection: sa.Connection) -> bool:
    """Where there is no table yet, all tables as the steps would leave them; False, and nothing, elsewhere."""
    if sa.inspect(connection).get_table_names():
        return False
    metadata.create_all(connection, checkfirst=False)
    _VERSION.create(connection)
    connection.execute(_VERSION.insert().values(version_num=NEWEST))
    return True


def upgrade(connection: sa.Connection) -> None:
    """Takes the steps that are missing, inside the connection's transaction."""
    from alembic import command

    command.upgrade(config(connection), "head")


def config(connection: sa.Connection) -> "Config":
    """Alembic's, for this connection."""
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made
