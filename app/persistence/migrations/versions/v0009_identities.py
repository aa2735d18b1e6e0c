"""Identities, which outlive their tokens: each token that there is becomes one of its own."""

import itertools
import re
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from app.persistence.migrations import names

revision = "0009"
down_revision = "0008"

_OWNED = ("jobs", "analyst_spend")


def upgrade() -> None:
    """Tokens of one name may be two people's, and nobody is given another one's jobs: no two become one identity.

    The name stays with the newest of the live ones, the others get a number. What was signed keeps its names.
    """
    op.create_table(
        "identities",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.CheckConstraint("role in ('steward', 'analyst', 'auditor')", name=op.f("ck_identities_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identities")),
        sa.UniqueConstraint("name", name=op.f("uq_identities_name")),
    )
    names.free("tokens")
    op.create_table(
        "tokens_new",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("identity_id", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=200), nullable=True),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.Column("expires_at", sa.String(length=40), nullable=True),
        sa.Column("revoked_at", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_tokens_identity_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    connection = op.get_bind()
    rows = connection.execute(sa.text("select * from tokens order by revoked_at is null desc, created_at desc, id"))
    for row, name in _named(list(rows)):
        identity = {"id": _identity(row.id), "name": name, "role": row.role, "created_at": row.created_at}
        connection.execute(sa.text("insert into identities values (:id, :name, :role, :created_at)"), identity)
        if name != row.name:  # what is not yet signed will name whom it belongs to
            renamed = "update jobs set analyst = :name where owner_id = :owner and receipt is null"
            connection.execute(sa.text(renamed), {"name": name, "owner": row.id})
    taken = f"id, {_identity_sql('id')}, sha256, null, created_at, null, revoked_at"
    op.execute(f"insert into tokens_new select {taken} from tokens")
    for table in _OWNED:
        _refer_to_identities(connection, table)
    op.drop_table("tokens")
    op.rename_table("tokens_new", "tokens")


def _named(rows: list[sa.Row[tuple[str, ...]]]) -> Iterator[tuple[sa.Row[tuple[str, ...]], str]]:
    """Each with a name of its own."""
    taken, seen = {row.name for row in rows}, set[str]()
    for row in rows:
        numbered = (f"{row.name[:190]} ({number})" for number in itertools.count(2))
        name = next(one for one in numbered if one not in taken) if row.name in seen else row.name
        seen.add(row.name)
        taken.add(name)
        yield row, name


def _identity(token: str) -> str:
    return f"idn{token[3:]}"


def _identity_sql(column: str) -> str:
    return f"'idn' || substr({column}, 4)"


def _refer_to_identities(connection: sa.Connection, table: str) -> None:
    """The table again, as it stands, with its owners among the identities."""
    if names.is_postgres():
        op.drop_constraint(f"fk_{table}_owner_id", table)
        op.execute(f"update {table} set owner_id = {_identity_sql('owner_id')}")
        op.create_foreign_key(f"fk_{table}_owner_id", table, "identities", ["owner_id"], ["id"])
        return
    found = "select sql from sqlite_master where tbl_name = :table and type = :type and sql is not null"
    [made] = connection.scalars(sa.text(found), {"table": table, "type": "table"}).all()
    indexes = connection.scalars(sa.text(found), {"table": table, "type": "index"}).all()
    again = re.sub(rf'^CREATE TABLE "?{table}"?', f'CREATE TABLE "{table}_new"', made)
    connection.exec_driver_sql(again.replace("REFERENCES tokens (id)", "REFERENCES identities (id)"))
    columns = [row.name for row in connection.execute(sa.text(f"pragma table_info({table})"))]
    taken = ", ".join(_identity_sql(name) if name == "owner_id" else f'"{name}"' for name in columns)
    connection.exec_driver_sql(f"insert into {table}_new select {taken} from {table}")
    connection.exec_driver_sql(f"drop table {table}")
    connection.exec_driver_sql(f'alter table {table}_new rename to "{table}"')
    for index in indexes:
        connection.exec_driver_sql(index)
