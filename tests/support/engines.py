"""The SQLAlchemy engines of a database, to which tests attach listeners and faults."""

import sqlalchemy as sa

from app.persistence.session import Database


def writer(database: Database) -> sa.Engine:
    """Return the engine of the connections that write."""
    with database.write() as connection:
        return connection.engine


def reader(database: Database) -> sa.Engine:
    """Return the engine of the connections that read."""
    with database.read() as connection:
        return connection.engine
