"""What the steps have to do otherwise on PostgreSQL."""

import sqlalchemy as sa
from alembic import op


def is_postgres() -> bool:
    """Whether the database is one."""
    return op.get_bind().dialect.name == "postgresql"


def free(table: str) -> None:
    """There the name of an index is one of a schema's: those of a table that is about to go give theirs away."""
    if not is_postgres():
        return
    found = sa.text("select indexname from pg_indexes where schemaname = current_schema() and tablename = :table")
    for name in op.get_bind().scalars(found, {"table": table}).all():
        op.execute(f'alter index "{name}" rename to "{name}_old"')
