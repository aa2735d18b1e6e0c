"""Check that the home directory and the database belong to the same service. Both store the service's identity.

With an empty database, every dataset of a home would look abandoned. With another home, the database would contain
charges for data that does not exist.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from app.persistence.clock import Clock
from app.persistence.dialect import Unavailable
from app.persistence.files import StartRefused, described, write_whole
from app.persistence.session import Database, new_id
from app.persistence.tables import datasets, service
from app.settings import Settings

IDENTITY_FILE = "identity"


class Misplaced(StartRefused):
    """The home and the database belong to different services; the message states how to fix it."""


def open_database(settings: Settings, clock: Clock | None = None, *, upgrade: bool = False) -> Database:
    """Open the home's database. A new database gets its tables, and a new service gets its identity.

    Parameters
    ----------
    settings : settings with the home and the database
    clock : source of timestamps
    upgrade : upgrade the schema of an older database, as SQLite does at each start (`Database.migrate`)

    Raises
    ------
    Misplaced
        if home and database belong to different services, or one of them has lost datasets of the other.
    StartRefused
        if the database does not answer, or has another version.
    """
    with refusing(settings):
        home = settings.make_home()
        database = Database(settings.database, clock)
        try:
            with database.read() as connection:
                has_identity = sa.inspect(connection).has_table(service.name)
            if not has_identity:
                database.migrate(at_start=not upgrade)
            with database.write(alone="names") as connection:
                _check_identity(connection, home, _without_password(settings.database))
            if has_identity:  # after the check, so that the database of another service is not upgraded
                database.migrate(at_start=not upgrade)
        except BaseException:
            database.close()
            raise
        return database


@contextmanager
def refusing(settings: Settings) -> Iterator[None]:
    """Turn errors of the database and of files into `StartRefused`, whose message states how to fix them.

    Parameters
    ----------
    settings : settings with the database, which the message names without its password
    """
    try:
        yield
    except Unavailable:
        raise StartRefused(
            f"the database {_without_password(settings.database)} does not answer. Check that it runs and that "
            "PURSE_DATABASE_URL is correct, then try again"
        ) from None
    except OSError as error:
        raise StartRefused(described(error)) from None


def _check_identity(connection: sa.Connection, home: Path, url: str) -> None:
    """Compare the identities of database and home, or write a new one to both. Raise `Misplaced` if they disagree."""
    file = home / IDENTITY_FILE
    stored = connection.scalar(sa.select(service.c.id))
    try:
        written = file.read_text("ascii").strip() if file.exists() else None
    except ValueError:
        raise Misplaced(f"{file} is damaged. Restore home and database from one backup") from None
    if stored is not None and stored == written:
        return
    named = set(connection.scalars(sa.select(datasets.c.folder)))
    if stored is not None:
        home_identity = "no identity" if written is None else f"the identity {written}"
        raise Misplaced(
            f"the database {url} belongs to the service {stored}, but the home {home} has {home_identity}. Set "
            "PURSE_HOME and PURSE_DATABASE_URL to a home and a database of one service, or restore both from one backup"
        )
    present = _folders(home)
    if present and not named:
        raise Misplaced(
            f"the home {home} has {len(present)} datasets, but the database {url} names none of them, because it is "
            "new or belongs to another service. Set PURSE_DATABASE_URL to the correct database, restore it, or move "
            f"{home / 'datasets'} away"
        )
    if not named <= present:
        raise Misplaced(
            f"the database {url} names datasets that are not in the home {home}. Set PURSE_HOME and "
            f"PURSE_DATABASE_URL to a home and a database of one service, or restore both from one backup"
        )
    # Write the file first: if the row is missing, the next start uses the file again.
    identity = written or new_id("svc")
    if written is None:
        write_whole(file, f"{identity}\n".encode())
    connection.execute(sa.insert(service).values(id=identity))


def _without_password(url: str) -> str:
    """Return a database URL with its password masked."""
    return sa.make_url(url).render_as_string()


def _folders(home: Path) -> set[str]:
    """Return the names of the home's datasets; hidden directories are unfinished uploads."""
    folder = home / "datasets"
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.is_dir() else set()
