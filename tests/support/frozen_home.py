"""Write the home and the schema that tests/unit/app/test_migrations.py upgrades.

    python -m tests.support.frozen_home tests/unit/app/home_X_Y_Z.zip

Run it once for each release that changes the schema, and keep the files of earlier releases. The home holds one dataset
and three jobs: one is done, one cancelled, one queued. `home_X_Y_Z.sql` beside it has the schema for PostgreSQL.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.jobs import service
from app.ledger.epoch import Epoch
from app.persistence.tables import metadata
from app.worker.dispatcher import Dispatcher
from tests.support.inline_engine import InlineEngine
from tests.support.world import World, run_out


def write(archive: Path) -> None:
    """Write a home of the installed version into a zip archive."""
    with tempfile.TemporaryDirectory() as folder:
        world = World.at(Path(folder) / "home")
        Epoch.open(world.settings, world.database)
        dataset = world.dataset(rows=40)
        world.submit(dataset)
        dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine())
        dispatcher.step()
        run_out(world, dispatcher)
        service.cancel(world.database, world.analyst, world.submit(dataset).id)
        world.submit(dataset)
        assert world.check() == {"done": 1, "cancelled": 1, "queued": 1}
        world.database.close()
        shutil.make_archive(str(archive.with_suffix("")), "zip", world.settings.home)


def write_schema(file: Path) -> None:
    """Write the statements that create the installed version's tables on PostgreSQL."""
    statements: list[str] = []

    def note(statement: sa.schema.ExecutableDDLElement, *_: object, **__: object) -> None:
        lines = str(statement.compile(dialect=postgresql.dialect())).strip().splitlines()
        statements.append("\n".join(line.rstrip() for line in lines))

    metadata.create_all(sa.create_mock_engine("postgresql+psycopg://", note), checkfirst=False)
    file.write_text("".join(f"{statement};\n" for statement in statements))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    write_schema(Path(sys.argv[1]).with_suffix(".sql"))
