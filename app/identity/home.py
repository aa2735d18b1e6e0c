"""A home and its database belong to one service. Both hold its identity, and no other pair of the two is opened.

Beside an empty database every dataset of a home would look abandoned; beside another home every charge would be for
data that is not there.
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
    """The home and the database are not of one service; the message says what to do."""


def open_database(settings: Settings, clock: Clock | None = None, *, upgrade: bool = False) -> Database:
    """The home's database, its tables made if there are none; a new service gets its identity here, once.

    Parameters
    ----------
    upgrade : bring an older one up to date, as SQLite's is at each start (`Database.migrate`)

    Raises
    ------
    Misplaced
        if the two belong to different services, or one of them has lost what the other one knows. `StartRefused` if the
        database does not answer, or is of another version.
    """
    with refusing(settings):
        return _opened(settings, clock, upgrade)


@contextmanager
def refusing(settings: Settings) -> Iterator[None]:
    """Turn errors of the database and of files into `StartRefused`, whose message says what to do.

    Parameters
    ----------
    settings : whose database the message names, without its password
    """
    try:
        yield
    except Unavailable:
        raise StartRefused(
            f"the database {_public(settings.database)} does not answer: check that it runs and that "
            "PURSE_DATABASE_URL is right, and try again"
        ) from None
    except OSError as error:
        raise StartRefused(described(error)) from None


def _opened(settings: Settings, clock: Clock | None, upgrade: bool) -> Database:
    home, database = settings.make_home(), Database(settings.database, clock)
    try:
        with database.read() as connection:
            says_whose = sa.inspect(connection).has_table(service.name)
        if not says_whose:
            database.migrate(at_start=not upgrade)
        with database.write(alone="names") as connection:
            _agree(connection, home, _public(settings.database))
        if says_whose:  # another service's database is not brought up to date
            database.migrate(at_start=not upgrade)
    except BaseException:
        database.close()
        raise
    return database


def _agree(connection: sa.Connection, home: Path, url: str) -> None:
    file = home / IDENTITY_FILE
    stored = connection.scalar(sa.select(service.c.id))
    try:
        written = file.read_text("ascii").strip() if file.exists() else None
    except ValueError:
        raise Misplaced(f"{file} is damaged: restore home and database from one backup") from None
    if stored is not None and stored == written:
        return
    named = set(connection.scalars(sa.select(datasets.c.folder)))
    if stored is not None:
        recorded = "no identity" if written is None else f"the identity {written}"
        raise Misplaced(
            f"the database {url} is that of the service {stored}, and the home {home} has {recorded}: name the home "
            f"and the database that belong together (PURSE_HOME, PURSE_DATABASE_URL), or restore both from one backup"
        )
    there = _folders(home)
    if there and not named:
        raise Misplaced(
            f"the home {home} holds {len(there)} datasets and the database {url} knows none: it is new, or that of "
            f"another service; name the right one (PURSE_DATABASE_URL) or restore it, or move {home / 'datasets'} away"
        )
    if not named <= there:
        raise Misplaced(
            f"the database {url} names datasets that are not in the home {home}: name the home and the database that "
            f"belong together (PURSE_HOME, PURSE_DATABASE_URL), or restore both from one backup"
        )
    # The file comes first: without the row it is taken up again by the next start.
    identity = written or new_id("svc")
    if written is None:
        write_whole(file, f"{identity}\n".encode())
    connection.execute(sa.insert(service).values(id=identity))


def _public(url: str) -> str:
    """Without the password."""
    return sa.make_url(url).render_as_string()


def _folders(home: Path) -> set[str]:
    """The names of the home's datasets; what is hidden is an upload on its way."""
    folder = home / "datasets"
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.is_dir() else set()
